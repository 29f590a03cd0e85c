"""Learn byte-pair codes on all languages together, and the subwords of each with their counts.

Example:
    python scripts/learn_bpe.py --input train.en train.de --merges 32000 --codes codes \\
        --vocabularies subwords.en subwords.de

Inputs: tokenised training text of each language.
Outputs: the codes, and for each input a file of subwords with counts, as subword-nmt writes them.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and learn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, nargs="+", help="tokenised text, a file each")
    parser.add_argument("--merges", required=True, type=int, help="merge operations to learn")
    parser.add_argument("--codes", required=True, help="file to write")
    parser.add_argument("--vocabularies", required=True, nargs="+", help="a file for each input")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.bpe import learn_joint_bpe

        learn_joint_bpe(arguments.input, arguments.codes, arguments.vocabularies, arguments.merges)


if __name__ == "__main__":
    main()
