"""Every training feature with DeFINE models: it works, or it is refused with a sentence.

docs/opennmt.md has a row for each of them; `test_the_table_of_features_is_complete` compares.
"""

import json
import re
import shutil
import sys

import pytest
import torch
import yaml
from paths import ROOT

from onmt_define.opennmt.checkpoint_files import load, save
from onmt_define.opennmt.folding import fold

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
    "src_feats": {
        **{"n_src_feats": 1, "src_feats_defaults": "0", "feat_merge": "sum"},
        **{"transforms": ["inferfeats"], "reversible_tokenization": "joiner"},
    },
    "copy_attn": {"copy_attn": True},
    "copy_attn, share_decoder_embeddings": {"copy_attn": True, "share_decoder_embeddings": True},
    "position_encoding off": {"position_encoding": False},
    "rotary positions": {"position_encoding": False, "max_relative_positions": -1},
    "relative positions": {"position_encoding": False, "max_relative_positions": 4},
    "model_task lm": LANGUAGE_MODEL,
    "model_task lm, share_decoder_embeddings": {**LANGUAGE_MODEL, "share_decoder_embeddings": True},
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
REFUSED = {
    "lora_embedding": {"lora_embedding": True},
    "pretrained vectors": {"both_embeddings": "vectors.txt", "embeddings_type": "GloVe"},
    "optim sparseadam": {"optim": "sparseadam"},
    "parallel_mode tensor_parallel": {
        **{"parallel_mode": "tensor_parallel", "world_size": 2, "gpu_ranks": [0, 1]}
    },
    "world_size without gpu_ranks": {"world_size": 2},
}
OTHERS = {"onmt_build_vocab", "train_from", "update_vocab", "update_vocab, save_format safetensors"}
OTHERS |= {"LoRA", "ensemble with a standard model", "sampling", "world_size 2"}
OTHERS |= {"onmt_average_models", "onmt_release_model", "onmt_server"}


@pytest.fixture
def train(toy, stock, tmp_path):
    """Train the toy task with changed options for three steps; returns (status, printed, path)."""
    if not (toy / "vocab.both").exists():
        both = ("-src_vocab", "vocab.both", "-share_vocab", "-n_sample", "-1", "-overwrite")
        status, printed = stock("build_vocab", "-config", "train.yaml", *both)
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

    def run(*models, settings=("-max_length", "8"), **environment):
        arguments = ("-model", *models, "-src", "valid.src", "-output", tmp_path / "hyp")
        status, printed = stock("translate", *arguments, *settings)
        assert status == 0, printed
        return (tmp_path / "hyp").read_text("utf-8").splitlines()

    return run


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_trains_translates_and_folds(train, translate, tmp_path, feature):
    status, printed, model = train(FEATURES[feature])
    assert status == 0, printed
    lines = translate(model)
    assert len(lines) == 20
    checkpoint = load(model)
    if "model" in checkpoint:
        torch.save(fold(checkpoint), tmp_path / "plain.pt")
        assert translate(tmp_path / "plain.pt") == lines


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
    return re.search(rf'^\| {re.escape(feature)} \| refused: "([^|]+)" \|', text, re.MULTILINE)[1]


def test_the_table_of_features_is_complete():
    table = table_of_features()
    assert set(table) == {*FEATURES, *REFUSED, *OTHERS}
    refused = {feature for feature, result in table.items() if result == "refused"}
    assert refused == {*REFUSED, "update_vocab, save_format safetensors"}
