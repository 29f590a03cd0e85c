"""`embedding_init_rms`: how large the input vectors are before the first step."""

import math

import pytest
import torch
from small_model import WORDS, stock_model

from onmt_define.errors import UserError
from onmt_define.opennmt import registry
from onmt_define.opennmt.registry import embedding_types, register_embedding

KINDS = {
    "standard": {"embedding_type": "standard"},
    "projective": {"embedding_type": "projective"},
    "define": {"embedding_type": "define"},
    "with dropout": {"embedding_type": "define", "define_dropout": 0.3},
    "define, tied": {"embedding_type": "define", "share_decoder_embeddings": True},
}
SHARED = {"share_embeddings": True, "share_vocab": True}


def sizes(model, factor):
    """Of what is added to the positions, encoder and decoder."""
    tokens = torch.tensor([token for token in range(WORDS) if token != 1])
    lookups = [side.embeddings.word_lut for side in (model.encoder, model.decoder)]
    model.eval()
    with torch.no_grad():
        return [(lookup(tokens) * factor).square().mean().sqrt().item() for lookup in lookups]


@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["separate", "shared"])
@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_start_with_the_size_asked_for(kind, positions, sharing):
    asked = {"embedding_init_rms": 0.9, "position_encoding": positions}
    model, *_ = stock_model(**KINDS[kind], **sharing, **asked)
    assert model.training
    factor = math.sqrt(32) if positions else 1
    assert sizes(model, factor) == pytest.approx([0.9, 0.9], rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_changes(kind):
    plain, *_ = stock_model(**KINDS[kind])
    sized, *_ = stock_model(**KINDS[kind], embedding_init_rms=0.9)
    changed = {
        name
        for name, weight in plain.state_dict().items()
        if not torch.equal(weight, sized.state_dict()[name])
    }
    last = {"standard": "0.weight", "projective": "0.projection.weight"}
    name = last.get(kind, "0.unit.maps.2.kernel")
    table = "embeddings.make_embedding.emb_luts."
    assert changed == {f"{side}.{table}{name}" for side in ("encoder", "decoder")}


def test_a_define_embedding_starts_twice_as_large_as_xavier_makes_it_where_positions_are_added():
    with_positions, *_ = stock_model(embedding_type="define")
    without, *_ = stock_model(embedding_type="define", position_encoding=False)
    assert sizes(with_positions, math.sqrt(32)) == pytest.approx(
        [2 * size for size in sizes(without, 1)], rel=1e-5
    )


def test_a_type_that_does_not_say_what_to_multiply_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "_classes", dict(embedding_types()))

    @register_embedding("without-output-weight")
    class Mine(embedding_types()["define"]):
        output_weight = None

    with pytest.raises(UserError, match="embedding_init_rms can't be combined with embedding_type"):
        stock_model(embedding_type="without-output-weight", embedding_init_rms=1.0)


@pytest.mark.parametrize("option", ["pre_word_vecs_enc", "both_embeddings"])
def test_pretrained_vectors_keep_their_size(option):
    with pytest.raises(UserError, match=f"{option} can't be combined with embedding_init_rms"):
        stock_model(**{"embedding_type": "standard", "embedding_init_rms": 1.0, option: "vectors"})
