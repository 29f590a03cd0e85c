"""The packed model computes what OpenNMT-py's own model and loss compute."""

from argparse import Namespace
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_model import WORDS, stock_model
from torch.nn import functional

from onmt_define.opennmt.packed_training.attention import PaddedAttention, fill_rows
from onmt_define.opennmt.packed_training.batches import Corpus, PackedBatches, SpecialTokens
from onmt_define.opennmt.packed_training.model import PackedModel
from onmt_define.opennmt.packed_training.token_files import TokenFile

PADDING, START, END = 1, 2, 3


def corpus(sentences, seed=0, longest=9):
    rng = np.random.default_rng(seed)

    def side():
        lengths = rng.integers(1, longest + 1, sentences)
        ids = rng.integers(4, WORDS, lengths.sum())
        return TokenFile(ids, np.concatenate([[0], lengths.cumsum()]))

    return Corpus(side(), side(), 1)


def batches(corpora, tokens=64, **settings):
    special = SpecialTokens(PADDING, PADDING, START, END)
    return PackedBatches(corpora, special, tokens, **{"seed": 1, "fixed": False, **settings})


def stock_loss(model, opt, vocabs, batch):
    """Loss and right predictions of OpenNMT-py, of the sentences of a packed batch, padded."""
    from onmt.utils.loss import LossCompute

    def padded(side, labels=None):
        bounds = side.offsets.tolist()
        rows = [side.tokens[a:b] for a, b in pairwise(bounds)]
        if labels is not None:
            rows = [
                torch.cat([row, labels[b - 1 : b]]) for row, b in zip(rows, bounds[1:], strict=True)
            ]
        return torch.nn.utils.rnn.pad_sequence(rows, True, PADDING)[..., None]

    source, target = padded(batch.source), padded(batch.target, batch.labels)
    lengths = batch.source.offsets.diff().long()
    output, attentions = model(source, target, lengths)
    compute = LossCompute.from_opts(opt, model, vocabs["tgt"])
    stock_batch = {"src": source, "srclen": lengths, "tgt": target}
    loss, statistics = compute(stock_batch, output, attentions)
    return loss, statistics


MODELS = {
    "standard": {},
    "define": {"embedding_type": "define"},
    "projective, tied": {
        "embedding_type": "projective",
        "share_embeddings": True,
        "share_decoder_embeddings": True,
    },
    "no positions": {"position_encoding": False, "pos_ffn_activation_fn": "gelu"},
    "gated": {"pos_ffn_activation_fn": "silu", "layer_norm": "rms", "add_qkvbias": True},
}


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
def test_equals_the_stock_model(options, fixed):
    model, opt, vocabs = stock_model(**options)
    loose = next(iter(batches([corpus(50)])))
    packed = PackedModel(model, label_smoothing=0.1, padding=PADDING)
    loss, right = packed(next(iter(batches([corpus(50)], fixed=fixed))))
    loss.backward()
    gradients = {name: each.grad for name, each in model.named_parameters()}
    model.zero_grad()
    expected, statistics = stock_loss(model, opt, vocabs, loose)
    expected.backward()
    torch.testing.assert_close(loss, expected)
    assert int(right) == statistics.n_correct
    assert loose.target_words == statistics.n_words
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, msg=name, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_each_sentence_attends_as_if_it_were_alone(causal):
    batch = next(iter(batches([corpus(50, longest=30)], 200)))
    layout = PaddedAttention(batch.source, batch.target, heads=2)
    of_keys = batch.target if causal else batch.source
    shapes = [(len(side.tokens), 2, 8) for side in (batch.target, of_keys, of_keys)]
    query, key, value = (torch.randn(shape) for shape in shapes)
    found = layout(query, key, value, batch.target, of_keys, causal=causal, dropout=0.0)
    bounds = zip(pairwise(batch.target.offsets), pairwise(of_keys.offsets), strict=True)
    for (start, end), (first, last) in bounds:
        each = (query[start:end], key[first:last], value[first:last])
        expected = functional.scaled_dot_product_attention(
            *(tensor.transpose(0, 1) for tensor in each), is_causal=causal
        )
        torch.testing.assert_close(found[start:end], expected.transpose(0, 1))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), min_size=1, max_size=40))
def test_rows_hold_every_sequence_once_and_are_as_long_as_the_longest(pairs_of_lengths):
    lengths = [list(of_side) for of_side in zip(*pairs_of_lengths, strict=True)]
    rows = fill_rows(*lengths)
    assert sorted(number for row in rows for number in row) == list(range(len(pairs_of_lengths)))
    for of_side in lengths:
        assert all(sum(of_side[number] for number in row) <= max(of_side) for row in rows)


def test_dropout_acts_in_training_alone():
    model, _, _ = stock_model(dropout=[0.5], attention_dropout=[0.5])
    packed = PackedModel(model, label_smoothing=0.1, padding=PADDING)
    batch = next(iter(batches([corpus(50)])))
    assert packed(batch)[0] != packed(batch)[0]
    packed.eval()
    assert packed(batch)[0] == packed(batch)[0]


@given(
    st.integers(1, 60),
    st.integers(1, 30),
    st.integers(31, 700),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 5),
)
@settings(deadline=None, max_examples=60)
def test_a_batch_holds_whole_sentences_in_order(sentences, longest, tokens, ranks, fixed, seed):
    one = corpus(sentences, seed, longest)
    of_ranks = [
        iter(batches([one], tokens, rank=rank, ranks=ranks, fixed=fixed)) for rank in range(ranks)
    ]
    seen, shapes = [], set()
    for _ in range(5):
        row = [next(each) for each in of_ranks]
        assert {each.all_sentences for each in row} == {sum(each.sentences for each in row)}
        assert {each.all_target_words for each in row} == {sum(each.target_words for each in row)}
        for batch in row:
            assert batch.target_words <= len(batch.labels)
            shapes.add((len(batch.source.tokens), len(batch.labels), len(batch.source.offsets)))
            seen += sentences_of(batch)
    if fixed:
        assert len(shapes) == 1
    counts, in_corpus = Counter(seen), Counter(pairs(one))
    epochs = len(seen) // len(one.source.lengths)
    for pair, copies in in_corpus.items():
        assert epochs * copies <= counts[pair] <= (epochs + 1) * copies


def pairs(one):
    def lines(file):
        return [tuple(file.ids[start:end].tolist()) for start, end in pairwise(file.offsets)]

    return list(zip(lines(one.source), lines(one.target), strict=True))


def sentences_of(batch):
    """The sentence pairs of a batch, after a look at all that surrounds them."""
    found = []
    for number in range(batch.sentences):
        source, target = (
            slice(*side.offsets[number : number + 2].tolist())
            for side in (batch.source, batch.target)
        )
        words = batch.target.tokens[target].tolist()
        assert words[0] == START
        assert batch.labels[target].tolist() == [*words[1:], END]
        for side, at in ((batch.source, source), (batch.target, target)):
            assert side.positions[at].tolist() == list(range(at.stop - at.start))
        found.append((tuple(batch.source.tokens[source].tolist()), tuple(words[1:])))
    for side in (batch.source, batch.target):
        filler = side.tokens[side.offsets[batch.sentences] :]
        assert (filler == PADDING).all()
        assert side.offsets[-1] == len(side.tokens)
        assert int(side.offsets.diff().max()) <= side.longest
    return found


def test_going_on_reads_the_very_next_sentences():
    whole = batches([corpus(100)])
    stream = iter(whole)
    for _ in range(7):
        next(stream)
    place = whole.place()
    rest = [sentences_of(next(stream)) for _ in range(20)]
    again = batches([corpus(100)], seed=99)
    again.go_on_from(place)
    assert [sentences_of(batch) for batch, _ in zip(again, range(20), strict=False)] == rest


def test_corpora_take_turns_by_weight():
    small, large = corpus(20, seed=1), corpus(400, seed=2)
    large = Corpus(large.source, large.target, 3)
    seen = []
    for batch, _ in zip(batches([small, large], 200), range(12), strict=False):
        seen += sentences_of(batch)
    of_small = sum(pair in set(pairs(small)) for pair in seen)
    assert len(seen) > 160  # the small one began again
    assert of_small == pytest.approx(len(seen) / 4, abs=1)


def test_little_is_filled_up():
    lengths = corpus(20_000, longest=60)
    stream = iter(batches([lengths], 25_000, fixed=True))
    read = filled = 0
    for _ in range(20):
        batch = next(stream)
        read += batch.source_words + batch.target_words
        filled += len(batch.source.tokens) + len(batch.labels)
    assert read / filled > 0.95


def test_options_that_the_loop_does_not_know(tmp_path):
    from onmt_define.errors import UserError
    from onmt_define.opennmt.packed_training.support import refuse_unsupported

    known = {"self_attn_type": "scaled-dot", "data": {"train": {"transforms": []}}}
    refuse_unsupported(Namespace(**known))
    for options in (
        {"encoder_type": "brnn"},
        {"batch_type": "sents"},
        {"model_dtype": "fp16"},
        {"copy_attn": True},
        {"self_attn_type": "average"},
        {"data": {"train": {"transforms": ["sentencepiece"]}}},
        {"data": {"train": {"path_txt": "text"}}},
    ):
        with pytest.raises(UserError, match=f"{next(iter(options))}.*training_loop packed"):
            refuse_unsupported(Namespace(**{**known, **options}))
