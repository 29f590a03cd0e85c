"""Configurations: every shipped one is right, and a mistake is named in one sentence."""

import copy
from importlib import import_module

import pyonmttok
import pytest
import torch
import yaml
from paths import ROOT

from onmt_define.errors import UserError
from onmt_define.schema import load_yaml, validate
from onmt_define.workflow.config import complete_config, load_config, settings_key
from onmt_define.workflow.plan import check_options, training_options

SHIPPED = [
    ROOT / "config.yaml",
    *sorted((ROOT / "configs").glob("*.yaml")),
    *sorted((ROOT / "benchmarks").glob("*.yaml")),
]
DEMO = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text())


NO_FILES = {"train": "nowhere/a", "valid": "nowhere/b", "test": "nowhere/c"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_configurations_pass_every_check(path):
    check_options(load_config(path), path.name, gpus_given=None)


@pytest.mark.parametrize(
    ("run", "millions"),
    [("standard", 92), ("define", 69), ("projective", 68), ("define-shared", 49)],
)
def test_sizes_of_the_papers_models(run, millions):
    """Of vocabularies of 31,000, without any memory for the weights."""
    config = load_config(ROOT / "config.yaml")
    parser = import_module("onmt.bin.train")._get_parser()
    required = {"data": {}, "src_vocab": "-"}
    contents = yaml.safe_dump({**training_options(config, run), **required})
    opt, _ = parser.parse_known_args(args=[], config_file_contents=contents)
    parser.update_model_opts(opt)
    sizes = {"src": 31_000, "tgt": 31_000}
    specials = ["<unk>", "<blank>", "<s>", "</s>"]
    words = {
        side: pyonmttok.build_vocab_from_tokens(
            [f"w{number}" for number in range(size)], special_tokens=specials
        )
        for side, size in sizes.items()
    }
    vocabularies = {**words, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    if opt.share_vocab:
        vocabularies["tgt"] = vocabularies["src"]
    with torch.device("meta"):
        model = import_module("onmt.model_builder").build_base_model(opt, vocabularies)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert round(count / 1e6) == millions


def test_defaults_are_filled_in_without_touching_the_original():
    original = copy.deepcopy(DEMO)
    config = complete_config(DEMO, "demo.yaml")
    assert original == DEMO
    assert config["mirror"] is None
    assert config["cleaning"] == {
        "max_tokens": 100,
        "max_length_ratio": 2.0,
        "aggressive_dashes": False,
    }
    run = config["translation"]["runs"][0]
    assert (run["seeds"], run["gpus"]) == ([1], 1)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_resolved_configuration_is_one_too(path):
    """The report hands it out, so that another person can repeat its rows."""
    config = load_config(path)
    assert complete_config(copy.deepcopy(config), "config.yaml") == config


def changed(**changes):
    """The demo's configuration with values at dotted paths replaced; `...` deletes the key."""
    config = copy.deepcopy(DEMO)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = config
        for parent in parents:
            place = place[int(parent) if parent.isdigit() else parent]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return config


PAIR = {"source": "a.en", "target": "a.de"}


def with_files(**files):
    files = {"train": PAIR, "valid": PAIR, "test_sets": {"news": PAIR}, **files}
    return changed(corpus={"name": "x", "files": files}, test_sets=["news"])


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (None, "the document is None, expected object"),
        ([1], "the document is [1], expected object"),
        (changed(name=...), "the document lacks the key 'name' (Folder under results/"),
        (changed(nmae="x"), "unknown key 'nmae', did you mean 'name'?"),
        (changed(name="../x"), "name: '../x' does not match"),
        (changed(allow_cpu="yes"), "allow_cpu is 'yes', expected boolean"),
        (
            changed(compression={"runs": ["lstm"]}),
            "compression.runs has 'lstm', expected one of standard, define, lstm-define",
        ),
        (changed(compression={"codes": 1}), "compression.codes: 1 is less than the minimum of 2"),
        (
            changed(translation__baseline="stndard"),
            "translation.baseline is 'stndard', expected one of the runs: standard, define",
        ),
        (
            changed(translation__runs__1__baseline="stndard"),
            "translation.runs[1].baseline is 'stndard', expected one of the runs: standard, define",
        ),
        (
            changed(translation__runs__1__paper="table1a/R3"),
            "translation, run 'define': paper is 'table1a/R3', which isn't a translation model tr",
        ),
        (
            changed(translation__runs__1__paper="table3/vaswani"),
            "translation, run 'define': paper is 'table3/vaswani', which isn't a translation model",
        ),
        (
            changed(translation__runs__1__paper="table3/defin"),
            "translation, run 'define': the paper has no row 'table3/defin', did you mean table3/d",
        ),
        (changed(translation__averaging=-1), "averaging: -1 is less than the minimum of 0"),
        (changed(bpe__merges="many"), "bpe.merges is 'many', expected integer"),
        (changed(bpe__merges=2.0), "bpe.merges is 2.0, expected integer"),
        (changed(cleaning={"max_length_ratio": float("nan")}), "is nan, expected number"),
        (changed(bpe__merges=0), "bpe.merges: 0 is less than the minimum of 1"),
        (changed(bpe__merge=3), "unknown key 'bpe.merge', did you mean 'merges'?"),
        (changed(test_sets=[]), "test_sets: [] should be non-empty"),
        (changed(test_sets=["other"]), "a generated corpus has the one test set 'test'"),
        (
            changed(test_sets=["train"], corpus__generate=..., corpus__download="multi30k"),
            "can't be called",
        ),
        (
            changed(corpus={"name": "x", "download": "multi3k"}),
            "there is no corpus named 'multi3k'; known are: multi30k, wmt14",
        ),
        (
            changed(corpus={"name": "x", "download": "multi30k"}),
            "there is no test set for corpus multi30k named 'test'",
        ),
        (
            changed(corpus={"name": "x", "download": "ptb"}),
            "corpus ptb isn't one for en and de, expected one of: multi30k, wmt14",
        ),
        (
            changed(language_models__runs__0__corpus={"download": "wmt14"}),
            "corpus wmt14 isn't one for language models, expected one of: ptb, wikitext-2",
        ),
        (
            changed(language_models__runs__0__paper="table1a/R9"),
            "language_models, run 'lstm-define': the paper has no row 'table1a/R9', did you mean",
        ),
        (
            changed(language_models__runs__0__paper="table3/define"),
            "paper is 'table3/define', which isn't a language model trained here, expected one of",
        ),
        (
            changed(language_models__runs__0__corpus={"language": "fr"}),
            "run 'lstm-define': language is 'fr', expected one of en, de",
        ),
        (
            changed(translation__training={3: 4}),
            "translation.training has the key 3, expected text",
        ),
        (
            with_files(test_sets={2017: PAIR}),
            "corpus.files.test_sets has the key 2017, expected te",
        ),
        (with_files(test_sets={"a+b": PAIR}), "corpus.files.test_sets: 'a+b' does not match"),
        (
            with_files(valid={**PAIR, "source": "{x}.en"}),
            "'{x}.en' does not match '^[^{}]+$' (A pa",
        ),
        (with_files(train={**PAIR, "source": ["{x}"]}), "'{x}' does not match '^[^{}]+$' (A path"),
        (with_files(train={**PAIR, "source": "{x}"}), "'{x}' does not match '^[^{}]+$' (A path or"),
        (with_files(train={**PAIR, "source": ""}), "'' does not match '^[^{}]+$' (A path or"),
        (with_files(train={"source": ["a", "b"], "target": "c"}), "has 2 source and 1 target file"),
        (changed(source_language="fr"), "a generated corpus has the languages en and de only"),
        (changed(target_language="en"), "a generated corpus has the languages en and de only"),
        (changed(corpus={"name": "x"}), "corpus has none of them, expected exactly one of"),
        (changed(corpus__download="wmt14"), "corpus has download and generate, expected exactly"),
        (changed(translation__runs__1__name="standard"), "2 runs in translation are called"),
        (
            changed(translation__runs__0__seeds=[]),
            "translation.runs.0.seeds: [] should be non-empty",
        ),
        (changed(translation__runs__0__seeds=[2**70]), "greater than the maximum of 2147483647"),
        (
            changed(translation__runs__0__gpu=1),
            "unknown key 'translation.runs.0.gpu', did you mean",
        ),
        (
            changed(corpus={"name": "x", "files": {"train": "a.en"}}),
            "corpus.files lacks the key 'valid'",
        ),
    ],
)
def test_a_wrong_configuration_is_named(config, sentence):
    with pytest.raises(UserError) as error:
        complete_config(config, "my.yaml")
    assert sentence in str(error.value)
    assert str(error.value).startswith("my.yaml")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (changed(translation__training__layer=2), "unknown key 'layer'"),
        (changed(translation__training__layers="two"), "layers is 'two', expected a whole number"),
        (changed(translation__training__train_steps=...), "train_steps is missing"),
        (changed(translation__training__train_steps=None), "train_steps is missing"),
        (changed(translation__training__heads=7), "heads is 7, expected a divisor of hidden_size"),
        (changed(translation__training__heads=0), "heads is 0, expected 1 to"),
        (
            changed(translation__runs__1__options__define_depth=10**9),
            "define_depth is 1000000000, expected at most 100",
        ),
        (changed(translation__training__train_steps=0), "train_steps is 0, expected 1 to"),
        (
            changed(translation__training__batch_size=10**30),
            f"batch_size is {10**30}, expected 1 to 100,000,000",
        ),
        (
            changed(translation__training__bucket_size=float("inf")),
            "bucket_size is 'inf', expected a whole number",
        ),
        (
            changed(translation__training__learning_rate=float("nan")),
            "learning_rate is nan, expected 0 to 1,000,000",
        ),
        (changed(translation__training__dropout=[0.1, 3]), "dropout is 3.0, expected 0 to 1"),
        (changed(translation__training__layers=[2]), "layers is [2], expected one value"),
        (
            changed(translation__runs__1__options__define_expand_dim=10**15),
            f"define_expand_dim is {10**15}, expected at most",
        ),
        (changed(translation__decoding__beam_size=0), "beam_size is 0, expected 1 to 10,000"),
        (changed(translation__training__seed=2), "the option 'seed' is set by the workflow"),
        (
            changed(translation__runs__1__options__define_dept=3),
            "run 'define': unknown key 'define_dept', did you mean 'define_depth'?",
        ),
        (
            changed(translation__runs__1__options__define_map_dim=60),
            "run 'define': define_map_dim is 60, expected a multiple of 8",
        ),
        (
            changed(translation__runs__1__options__word_vec_size=64),
            "word_vec_size is 64, but a Transformer of hidden_size 128",
        ),
        (changed(translation__decoding__beam=4), "translation.decoding: unknown key 'beam'"),
        (
            changed(translation__runs__1__options__embedding_type=None),
            "run 'define': embedding_type is null, expected a value; or leave it out",
        ),
        (
            changed(translation__training__adam_beta2=1.0),
            "adam_beta2 is 1.0, expected 0 to 0.999999",
        ),
        (
            changed(language_models__runs__0__options__unit__input_dim=7),
            "unit.input_dim is 7, expected map.dim, 64",
        ),
        (
            changed(language_models__runs__0__options__unit__expand_dim=7),
            "unit.expand_dim is 7, expected a whole number of at least 64",
        ),
        (
            changed(language_models__runs__0__options__map__type="adaptiv"),
            "map.type is 'adaptiv', expected one of",
        ),
        (
            changed(language_models__runs__0__corpus={"files": NO_FILES}),
            "language_models, run 'lstm-define': corpus.files.train: there is no file nowhere/a",
        ),
        (
            changed(compression={"codebooks": 2000}),
            "compression: --codebooks 2000 of --codes 16 are 32,000 codewords, expected at most",
        ),
        (
            changed(language_models__runs__0__options__layrs=2),
            "run 'lstm-define': unknown key 'layrs'",
        ),
        (
            changed(translation__averaging=9),
            "translation.averaging is 9, so keep_checkpoint must be at least as large",
        ),
        (
            changed(translation__averaging=9, translation__training__keep_checkpoint=99),
            "translation.averaging is 9, but a training of",
        ),
    ],
)
def test_a_wrong_option_is_named_before_anything_starts(config, sentence):
    with pytest.raises(UserError) as error:
        check_options(complete_config(config, "my.yaml"), "my.yaml", gpus_given=0)
    assert sentence in str(error.value)


@pytest.mark.parametrize("kept", [{"keep_checkpoint": -1}, {}])
def test_all_checkpoints_are_enough_to_average(kept):
    config = changed(translation__averaging=2)
    del config["translation"]["training"]["keep_checkpoint"]
    config["translation"]["training"].update(kept)
    check_options(complete_config(config, "my.yaml"), "my.yaml", gpus_given=0)


def training(**options):
    """The demo's configuration with other options, trained by OpenNMT-py's own loop."""
    options = {"training_loop": "stock", **options}
    return changed(**{f"translation__training__{name}": value for name, value in options.items()})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"encoder_type": "transfomer"}, "encoder_type is 'transfomer', expected one of ggnn, rnn"),
        ({"decoder_type": "trafo"}, "decoder_type is 'trafo', expected one of rnn"),
        ({"decoder_type": "rnn"}, "decoder_type is 'rnn', but encoder_type transformer needs tran"),
        ({"encoder_type": "cnn"}, "decoder_type is 'transformer', but encoder_type cnn needs cnn"),
        ({"self_attn_type": "x"}, "self_attn_type is 'x', expected one of scaled-dot-flash, scal"),
        ({"word_vec_size": 64}, "word_vec_size is 64, but a Transformer of hidden_size 128 needs"),
        ({"optim": "adamm"}, "optim is 'adamm', expected one of 'sgd'"),
        ({"dropout": []}, "dropout is empty, expected at least one value"),
        ({"train_steps": "8"}, "train_steps is '8', expected a whole number without quotation mar"),
        ({"accum_count": [2, "4"]}, "accum_count is [2, '4'], expected a whole number without qu"),
        (
            {"reset_optim": "all"},
            "can't be used in the workflow: a training there goes on with its",
        ),
        ({"early_stopping": 2}, "can't be used in the workflow: a training there ends at train_s"),
        (
            {"encoder_type": "ggnn", "decoder_type": "rnn"},
            "OpenNMT-py can't run a model with these options (FileNotFoundError: ",
        ),
        (
            {"encoder_type": "brnn", "decoder_type": "rnn", "hidden_size": 15},
            "hidden_size is 15, expected an even one for a brnn",
        ),
        (
            {"encoder_type": "mean", "decoder_type": "rnn", "word_vec_size": 8},
            "OpenNMT-py can't run a model with these options (RuntimeError: hidden0 has",
        ),
        (
            {"training_loop": "packed", "copy_attn": True},
            "copy_attn can't be combined with training_loop packed",
        ),
        ({"share_embeddings": True}, "share_embeddings is true, but needs share_vocab: true"),
        ({"share_vocab": "no"}, "share_vocab is 'no', expected true or false"),
        ({"warmup_steps": 0}, "warmup_steps is 0, expected at least 1 with decay_method noam"),
        ({"keep_checkpoint": 0}, "keep_checkpoint is 0, expected at least 1, or -1 to keep all"),
        ({"keep_checkpoint": -2}, "keep_checkpoint is -2, expected -1 to"),
        ({"num_workers": -1}, "num_workers is -1, expected 0 to 1,000"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0, expected 1 to"),
        ({"pre_word_vecs_enc": "no.pt"}, "pre_word_vecs_enc: there is no file no.pt"),
        ({"model_task": "lm"}, "the option 'model_task' can't be used in the workflow: the work"),
        ({"n_sample": 3}, "the option 'n_sample' can't be used in the workflow: OpenNMT-py would"),
        ({"transforms": ["bpe"]}, "'transforms' can't be used in the workflow: the workflow has"),
        ({"save_format": "safetensors"}, "the option 'save_format' can't be used in the workflow"),
        ({"parallel_mode": "tensor_parallel"}, "the option 'parallel_mode' can't be used"),
        ({"save_config": "x"}, "the option 'save_config' is set by the workflow, leave it out"),
        ({"define_dropout": 1.0}, "define_dropout is 1.0, expected a number from 0 up to but"),
    ],
)
def test_a_training_that_could_not_run_is_refused_before_anything_starts(options, sentence):
    test_a_wrong_option_is_named_before_anything_starts(training(**options), sentence)


@pytest.mark.parametrize(
    "options",
    [
        {"encoder_type": "brnn", "decoder_type": "rnn", "hidden_size": 16, "word_vec_size": 8},
        {"encoder_type": "cnn", "decoder_type": "cnn"},
        {"layers": -1, "enc_layers": 3, "dec_layers": 1},
        {"position_encoding": False, "max_relative_positions": -1, "num_kv": 1},
        {"share_vocab": True, "share_embeddings": True, "keep_checkpoint": -1},
        {"model_dtype": "fp16", "self_attn_type": "average"},
    ],
)
def test_unusual_trainings_that_can_run_are_let_through(options):
    config = training(**options)
    del config["translation"]["runs"][1], config["language_models"], config["compression"]
    check_options(complete_config(config, "my.yaml"), "my.yaml", gpus_given=0)


@pytest.mark.parametrize(
    ("decoding", "sentence"),
    [
        *(
            ({option: value}, f"the option {option!r} is set by the workflow, leave it out")
            for option, value in (("model", "x"), ("src", "x"), ("output", "x"), ("gpu", 0))
        ),
        *(
            ({option: value}, f"the option {option!r} can't be used in the workflow: the workflow")
            for option, value in (
                *(("n_best", 2), ("with_score", True), ("report_align", True), ("dump_beam", "x")),
                *(("attn_debug", True), ("n_src_feats", 2), ("transforms", ["prefix"])),
            )
        ),
        ({"tgt": "x"}, "the option 'tgt' can't be used in the workflow: references are for"),
        ({"min_length": 300}, "min_length is 300, expected at most max_length 250"),
        ({"phrase_table": "nope"}, "phrase_table: there is no file nope"),
        ({"int8": True}, "int8 can't be set to True (Deprecated use 'precision' instead)"),
        ({"replace_unk": 1}, "replace_unk is 1, expected true or false"),
        ({"random_sampling_topk": -3}, "random_sampling_topk is -3, expected -1 to"),
        ({"block_ngram_repeat": -1}, "block_ngram_repeat is -1, expected 0 to"),
    ],
)
def test_decoding_that_could_not_work_is_refused_before_anything_starts(decoding, sentence):
    config = changed(translation__decoding=decoding)
    test_a_wrong_option_is_named_before_anything_starts(config, sentence)


def test_decoding_options_at_their_defaults_are_no_mistake():
    decoding = {"n_best": 1, "with_score": False, "beam_size": 1, "min_length": 2}
    config = complete_config(changed(translation__decoding=decoding), "my.yaml")
    check_options(config, "my.yaml", gpus_given=0)


@pytest.mark.parametrize(
    ("mirror", "sentence"),
    [
        ("/no/such", "mirror: there is no folder '/no/such'"),
        (__file__, "is a file, expected a folder or an http(s) address"),
        ("ftp://x", "mirror: 'ftp://x' must be a folder or begin with http:// or https://"),
    ],
)
def test_a_wrong_mirror_is_named_before_anything_starts(mirror, sentence):
    test_a_wrong_option_is_named_before_anything_starts(changed(mirror=mirror), sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is in line 1 already, expected each key once"),
        (
            "a:\n  x: 1\n  x: 2\n",
            "line 3: the key 'x' is in line 2 already, expected each key once",
        ),
        ("- {a: 1, a: 2}\n", "line 1: the key 'a' is in line 1 already, expected each key once"),
        ("a: [1\n", "expected valid YAML"),
    ],
)
def test_yaml_with_a_key_twice_is_refused(tmp_path, text, sentence):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=f"{path}, line") as error:
        load_yaml(path)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("day: 2026-13-01\n", "month must be in 1..12, expected valid YAML"),
        (f"a: {'9' * 5000}\n", "expected valid YAML"),
        ("a: " + "[" * 5000 + "\n", "lies within another without end"),
        ("&a {epochs: *a}\n", "lies within another without end"),
    ],
)
def test_yaml_that_python_cannot_hold_is_refused(tmp_path, text, sentence):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=f"{path}: ") as error:
        validate(load_yaml(path), {"type": "object"}, str(path))
    assert sentence in str(error.value)


def test_yaml_may_change_what_it_merges(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")
    assert load_yaml(path)["b"] == {"x": 3, "y": 2}


@pytest.mark.parametrize(
    ("visible", "given", "allow_cpu", "sentence"),
    [
        ("", 1, False, "a training asks for 1 GPU, but none is visible"),
        ("", 0, False, "a training was given no GPU: start Snakemake with --resources gpu=N"),
        ("0,1", 0, False, "start Snakemake with --resources gpu=N"),
        ("", 1, True, None),
        ("0", 1, False, None),
    ],
)
def test_missing_gpus_stop_a_run_before_it_starts(monkeypatch, visible, given, allow_cpu, sentence):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    config = complete_config(changed(allow_cpu=allow_cpu), "my.yaml")
    if sentence is None:
        check_options(config, "my.yaml", gpus_given=given)
    else:
        with pytest.raises(UserError, match="a training") as error:
            check_options(config, "my.yaml", gpus_given=given)
        assert sentence in str(error.value)


def test_a_key_changes_with_the_settings_and_only_with_them():
    assert settings_key({"a": 1, "b": 2}) == settings_key({"b": 2, "a": 1})
    assert settings_key({"a": 1}) != settings_key({"a": 2})
