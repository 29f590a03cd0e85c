"""`onmt_define compress`: a trained model with codes in place of its vectors."""

import argparse
from typing import Any

from onmt_define.lm.commands import positive

HELP = """\
Compress the input layers of a trained model by compositional code learning (Shu and Nakayama,
2017): each token's vector becomes the sum of one codeword from each codebook, and the token itself
is a few bits for each of them. Any checkpoint of onmt_train and any model.pt of `onmt_define lm
train` will do. The result runs wherever onmt_define is installed: `onmt_translate -model ...`,
`onmt_define lm evaluate ...`; it can't be trained further.

What was saved and what it cost is printed and, beside OUTPUT, written to a .json file for the
report. A GPU is used if there is one.
"""

EXAMPLES = """\
examples:
  onmt_define compress model.pt -o compressed.pt
  onmt_define compress model.pt -o compressed.pt --score test.bpe.en test.bpe.de
  onmt_define compress lm/model.pt -o lm/compressed.pt --codebooks 64 --codes 8 --score test.txt
"""


def add_commands(subparsers: Any) -> None:
    """Register `compress` below a command's subparsers."""
    parser = subparsers.add_parser(
        "compress",
        help="store a trained model's input layers as short codes",
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="checkpoint of onmt_train, or model.pt of a language model")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="model to write")
    parser.add_argument(
        "--codebooks", type=positive, default=32, metavar="M", help="codewords a vector (32)"
    )
    parser.add_argument(
        "--codes",
        type=positive,
        default=16,
        metavar="K",
        help="codewords in each codebook (16, which takes 4 bits)",
    )
    parser.add_argument(
        "--steps", type=positive, default=2000, help="steps of training for each layer (2000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the training (1)")
    parser.add_argument(
        "--score",
        nargs="+",
        metavar="FILE",
        help="score before and after: a text for a language model (perplexity), a source and its "
        "reference, both in the model's tokens, for a translation model (BLEU)",
    )
    parser.set_defaults(function=run_compress)


def run_compress(arguments: argparse.Namespace) -> None:
    """Carry out `compress`."""
    from onmt_define.compression.model_file import compress_file
    from onmt_define.compression.record import describe, record_path, write_record
    from onmt_define.compression.scoring import check_files, score

    record_file = record_path(arguments.output)
    if arguments.score:
        check_files(arguments.model, arguments.score)
    record = compress_file(
        arguments.model,
        arguments.output,
        arguments.codebooks,
        arguments.codes,
        arguments.steps,
        arguments.seed,
    )
    if arguments.score:
        record["score"] = score(arguments.model, arguments.output, arguments.score)
    write_record(record_file, record)
    print(describe(record))
