"""Unfit files, devices and checkpoints: the stock commands name each in one sentence."""

import logging
import os
import resource
import subprocess
import sys
from importlib.util import find_spec

import pytest
import yaml
from paths import BIN

pytestmark = pytest.mark.slow

ALIGNED = {
    "lambda_align": 0.1,
    "alignment_layer": 0,
    "alignment_heads": 1,
    "data": {
        "train": {"path_src": "train.src", "path_tgt": "train.tgt", "path_align": "align"},
        "valid": {"path_src": "valid.src", "path_tgt": "valid.tgt", "path_align": "align"},
    },
}
FEATURES = {"n_src_feats": 1, "transforms": ["inferfeats"]}
NO_FILE = {"path_src": "nowhere.src", "path_tgt": "train.tgt"}
TEXT = {"path_src": "train.src", "path_tgt": "train.tgt"}
EMPTY = {"path_src": "empty", "path_tgt": "empty"}


@pytest.fixture
def refused(toy, stock, tmp_path, monkeypatch):
    """Run a command that has to end with one sentence and leave nothing in `tmp_path`."""
    # OpenNMT-py's log still goes to the stream of the test before.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    (toy / "empty").touch()
    (toy / "blank").write_text("\n \n")
    (toy / "white").write_text("word\t5\n\xa0\t3\n", encoding="utf-8")
    (toy / "counted").write_text("word\t5\nwords\tfew\n")
    (toy / "returns").write_bytes(b"word\t5\r\nwords\t4\r\n")
    (toy / "unended").write_text("word\t5\nwords\t4")
    (toy / "latin").write_bytes(b"w1 w2\nw3 w\xe4\n" + b"w1\n" * 298)
    (toy / "marked").write_text("\ufeffw1\n" + "w1\n" * 299, encoding="utf-8")
    (toy / "long").write_text("w1\n" * 10 + "w1 " * 6000 + "w1\n" + "w1\n" * 289)
    (toy / "gaps").write_text("w1\n" * 299 + "\n")
    (toy / "align").write_text("0-0\n0-a\n" * 150)
    (toy / "one").write_text("w1\n")
    (toy / "features").write_text("w1 w2\nw1￨x w2\n" * 150, encoding="utf-8")

    def run(command, *arguments, corpus=None, **changes):
        config = yaml.safe_load((toy / "train.yaml").read_text())
        config["save_model"] = str(tmp_path / "model")
        config["data"]["train"] |= corpus or {}
        if command == "build_vocab":
            config.update(src_vocab=str(tmp_path / "s"), tgt_vocab=str(tmp_path / "t"))
        (toy / "bad.yaml").write_text(yaml.safe_dump({**config, **changes}))
        if command != "translate":
            arguments = ("-config", "bad.yaml", *arguments)
        status, printed = stock(command, *arguments)
        assert status == 2, printed
        assert "Traceback" not in printed
        assert not list(tmp_path.iterdir())
        return printed

    return run


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"src_vocab": "nowhere"}, "src_vocab: there is no file nowhere"),
        ({"tgt_vocab": "empty"}, "tgt_vocab: empty is empty or blank, expected text"),
        ({"tgt_vocab": "blank"}, "tgt_vocab: blank is empty or blank, expected text"),
        ({"src_vocab": "."}, "src_vocab: . isn't a file, expected text"),
        (
            {"src_vocab": "white"},
            r"src_vocab: white, line 2 is '\xa0\t3', expected a token, a tab and its count",
        ),
        ({"data": {"train": NO_FILE}}, "data.train.path_src: there is no file nowhere.src"),
        ({"data": {"train": EMPTY}}, "data.train.path_src: empty is empty or blank, expected text"),
        ({"data": "train.src"}, "data is 'train.src', expected names of corpora with path_src"),
        ({"data": {"train": {"weight": 1}}}, "data.train is {'weight': 1}, expected path_src"),
        (
            {"data": {"train": {"path_src": "train.src"}}},
            "data.train has no path_tgt, expected one with model_task seq2seq",
        ),
        (
            {
                **{"model_task": "lm", "encoder_type": "transformer_lm"},
                "decoder_type": "transformer_lm",
            },
            "data.train has a path_tgt, expected none with model_task lm",
        ),
        ({"gpu_ranks": [0]}, "gpu_ranks is [0], but 0 GPUs are visible here; leave it out"),
        ({"train_from": "."}, "error: . can't be read: Is a directory"),
        ({"embedding_type": "standard", "word_vec_size": 8}, "word_vec_size is 8, but a Transfo"),
        ({"encoder_type": "transfomer"}, "encoder_type is 'transfomer', expected one of ggnn, rn"),
        ({"report_every": 0}, "report_every is 0, expected 1 to 1,000,000,000"),
        ({"share_embeddings": True}, "-share_vocab if you use share_embeddings"),
        ({"max_relative_positions": 4}, "Cannot use absolute and relative position encoding"),
        ({"save_model": "train.src/m"}, "save_model is train.src/m, but train.src is a file"),
    ],
)
def test_training(refused, changes, sentence):
    assert sentence in refused("train", **changes)


RNN = {"encoder_type": "rnn", "decoder_type": "rnn", "position_encoding": False}
ROTARY = {"position_encoding": False, "max_relative_positions": -1}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {**RNN, "layers": -1, "enc_layers": 1, "dec_layers": 2},
            "dec_layers is 2, but a decoder_type rnn begins with the states of the encoder's layer",
        ),
        (
            {**RNN, "input_feed": 0, "layers": -1, "enc_layers": 2, "dec_layers": 1},
            "dec_layers is 1, but a decoder_type rnn begins with the states of the encoder's layer",
        ),
        ({**RNN, "encoder_type": "brnn", "hidden_size": 33}, "hidden_size is 33, expected an even"),
        ({**RNN, "copy_attn": True, "copy_attn_type": "none"}, "copy_attn_type is none, but copy_"),
        (
            {**RNN, "coverage_attn": True, "global_attention": "none"},
            "global_attention is none, bu",
        ),
        (
            {**RNN, "context_gate": "both", "input_feed": 0},
            "input_feed is 0, but context_gate need",
        ),
        ({**RNN, "rnn_type": "SRU"}, "Using SRU requires 'cupy' and 'pynvrtc'"),
        (
            {"encoder_type": "cnn", "decoder_type": "cnn", "cnn_kernel_width": 2},
            "cnn_kernel_width is 2, expected an odd number",
        ),
        (
            {"word_vec_size": 33, "hidden_size": 33, "heads": 3},
            "word_vec_size is 33, expected an e",
        ),
        ({"heads": 4, "num_kv": 3}, "num_kv is 3, expected a divisor of heads 4"),
        ({"num_kv": -1}, "num_kv is -1, expected 0 to 65,536"),
        (
            {"num_experts": 2, "num_experts_per_tok": 3},
            "num_experts_per_tok is 3, expected 1 to nu",
        ),
        (
            {**ROTARY, "rotary_dim": 64},
            "rotary_dim is 64, expected an even number up to hidden_size",
        ),
        ({**ROTARY, "word_vec_size": 36, "hidden_size": 36, "heads": 4}, "heads, which is 9"),
        (
            {**ROTARY, "relative_positions_buckets": 8},
            "relative_positions_buckets is 8 with max_re",
        ),
        (
            {"model_task": "lm"},
            "decoder_type is 'transformer', but model_task lm needs transformer_l",
        ),
        (
            {"lambda_coverage": 0.1},
            "lambda_coverage is 0.1, which needs coverage_attn and a decode",
        ),
        ({"zero_out_prompt_loss": True}, "zero_out_prompt_loss needs model_task lm and prompts"),
        (
            {"param_init_glorot": False},
            "param_init is 0, expected a number above 0 or param_init",
        ),
        (
            {"decay_method": "noam", "warmup_steps": 0},
            "warmup_steps is 0, expected at least 1 with",
        ),
        ({"accum_count": [2], "accum_steps": [5]}, "accum_steps is [5], expected 0 as the first"),
        ({"valid_metrics": ["METEOR"]}, "valid_metrics is 'METEOR', expected one of"),
        (
            {"early_stopping_criteria": ["bleu"]},
            "early_stopping_criteria is 'bleu', expected one o",
        ),
        ({"quant_layers": ["linear_query"]}, "quant_layers needs quant_type, which isn't set"),
        ({"data_type": "image"}, "data_type is 'image', expected text"),
        ({"transforms": ["bpe"]}, "transforms has bpe, which needs src_subword_model"),
        ({"transforms": ["bart"]}, "transforms bart can't be made: src_subword_type=none incompat"),
    ],
)
def test_options_that_would_fail_when_the_model_runs(refused, changes, sentence):
    assert sentence in refused("train", **changes)


@pytest.mark.parametrize(
    ("changes", "package"),
    [({"optim": "adamw8bit"}, "bitsandbytes"), ({"tensorboard": True}, "tensorboard")],
)
def test_options_whose_package_is_missing(refused, monkeypatch, changes, package):
    monkeypatch.setattr("onmt_define.opennmt.extra_packages.find_spec", lambda name: None)
    assert f"needs the package {package}, which isn't installed" in refused("train", **changes)


@pytest.mark.parametrize(
    ("corpus", "changes", "sentence"),
    [
        ({"path_src": "latin"}, {}, "path_src: latin, line 2 isn't UTF-8 (its byte 5 is 0xe4)"),
        ({"path_tgt": "latin"}, {"num_workers": 1}, "path_tgt: latin, line 2 isn't UTF-8"),
        ({"path_src": "marked"}, {}, "path_src: marked begins with a byte order mark"),
        ({"path_src": "long"}, {}, "long, line 11 has 6,001 tokens, expected at most 5,000, as"),
        ({"path_tgt": "long"}, {}, "long, line 11 has 6,001 tokens, expected at most 4,999, as"),
        ({"path_src": "features"}, {}, "path_src: features, line 2 has the character U+FFE8"),
        (
            {"path_tgt": "valid.tgt"},
            {},
            "data.train: train.src has 300 lines and valid.tgt has 20, expected as many",
        ),
        (
            {"path_src": "one", "path_tgt": "one"},
            {"num_workers": 2},
            "data.train has 1 lines, expected at least 3 with num_workers 2",
        ),
        ({"path_src": "gaps"}, {"skip_empty_level": "error"}, "gaps, line 300 is blank, expected"),
        ({"path_src": ["train.src"]}, {}, "data.train.path_src is ['train.src'], expected the pa"),
        ({"weight": 0}, {}, "data.train.weight is 0, expected a whole number from 1 to 1,000,000"),
        ({"weight": -2}, {}, "data.train.weight is -2, expected a whole number"),
        ({"weight": 0.5}, {}, "data.train.weight is 0.5, expected a whole number"),
        ({"weight": "much"}, {}, "data.train.weight is 'much', expected a whole number"),
        (
            {},
            {"n_sample": 2, "data": {"a/b": TEXT}, "save_data": "s"},
            "data.a/b has a / in its name",
        ),
        (
            {},
            {"data": {'it\'s "it"': TEXT}},
            "expected names of corpora with path_src and path_tgt",
        ),
        ({"weigth": 2}, {}, "data.train has an unknown setting 'weigth', did you mean weight?"),
        ({"transforms": ["filter"]}, {}, "data.train.transforms has 'filter', expected some of ba"),
        ({"transforms": "prefix"}, {}, "data.train.transforms is 'prefix', expected a list"),
        (
            {"transforms": ["filtertoolong"]},
            {"src_seq_length": 1},
            "data: no pair of lines of train is left to train on, expected some that aren't blank",
        ),
        (
            {"transforms": ["filtertoolong"]},
            {"src_seq_length": 1, "num_workers": 1},
            "\nerror: data: no pair of lines of train is left to train on",
        ),
        ({}, {"src_vocab": "latin"}, "src_vocab: latin, line 2 isn't UTF-8 (its byte 5 is 0xe4)"),
        ({}, {"src_vocab": "counted"}, r"src_vocab: counted, line 2 is 'words\tfew', expected a"),
        ({}, {"src_vocab": "returns"}, r"src_vocab: returns, line 1 is 'word\t5\r', expected a"),
        ({}, {"tgt_vocab": "unended"}, "tgt_vocab: unended has no line break after its last line"),
        ({}, ALIGNED, "data.train.path_align: align, line 2 has '0-a', expected pairs of places"),
        ({}, FEATURES, "src_vocab: there is no file vocab.src_feat0"),
        ({}, {**FEATURES, "src_feats_defaults": "0￨1"}, "defaults does not match -n_src_feats"),
        ({}, {"single_pass": True}, "single_pass is on, with which OpenNMT-py 3.5.1 would train"),
        (
            {},
            {"single_pass": True, "training_loop": "packed", "batch_type": "tokens"},
            "single_pass is on, with which OpenNMT-py 3.5.1 would train for ever: leave it out and",
        ),
    ],
)
def test_corpora(refused, corpus, changes, sentence):
    assert sentence in refused("train", corpus=corpus, **changes)


@pytest.mark.skipif(find_spec("sentencepiece") is not None, reason="sentencepiece is installed")
def test_a_transform_whose_package_is_missing(refused):
    settings = {"corpus": {"transforms": ["sentencepiece"]}, "src_subword_model": "train.src"}
    assert "No module named 'sentencepiece'" in refused("train", **settings)


def test_a_validation_without_any_pair(refused):
    filtered = {"path_src": "valid.src", "path_tgt": "valid.tgt", "transforms": ["filtertoolong"]}
    data = {"train": {"path_src": "train.src", "path_tgt": "train.tgt"}, "valid": filtered}
    assert "data.valid: no pair of lines is left to" in refused(
        "train", data=data, src_seq_length=1
    )


@pytest.mark.parametrize(
    ("command", "words", "named"),
    [
        ("train", ("extra",), "extra"),
        ("build_vocab", ("extra", "words"), "extra words"),
        ("build_vocab", ("-layers", "3"), "-layers 3"),
        ("translate", ("-model", "m.pt", "-src", "valid.src", "extra"), "extra"),
    ],
)
def test_words_that_a_command_has_no_use_for(refused, command, words, named):
    assert f"onmt_{command}: error: unrecognized arguments: {named};" in refused(command, *words)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data": {"train": NO_FILE}}, "data.train.path_src: there is no file nowhere.src"),
        ({"data": {"train": EMPTY}}, "data.train.path_src: empty is empty or blank, expected text"),
        ({"data": {"train": {"weight": 1}}}, "data.train is {'weight': 1}, expected path_src"),
        ({"n_sample": 1}, "n_sample is 1, expected at least 2, or -1 for all"),
        ({"n_sample": -5}, "n_sample is -5, expected -1 to 1,000,000,000"),
        ({"num_threads": 0}, "num_threads is 0, expected 1 to 1,000"),
        ({"tgt_vocab": "no/t"}, "tgt_vocab is no/t, but there is no folder no"),
        ({"src_vocab": "vocab.src"}, "src_vocab: vocab.src exists, expected a new file, or -overw"),
        (
            {"src_vocab": "./train.src", "overwrite": True},
            "src_vocab is ./train.src, a text of the corpora, expected another file",
        ),
        (
            {"src_vocab": "both", "tgt_vocab": "./both"},
            "src_vocab and tgt_vocab are both both, expected two files, or share_vocab",
        ),
        (
            {"learn_subwords": True},
            "learn_subwords is on with src_subword_type none, expected bpe or sentencepiece",
        ),
        (
            {"transforms": ["filtertoolong"], "src_seq_length": 1},
            "data: no pair of lines is left to count words in, expected some that aren't blank",
        ),
        ({"dump_samples": True, "data": {"a/b": TEXT}}, "data.a/b has a / in its name, expected"),
        ({"corpus": {"path_src": "latin"}}, "data.train.path_src: latin, line 2 isn't UTF-8"),
        ({"corpus": {"path_tgt": "valid.tgt"}}, "train.src has 300 lines and valid.tgt has 20"),
        (
            {"corpus": {"path_src": "features"}, "src_feats_defaults": "0", **FEATURES},
            "line 2 has a word with another number of features than n_src_feats 1, expected",
        ),
        ({"corpus": None, "data": {"valid": EMPTY}}, "data has no corpus but valid, expected one"),
    ],
)
def test_building_a_vocabulary(refused, changes, sentence):
    assert sentence in refused("build_vocab", **{"n_sample": -1, **changes})


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("src", "nowhere", "src: there is no file nowhere"),
        ("src", "empty", "src: empty is empty or blank, expected text"),
        ("src", "blank", "src: blank is empty or blank, expected text"),
        ("src", "features", "src: features, line 2 has the character U+FFE8"),
        ("src", "latin", "src: latin, line 2 isn't UTF-8 (its byte 5 is 0xe4), expected UTF-8"),
        ("src", "marked", "src: marked begins with a byte order mark"),
        ("src", "long", "src: long, line 11 has 6,001 tokens, expected at most 5,000, as far as"),
        ("tgt", "train.tgt", "src and tgt: valid.src has 20 lines and train.tgt has 300, expected"),
        ("transforms", "filtertoolong", "transforms has filtertoolong, which looks at the target"),
        ("tgt", "nowhere", "tgt: there is no file nowhere"),
        ("gpu", "0", "gpu is 0, but 0 GPUs are visible here; leave it out"),
        ("world_size", "2", "world_size is 2, but gpu_ranks is [], expected a GPU for each"),
        ("gpu_ranks", "0", "gpu_ranks is [0], but 0 GPUs are visible here; leave it out"),
        ("data_type", "image", "data_type is 'image', expected text"),
        (
            "n_src_feats",
            "1",
            "n_src_feats is 1, but model_step_20.pt was trained with n_src_feats 0",
        ),
        ("transforms", "bpe", "transforms has bpe, which needs src_subword_model"),
        ("model", "nowhere.pt", "there is no file nowhere.pt"),
        ("output", "valid.src", "output is valid.src, which is read as well, expected another fi"),
        ("output", "no/folder/hyp", "output is no/folder/hyp, but there is no folder no/folder"),
    ],
)
def test_translating(trained, refused, tmp_path, option, value, sentence):
    options = {"model": "model_step_20.pt", "src": "valid.src", "output": tmp_path / "hyp"}
    arguments = [
        text for name, path in {**options, option: value}.items() for text in (f"-{name}", path)
    ]
    assert sentence in refused("translate", *arguments)


def test_a_phrase_table_is_checked_line_by_line(trained, refused, tmp_path):
    (trained[0] / "table").write_text("w1|||w2\nw3 w4\n")
    arguments = ("-model", "model_step_20.pt", "-src", "valid.src", "-output", tmp_path / "hyp")
    settings = ("-replace_unk", "-phrase_table")
    printed = refused("translate", *arguments, *settings, "table")
    assert "phrase_table: table, line 2 is 'w3 w4', expected source|||target" in printed
    printed = refused("translate", *arguments, *settings, "nowhere")
    assert "phrase_table: there is no file nowhere" in printed


@pytest.mark.parametrize(
    ("command", "arguments", "sentence"),
    [
        (
            "average_models",
            ("-m", "m1", "m2", "-o", "m2"),
            "--output is the model m2 itself, expec",
        ),
        (
            "average_models",
            ("-m", "m1", "m2", "-o", "folder"),
            "--output is the folder folder, exp",
        ),
        (
            "release_model",
            ("-m", "m1", "-o", "m1"),
            "--output is the model m1 itself, expected ano",
        ),
        ("release_model", ("-m", "m1", "-o", "new", "-q", "int8"), "quantization is int8, which n"),
        (
            "release_model",
            ("-m", "m1", "-o", "folder", "--format", "ctranslate2"),
            "output is folder, a folder that holds something else than a model of CTranslate2",
        ),
        (
            "release_model",
            ("-m", "m1", "-o", "m2", "--format", "ctranslate2"),
            "output is the file m2, but a model of CTranslate2 is a folder",
        ),
        (
            "release_model",
            ("-m", "m1", "-o", "new", "--format", "ctranslate2"),
            "m1 has embedding_type define, which CTranslate2 doesn't know: fold it first",
        ),
    ],
)
def test_averaging_and_releasing_write_over_nothing(
    trained, stock, tmp_path, command, arguments, sentence
):
    for name, step in (("m1", 10), ("m2", 20)):
        (tmp_path / name).write_bytes((trained[0] / f"model_step_{step}.pt").read_bytes())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    status, printed = stock(command, *arguments, cwd=tmp_path)
    assert status == 2, printed
    assert sentence in printed
    assert "Traceback" not in printed
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_option_of_older_versions(refused):
    printed = refused("translate", "-model", "model_step_20.pt", "-src", "valid.src", "-int8")
    assert "Flag '-int8' is deprecated. Deprecated use 'precision' instead" in printed


def test_a_failed_translation_leaves_the_output_as_it_was(trained, stock, tmp_path):
    output = tmp_path / "hyp"
    output.write_text("an earlier translation\n")
    arguments = ("-src", "valid.src", "-output", output)
    assert stock("translate", "-model", "train.src", *arguments)[0] == 2
    assert output.read_text() == "an earlier translation\n"
    assert stock("translate", "-model", "model_step_20.pt", *arguments)[0] == 0
    assert output.read_text().count("\n") == 20


@pytest.mark.parametrize(
    ("changes", "arguments", "sentence"),
    [
        (
            {"embedding_type": "standard"},
            (),
            "embedding_type is standard, but model_step_10.pt was",
        ),
        ({}, ("--embedding_type", "projective"), "trained with embedding_type define and can only"),
        (
            {"define_map_dim": 8},
            (),
            "define_map_dim is 8, but model_step_10.pt was trained with de",
        ),
        ({}, ("-define_depth=2",), "define_depth is 2, but model_step_10.pt was trained with defi"),
        ({"define_dropout": 0.2}, (), "define_dropout is 0.2, but model_step_10.pt was trained wi"),
    ],
)
def test_going_on_with_another_embedding(trained, refused, changes, arguments, sentence):
    printed = refused("train", "-train_from", "model_step_10.pt", *arguments, **changes)
    assert sentence in printed


def test_going_on_without_naming_the_embedding(trained, stock, tmp_path):
    """Only an option that was set is compared, not its default."""
    config = yaml.safe_load((trained[0] / "train.yaml").read_text())
    plain = {key: value for key, value in config.items() if "define" not in str((key, value))}
    (trained[0] / "plain.yaml").write_text(yaml.safe_dump(plain))
    assert plain.keys() < config.keys()
    arguments = ("-train_from", "model_step_10.pt", "-save_model", tmp_path / "m")
    status, printed = stock("train", "-config", "plain.yaml", *arguments, "-train_steps", "11")
    assert status == 0, printed
    assert (tmp_path / "m_step_11.pt").exists()


def test_broken_yaml_is_one_line_and_torch_is_silent(toy, run_command):
    (toy / "broken.yaml").write_text("a: [1\nb: 2\n")
    result = run_command("onmt_train", "-config", "broken.yaml", cwd=toy)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "Couldn't parse config file" in result.stderr
    assert '"broken.yaml", line 2' in result.stderr


def test_only_warnings_about_opennmt_itself_are_silenced():
    code = (
        "import warnings, onmt.modules.sru;"
        "warnings.warn_explicit('mine', FutureWarning, 'mine.py', 1, 'my_module')"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert [line for line in output.stderr.split("\n") if "Warning" in line] == [
        "mine.py:1: FutureWarning: mine"
    ]


def test_a_folder_that_is_read_only(refused, trained, tmp_path, monkeypatch):
    # Root may write anywhere but on a read-only disk.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    sentence = f"but {tmp_path} can't be written to"
    assert f"save_model is {tmp_path / 'model'}, {sentence}" in refused("train")
    assert f"src_vocab is {tmp_path / 's'}, {sentence}" in refused("build_vocab", n_sample=-1)
    arguments = ("-model", "model_step_20.pt", "-src", "valid.src", "-output", tmp_path / "hyp")
    assert f"output is {tmp_path / 'hyp'}, {sentence}" in refused("translate", *arguments)


def test_a_vocabulary_is_whole_or_as_it_was(toy, tmp_path):
    """As on a disk that fills up meanwhile."""
    vocabulary = tmp_path / "s"
    vocabulary.write_text("an earlier one\t1\n")
    arguments = ("-n_sample", "-1", "-overwrite", "-src_vocab", vocabulary)
    result = subprocess.run(
        [
            BIN / "onmt_build_vocab",
            "-config",
            "train.yaml",
            *arguments,
            "-tgt_vocab",
            tmp_path / "t",
        ],
        cwd=toy,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert f"error: {vocabulary} can't be written (File too large)" in result.stderr
    assert vocabulary.read_text() == "an earlier one\t1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
