"""Compresses one input layer: learned codes, refined codewords, the layer that decodes them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from onmt_define.compression.code_learning import Progress, learn_codes
from onmt_define.compression.refinement import best_codes, best_codewords, relative_error
from onmt_define.embeddings import CompressedEmbedding
from onmt_define.embeddings.input_layer import InputLayer

REFINEMENT_ROUNDS = 8


@dataclass(frozen=True)
class Compression:
    """A compressed layer and how far its vectors are from the true ones.

    Errors are mean squared distances as a part of the table's variance: 0 is exact, 1 is no better
    than the mean vector for every token. `learned_error` is that of the training alone.
    """

    layer: CompressedEmbedding
    learned_error: float
    error: float


def compress_layer(
    source: InputLayer,
    codebooks: int,
    codes: int,
    steps: int,
    device: str,
    report: Callable[[Progress], None],
) -> Compression:
    """Learn codes for every vector that `source` gives; the result is on the CPU.

    Args:
        source: the trained layer.
        codebooks: M, codewords that make up a vector.
        codes: K, codewords in each codebook.
        steps: of the Gumbel-softmax training.
        device: where to train.
        report: called now and then in between.
    """
    table = source.table()
    mean = table.mean(0)
    spread = (table - mean).square().mean().sqrt().clamp(min=torch.finfo(table.dtype).tiny)
    vectors = ((table - mean) / spread).to(device)
    chosen, codewords = learn_codes(vectors, codebooks, codes, steps, report)
    learned_error = relative_error(vectors, chosen, codewords)
    for _ in range(REFINEMENT_ROUNDS):
        codewords = best_codewords(vectors, chosen, codes)
        chosen = best_codes(vectors, chosen, codewords)
    error = relative_error(vectors, chosen, codewords)
    codewords = codewords.cpu() * spread
    codewords[:codes] += mean  # one codeword of the first codebook is in every sum
    layer = CompressedEmbedding(*table.shape, codebooks, codes, padding_idx=source.padding_idx)
    layer.set_codes(chosen.cpu(), codewords)
    return Compression(layer.eval(), learned_error, error)
