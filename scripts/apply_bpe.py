"""Byte-pair encode a tokenised text.

Example:
    python scripts/apply_bpe.py --input test.en --codes codes --vocabulary subwords.en \\
        --vocabulary-threshold 50 --output test.bpe.en --num-workers 4

Inputs: tokenised text; codes and the subwords of its language, from learn_bpe.py.
Output: the same lines in subwords; `@@` marks those that a word goes on after.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and encode."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, help="tokenised text")
    parser.add_argument("--codes", required=True, help="byte-pair codes")
    parser.add_argument("--vocabulary", required=True, help="subwords with counts")
    parser.add_argument(
        "--vocabulary-threshold", type=int, default=0, help="rarer subwords are split (default: 0)"
    )
    parser.add_argument("--output", required=True, help="file to write")
    parser.add_argument("--num-workers", type=int, default=1, help="processes (default: 1)")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.bpe import apply_bpe

        apply_bpe(
            arguments.input,
            arguments.output,
            codes=arguments.codes,
            vocabulary=arguments.vocabulary,
            threshold=arguments.vocabulary_threshold,
            processes=arguments.num_workers,
        )


if __name__ == "__main__":
    main()
