"""Every training feature with DeFINE models: it works, or it is refused with a sentence.

docs/opennmt.md has a row for each of them; `test_the_table_of_features_is_complete` compares.
"""

import math
import re

import pytest
import test_translation_options
import torch
import yaml
from paths import ROOT

from onmt_define.opennmt.checkpoint_files import load
from onmt_define.opennmt.folding import fold_file

pytestmark = pytest.mark.slow

SHARED = {"share_vocab": True, "src_vocab": "vocab.both", "tgt_vocab": "vocab.both"}
LANGUAGE_MODEL = {
    **{"model_task": "lm", "encoder_type": "transformer_lm", "decoder_type": "transformer_lm"},
    **{"share_vocab": True, "src_vocab": "vocab.both", "tgt_vocab": None},
    "data": {
        "train": {"path_src": "train.src", "weight": 1},
        "valid": {"path_src": "valid.src"},
    },
}
FEATURES = {
    "share_vocab": SHARED,
    "share_embeddings": {**SHARED, "share_embeddings": True},
    "share_decoder_embeddings": {"share_decoder_embeddings": True},
    "both shares": {**SHARED, "share_embeddings": True, "share_decoder_embeddings": True},
    "projective": {"embedding_type": "projective"},
    "projective, both shares": {
        **{"embedding_type": "projective", "share_embeddings": True},
        **{"share_decoder_embeddings": True, **SHARED},
    },
    "define_dropout": {"define_dropout": 0.1},
    "define_activation": {"define_activation": "silu"},
    "embedding_init_rms": {"embedding_init_rms": 1.0},
    "src_feats": {
        **{"n_src_feats": 1, "src_feats_defaults": "0", "feat_merge": "sum"},
        **{"transforms": ["inferfeats"], "src_vocab": "vocab.feats", "tgt_vocab": "vocab.tgt"},
    },
    "copy_attn": {"copy_attn": True},
    "copy_attn, share_decoder_embeddings": {"copy_attn": True, "share_decoder_embeddings": True},
    "position_encoding off": {"position_encoding": False},
    "rotary positions": {"position_encoding": False, "max_relative_positions": -1},
    "relative positions": {"position_encoding": False, "max_relative_positions": 4},
    "model_task lm": LANGUAGE_MODEL,
    "model_task lm, share_decoder_embeddings": {**LANGUAGE_MODEL, "share_decoder_embeddings": True},
    "average attention": {"self_attn_type": "average"},
    "grouped queries": {"heads": 4, "num_kv": 2},
    "mixture of experts": {"num_experts": 4, "num_experts_per_tok": 2},
    "RNN": {
        **{"encoder_type": "rnn", "decoder_type": "rnn", "position_encoding": False},
        "word_vec_size": 24,
    },
    "bidirectional RNN": {
        **{"encoder_type": "brnn", "decoder_type": "rnn", "position_encoding": False},
        "share_decoder_embeddings": True,
    },
    "CNN": {"encoder_type": "cnn", "decoder_type": "cnn", "position_encoding": False},
    "average_decay": {"average_decay": 0.1, "valid_steps": 2},
    "freeze_word_vecs_enc": {"freeze_word_vecs_enc": True},
    "freeze_word_vecs_dec": {"freeze_word_vecs_dec": True},
    "freeze_encoder": {"freeze_encoder": True},
    "save_format safetensors": {"save_format": "safetensors"},
    "save_format safetensors, both shares": {
        **{"save_format": "safetensors", "share_embeddings": True},
        **{"share_decoder_embeddings": True, **SHARED},
    },
}
INFER_FEATURES = ("-transforms", "inferfeats")
TRANSLATION_SETTINGS = {
    "src_feats": ("-n_src_feats", "1", "-src_feats_defaults", "0", *INFER_FEATURES)
}
REFUSED = {
    "lora_embedding": {"lora_embedding": True},
    "pretrained vectors": {"both_embeddings": "vectors.txt", "embeddings_type": "GloVe"},
    "optim sparseadam": {"optim": "sparseadam"},
    "parallel_mode tensor_parallel": {
        **{"parallel_mode": "tensor_parallel", "world_size": 2, "gpu_ranks": [0, 1]}
    },
    "world_size without gpu_ranks": {"world_size": 2},
    "optim fusedadam without apex": {"optim": "fusedadam"},
    "generator_function sparsemax": {"generator_function": "sparsemax"},
    "copy_attn, model_task lm": {**LANGUAGE_MODEL, "copy_attn": True},
    "valid_metrics, model_task lm": {**LANGUAGE_MODEL, "valid_metrics": ["BLEU"]},
    "aan_useffn without add_ffnbias": {"self_attn_type": "average", "aan_useffn": True},
    "a language model as lm_prior_model": {"lm_prior_model": "prior.pt", "lm_prior_lambda": 0.1},
}
LORA_NEEDS = {"train_from": None, "override_opts": False, "reset_optim": "none"}
REFUSED_ELSEWHERE = {"update_vocab, save_format safetensors", "LoRA checkpoint"}
REFUSED_ELSEWHERE |= {f"LoRA without {option}" for option in LORA_NEEDS}
OTHERS = {"onmt_build_vocab", "onmt_train", "onmt_translate", "train_from", "update_vocab"}
OTHERS |= {"model_dtype fp16", "position_encoding on"}
OTHERS |= {"LoRA", "ensemble with a standard model", "sampling", "world_size 2"}
OTHERS |= {"onmt_average_models", "onmt_release_model", "onmt_server"}


@pytest.fixture
def train(toy, stock, tmp_path):
    """Train the toy task with changed options for three steps; returns (status, printed, path)."""
    for vocab, settings in (
        ("vocab.both", ("-share_vocab",)),
        ("vocab.feats", ("-n_src_feats", "1", "-src_feats_defaults", "0", *INFER_FEATURES)),
    ):
        if not (toy / vocab).exists():
            size = ("-n_sample", "-1", "-overwrite", "-src_vocab", vocab)
            status, printed = stock("build_vocab", "-config", "train.yaml", *size, *settings)
            assert status == 0, printed

    def run(change, *arguments, name="m"):
        options = yaml.safe_load((toy / "train.yaml").read_text())
        steps = {"train_steps": 3, "save_checkpoint_steps": 3, "valid_steps": 3}
        options |= {**steps, "save_model": str(tmp_path / name), **change}
        config = tmp_path / f"{name}.yaml"
        config.write_text(yaml.safe_dump({k: v for k, v in options.items() if v is not None}))
        status, printed = stock("train", "-config", config, *arguments)
        return status, printed, tmp_path / f"{name}_step_3.pt"

    return run


@pytest.fixture
def translate(stock, tmp_path):
    """Translate the toy validation text; returns the lines."""

    def run(model, *settings):
        arguments = ("-model", model, "-src", "valid.src", "-output", tmp_path / "hyp")
        status, printed = stock("translate", *arguments, "-max_length", "8", *settings)
        assert status == 0, printed
        return (tmp_path / "hyp").read_text("utf-8").splitlines()

    return run


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_trains_translates_and_folds(train, translate, tmp_path, feature):
    status, printed, model = train(FEATURES[feature])
    assert status == 0, printed
    settings = TRANSLATION_SETTINGS.get(feature, ())
    lines = translate(model, *settings)
    assert len(lines) == 20
    print(fold_file(model, tmp_path / "plain.pt"))
    assert translate(tmp_path / "plain.pt", *settings) == lines


@pytest.mark.parametrize("feature", REFUSED)
def test_a_refused_feature_gets_one_sentence(toy, train, feature):
    (toy / "vectors.txt").write_text("w1 1.0 2.0\n")
    status, printed, model = train(REFUSED[feature])
    assert status == 2, printed
    assert refusal(feature) in printed.replace("`", ""), printed
    assert "Traceback" not in printed
    assert not model.exists()


def table_of_features():
    """Feature and result, in the words of docs/opennmt.md."""
    text = (ROOT / "docs" / "opennmt.md").read_text("utf-8").replace("`", "")
    return dict(re.findall(r"^\| ([^|]+?) \| (works|refused)[^|]* \|", text, re.MULTILINE))


def refusal(feature):
    """The sentence that docs/opennmt.md promises for a feature."""
    text = (ROOT / "docs" / "opennmt.md").read_text("utf-8").replace("`", "")
    return re.search(
        rf'^\| {re.escape(feature)} \| refused[^:]*: "([^|]+)" \|', text, re.MULTILINE
    )[1]


def test_the_table_of_features_is_complete():
    table = table_of_features()
    translation = {*test_translation_options.WORKING, *test_translation_options.REFUSED}
    assert set(table) == {*FEATURES, *REFUSED, *REFUSED_ELSEWHERE, *OTHERS, *translation}
    refused = {feature for feature, result in table.items() if result == "refused"}
    assert refused == {*REFUSED, *REFUSED_ELSEWHERE, *test_translation_options.REFUSED}


def test_update_vocab_keeps_known_tokens_and_starts_new_ones_fresh(toy, train, translate):
    shares = FEATURES["both shares"]
    status, printed, model = train(shares, name="old")
    assert status == 0, printed
    old_vocab = (toy / "vocab.both").read_text("utf-8").splitlines()
    new = ["new\t9", *(f"new{index}\t1" for index in range(8))]
    (toy / "vocab.grown").write_text("\n".join([*new, *old_vocab[::-1]]) + "\n", "utf-8")
    grown = {"src_vocab": "vocab.grown", "tgt_vocab": "vocab.grown", "freeze_word_vecs_enc": False}
    settings = ("-train_from", model, "-update_vocab", "-reset_optim", "all", "-train_steps", "3")
    status, printed, updated = train({**shares, **grown, "learning_rate": 1e-9}, *settings)
    assert status == 0, printed
    before, after = load(model), load(updated)
    name = "decoder.embeddings.make_embedding.emb_luts.0.map_table.weight"
    assert len(after["vocab"]["tgt"]) > len(before["vocab"]["tgt"])
    for token in ("w1", "w17", "</s>"):
        old, new = (c["vocab"]["tgt"].index(token) for c in (before, after))
        for rows in ("weight", "bias"):
            kept = after["generator"][rows][new]
            torch.testing.assert_close(kept, before["generator"][rows][old], atol=1e-4, rtol=0)
        row = after["model"][name][new]
        torch.testing.assert_close(row, before["model"][name][old], atol=1e-4, rtol=0)
    fresh = after["model"][name][after["vocab"]["tgt"].index("new")]
    assert 0.5 < fresh.norm() < 2  # as a new model's, not OpenNMT-py's Glorot over all tokens
    unit = name.replace("map_table.weight", "unit.maps.0.kernel")
    torch.testing.assert_close(after["model"][unit], before["model"][unit], atol=1e-4, rtol=0)
    assert len(translate(updated)) == 20


def test_damaged_safetensors_are_named(train, stock, tmp_path):
    status, printed, model = train({"save_format": "safetensors"})
    assert status == 0, printed
    weights = next(model.parent.glob(f"{model.stem}*.safetensors"))
    whole = weights.read_bytes()
    for content, reason in ((whole[: len(whole) // 2], weights.stem), (None, "No safetensors")):
        weights.write_bytes(content) if content else weights.unlink()
        status, printed = stock("translate", "-model", model, "-src", "valid.src", "-output", "hyp")
        assert status == 2
        assert reason in printed
        assert "safetensors can't be used" in printed
        assert "Traceback" not in printed


def test_update_vocab_of_safetensors_is_refused(train):
    status, printed, model = train({"save_format": "safetensors"})
    assert status == 0, printed
    settings = ("-train_from", model, "-update_vocab", "-reset_optim", "all")
    status, printed, _ = train({}, *settings, name="new")
    assert status == 2, printed
    assert refusal("update_vocab, save_format safetensors") in printed
    assert "Traceback" not in printed


ADAPTERS = {
    **{"lora_layers": ["linear_query", "linear_values"], "lora_rank": 2, "lora_alpha": 4},
    **{"override_opts": True, "reset_optim": "all"},
}


def perplexity_in_training(printed):
    return float(re.findall(r"Validation perplexity: ([\d.]+)", printed)[-1])


def perplexity_of_references(printed, reference):
    """Of all tokens with the ends of lines; OpenNMT-py prints the logarithm for a line."""
    score, lines = re.search(r"GOLD SCORE: (\S+),.* SENTENCES: (\d+)", printed).groups()
    return math.exp(-float(score) * int(lines) / (len(reference.split()) + int(lines)))


@pytest.mark.parametrize(
    ("change", "adapters"),
    [
        ({}, ADAPTERS),
        ({"share_decoder_embeddings": True, "save_format": "safetensors"}, ADAPTERS),
        ({"embedding_type": "standard"}, {**ADAPTERS, "lora_embedding": True}),
    ],
)
def test_lora_adapters_become_part_of_the_model(
    toy, train, stock, command, tmp_path, change, adapters
):
    status, printed, base = train(change, name="base")
    assert status == 0, printed
    status, printed, adapted = train({**change, **adapters, "train_from": str(base)}, name="lora")
    assert status == 0, printed
    trained_to = perplexity_in_training(printed)

    merged = tmp_path / "merged.pt"
    arguments = ("-src", "valid.src", "-tgt", "valid.tgt", "-output", tmp_path / "hyp")
    status, printed = stock("translate", "-model", adapted, *arguments)
    assert status == 2, printed
    assert f"onmt_define merge-lora {base} {adapted} -o merged.pt" in printed
    status, printed = command("merge-lora", base, adapted, "-o", merged)
    assert status == 0, printed
    status, printed = stock("translate", "-model", merged, *arguments)
    assert status == 0, printed
    reference = (toy / "valid.tgt").read_text("utf-8")
    assert perplexity_of_references(printed, reference) == pytest.approx(trained_to, rel=1e-3)
    other = train({**change, "seed": 2}, name="other")[2]
    for wrong in (merged, other):
        status, printed = command("merge-lora", wrong, adapted, "-o", tmp_path / "again.pt")
        assert status == 2
        assert f"{adapted} wasn't trained on {wrong}" in printed
        assert not (tmp_path / "again.pt").exists()
    for name in ("average_models", "release_model"):
        status, printed = stock(name, "-m", adapted, "-o", tmp_path / "other")
        assert status == 2, printed
        assert "holds LoRA adapters alone" in printed
        assert not (tmp_path / "other").exists()


def test_lora_of_no_layer_is_refused(trained, train):
    base = str(trained[0] / "model_step_20.pt")
    change = {**ADAPTERS, "train_from": base, "lora_layers": ["nosuch"]}
    status, printed, model = train(change)
    assert status == 2, printed
    assert "lora_layers is ['nosuch'] with lora_rank 2, which changes no layer" in printed
    assert not model.exists()


@pytest.mark.parametrize("needed", LORA_NEEDS)
def test_lora_that_would_be_lost_is_refused(trained, train, needed):
    base = str(trained[0] / "model_step_20.pt")
    change = {**ADAPTERS, "train_from": base, needed: LORA_NEEDS[needed]}
    status, printed, model = train(change)
    assert status == 2, printed
    assert refusal(f"LoRA without {needed}") in printed
    assert not model.exists()


def test_ensemble_with_a_standard_model(train, translate):
    models = []
    for embedding in ("define", "standard"):
        status, printed, model = train({"embedding_type": embedding}, name=embedding)
        assert status == 0, printed
        models.append(model)
    together = translate(models[0], "-model", *models)
    assert len(together) == 20


def test_sampling_is_the_same_unfolded_and_folded(train, translate, tmp_path):
    status, printed, model = train({})
    assert status == 0, printed
    settings = ("-random_sampling_topk", "5", "-beam_size", "1", "-seed", "7")
    lines = translate(model, *settings)
    fold_file(model, tmp_path / "plain.pt")
    assert translate(tmp_path / "plain.pt", *settings) == lines


def test_average_decay_saves_the_average(train):
    """The checkpoint holds the moving average, under the names of the parameters."""
    _, _, plain = train({}, name="plain")
    status, printed, averaged = train({"average_decay": 0.5}, name="averaged")
    assert status == 0, printed
    name = "encoder.embeddings.make_embedding.emb_luts.0.unit.maps.0.kernel"
    assert not torch.equal(load(plain)["model"][name], load(averaged)["model"][name])


@pytest.mark.parametrize("side", ["enc", "dec"])
def test_frozen_embeddings_stay_as_they_are(train, side):
    status, printed, first = train({f"freeze_word_vecs_{side}": True}, name="first")
    settings = ("-train_from", first, "-train_steps", "6", "-save_checkpoint_steps", "6")
    status, printed, _ = train({f"freeze_word_vecs_{side}": True}, *settings, name="later")
    assert status == 0, printed
    before, after = load(first)["model"], load(first.with_name("later_step_6.pt"))["model"]
    for part in ("enc", "dec"):
        names = [name for name in before if name.startswith(part) and ".emb_luts." in name]
        assert len(names) == 9
        same = [torch.equal(before[name], after[name]) for name in names]
        assert all(same) if part == side else not any(same)


@pytest.mark.parametrize("side", ["enc", "dec"])
def test_a_shared_table_is_frozen_by_either_option(train, side):
    shared = {"share_vocab": True, "src_vocab": "vocab.both", "tgt_vocab": "vocab.both"}
    frozen = {"share_embeddings": True, f"freeze_word_vecs_{side}": True}
    status, printed, model = train({**shared, **frozen}, "-save_checkpoint_steps", "1")
    assert status == 0, printed
    before, after = load(model.with_name("m_step_1.pt"))["model"], load(model)["model"]
    names = [name for name in before if ".emb_luts." in name]
    assert all(torch.equal(before[name], after[name]) for name in names)


@pytest.mark.parametrize("option", ["freeze_word_vecs_enc", "freeze_word_vecs_dec"])
def test_freezing_begins_later_with_a_new_state_of_the_optimizer_only(train, option):
    status, printed, first = train({}, name="first")
    assert status == 0, printed
    settings = ("-train_from", first, "-train_steps", "6", "-save_checkpoint_steps", "6")
    status, printed, _ = train({option: True}, *settings, name="later")
    sentence = f"{option} is True, but {first} was trained with {option} False"
    assert (status, sentence in printed) == (2, True), printed
    settings = (*settings, "-reset_optim", "states")
    status, printed, _ = train({option: True}, *settings, name="later")
    assert status == 0, printed
    before, after = load(first)["model"], load(first.with_name("later_step_6.pt"))["model"]
    part = option.removeprefix("freeze_word_vecs_")
    names = [name for name in before if name.startswith(part) and ".emb_luts." in name]
    assert names
    assert all(torch.equal(before[name], after[name]) for name in names)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"copy_attn": True}, "copy_attn is False, but {} was trained with copy_attn True"),
        (LANGUAGE_MODEL, "model_task is seq2seq, but {} was trained with model_task lm"),
    ],
)
def test_a_training_goes_on_with_its_own_task_only(train, change, sentence):
    status, printed, first = train(change, name="first")
    assert status == 0, printed
    status, printed, _ = train({}, "-train_from", first, "-train_steps", "6", name="later")
    assert (status, sentence.format(first) in printed) == (2, True), printed


def test_tied_parameters_are_one(train):
    status, printed, model = train(FEATURES["both shares"])
    assert status == 0, printed
    checkpoint = load(model)
    prefix = "embeddings.make_embedding.emb_luts.0."
    for name, value in checkpoint["model"].items():
        if name.startswith(f"encoder.{prefix}"):
            assert torch.equal(value, checkpoint["model"][name.replace("encoder", "decoder")])
    table = checkpoint["model"][f"decoder.{prefix}map_table.weight"]
    assert torch.equal(checkpoint["generator"]["weight"], table)
    assert {name: list(value.shape) for name, value in checkpoint["generator"].items()} == {
        "weight": [40, 16],
        "projection": [16, 32],
        "bias": [40],
    }
    assert not checkpoint["generator"]["bias"].eq(0).all()
