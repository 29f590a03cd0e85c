"""Learning of codes: known codes are found, and refining never makes the table worse."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from onmt_define.compression.code_learning import learn_codes
from onmt_define.compression.refinement import best_codes, best_codewords, relative_error
from onmt_define.compression.table import compress_layer
from onmt_define.embeddings import DefineEmbedding
from onmt_define.embeddings.input_layer import InputLayer


def clustered(rows, width, codebooks, codes):
    """Vectors that are sums of codewords, so that codes can be exact."""
    codewords = torch.randn(codebooks, codes, width)
    numbers = torch.randint(codes, (rows, codebooks))
    return sum(codewords[book, numbers[:, book]] for book in range(codebooks))


def test_training_alone_learns():
    torch.manual_seed(1)
    vectors = clustered(600, 16, 4, 8)
    vectors /= vectors.std()
    codes, codewords = learn_codes(vectors, 4, 8, 400, lambda progress: None)
    error = relative_error(vectors, codes, codewords)
    untrained, first = learn_codes(vectors, 4, 8, 1, lambda progress: None)
    assert error < 0.6 < 0.9 < relative_error(vectors, untrained, first)
    assert codes.unique().tolist() == list(range(8))


@settings(max_examples=15)
@given(st.integers(0, 100), st.integers(1, 5), st.integers(2, 6))
def test_refining_never_makes_it_worse(seed, codebooks, size):
    torch.manual_seed(seed)
    vectors = torch.randn(50, 8)
    codes = torch.randint(size, (50, codebooks))
    codewords = torch.randn(codebooks * size, 8)
    error = relative_error(vectors, codes, codewords)
    for _ in range(3):
        codewords = best_codewords(vectors, codes, size)
        solved = relative_error(vectors, codes, codewords)
        codes = best_codes(vectors, codes, codewords)
        chosen = relative_error(vectors, codes, codewords)
        assert chosen <= solved + 1e-5 <= error + 2e-5
        error = chosen


def test_a_small_table_is_exact_and_its_scale_and_mean_come_back():
    table = nn.Embedding.from_pretrained(3.0 + 0.01 * torch.randn(20, 16))
    found = compress_layer(InputLayer(table, 20), 8, 8, 50, "cpu", print)
    assert found.error < 1e-3
    assert found.layer.codewords.is_contiguous()  # else looking up is ten times slower
    tokens = torch.arange(20)
    torch.testing.assert_close(found.layer(tokens), table(tokens), atol=0.002, rtol=0)


def test_a_define_layer_is_compressed_as_if_folded():
    torch.manual_seed(1)
    define = DefineEmbedding(40, 12, 8, 16, 3, 4, padding_idx=1)
    source = InputLayer(define, 40, 1)
    found = compress_layer(source, 8, 8, 100, "cpu", print)
    tokens = torch.arange(40)
    wrong = (found.layer(tokens) - define.fold()(tokens)).square().sum()
    variance = (source.table() - source.table().mean(0)).square().sum()
    assert wrong / variance < 0.03
    assert not found.layer(torch.tensor([1])).any()


def test_progress_says_how_far_and_how_well(monkeypatch):
    monkeypatch.setattr("onmt_define.compression.code_learning.SECONDS_BETWEEN_LINES", -1)
    reports = []
    learn_codes(clustered(100, 8, 2, 4), 2, 4, 5, reports.append)
    assert [report.step for report in reports] == [1, 2, 3, 4, 5]
    assert all(report.error > 0 and report.seconds_left >= 0 for report in reports)
