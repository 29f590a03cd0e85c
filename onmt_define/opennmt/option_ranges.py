"""Which numbers an OpenNMT-py option can take, so that a slip of the keyboard is named at once.

OpenNMT-py itself takes every number; a batch of 10**30 tokens or a dropout of 3 fails, or fills the
memory, after the corpora were downloaded and the model was built.
"""

import argparse
import math
from collections.abc import Iterator
from typing import Any

WIDTH = (1, 1 << 16)
STEPS = (1, 10**9)
STEPS_OR_NONE = (0, 10**9)
PROBABILITY = (0, 1)

RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        ("hidden_size", "enc_hid_size", "dec_hid_size", "transformer_ff", "word_vec_size"), WIDTH
    ),
    **dict.fromkeys(("src_word_vec_size", "tgt_word_vec_size", "feat_vec_size"), WIDTH),
    **dict.fromkeys(("layers", "enc_layers", "dec_layers"), (1, 1000)),
    **dict.fromkeys(("train_steps", "valid_steps", "save_checkpoint_steps", "report_every"), STEPS),
    **dict.fromkeys(("average_every", "decay_steps"), STEPS),
    **dict.fromkeys(("warmup_steps", "start_decay_steps", "accum_steps"), STEPS_OR_NONE),
    **dict.fromkeys(("dropout_steps", "early_stopping"), STEPS_OR_NONE),
    **dict.fromkeys(("dropout", "attention_dropout", "label_smoothing"), PROBABILITY),
    **dict.fromkeys(("lora_dropout", "average_decay"), PROBABILITY),
    **dict.fromkeys(("batch_size", "valid_batch_size", "batch_size_multiple"), (1, 10**8)),
    **dict.fromkeys(("bucket_size", "accum_count"), (1, 10**9)),
    **dict.fromkeys(("src_vocab_size", "tgt_vocab_size", "vocab_size_multiple"), (1, 10**8)),
    **dict.fromkeys(("learning_rate", "learning_rate_decay"), (0, 10**6)),
    **dict.fromkeys(("adam_beta1", "adam_beta2"), (0, 0.999999)),
    **dict.fromkeys(("heads", "cnn_kernel_width", "num_experts_per_tok"), (1, 1 << 16)),
    **dict.fromkeys(("num_kv", "num_experts", "rotary_dim", "alignment_heads"), (0, 1 << 16)),
    **dict.fromkeys(("src_seq_length_trunc", "tgt_seq_length_trunc"), (1, 10**9)),
    "rotary_theta": (1, 10**9),
    "relative_positions_buckets": (0, 1 << 16),
    "max_relative_positions": (-2, 1 << 16),
    "sliding_window": (0, 10**9),
    "norm_eps": (0, 1),
    "loss_scale": (0, 10**9),
    "param_init": (0, 10**6),
    "define_dropout": PROBABILITY,
    "embedding_init_rms": (1e-3, 1000),
    "max_grad_norm": (0, 10**9),
    "keep_checkpoint": (-1, 10**9),
    "num_workers": (0, 1000),
    "prefetch_factor": (1, 10**6),
    "world_size": (1, 10_000),
    "num_threads": (1, 1000),
    "vocab_sample_queue_size": (1, 10**6),
    "n_sample": (-1, 10**9),
    "n_src_feats": (0, 100),
    **dict.fromkeys(("src_seq_length", "tgt_seq_length"), (1, 10**9)),
    "beam_size": (1, 10_000),
    "n_best": (1, 10_000),
    "max_length": (1, 10**6),
    "min_length": (0, 10**6),
    "block_ngram_repeat": (0, 10**6),
    "random_sampling_topk": (-1, 10**9),
    "random_sampling_topp": PROBABILITY,
    "random_sampling_temp": (0, 10**6),
}
# Every other whole number: no more than what a 32-bit counter holds.
LARGEST = 2**31 - 1


def numbers_out_of_range(parser: argparse.ArgumentParser, opt: Any) -> Iterator[str]:
    """A sentence for each option of the parser whose number can't work; its default always can."""
    for action in parser._actions:
        value = getattr(opt, action.dest, None)
        if action.type not in (int, float) or value is None or value == action.default:
            continue
        low, high = RANGES.get(action.dest, (-LARGEST, LARGEST))
        for number in value if isinstance(value, list) else [value]:
            if math.isnan(number) or not low <= number <= high:
                expected = f"{low:,} to {high:,}" if action.dest in RANGES else f"at most {high:,}"
                yield f"{action.dest} is {number}, expected {expected}"
