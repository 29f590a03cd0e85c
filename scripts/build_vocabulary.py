"""Count the subwords of the training text into OpenNMT-py's vocabulary files.

Example:
    python scripts/build_vocabulary.py --source train.en --target train.de \\
        --source-vocabulary vocabulary.en --target-vocabulary vocabulary.de [--shared]

Inputs: byte-pair encoded training text of both sides.
Outputs: one vocabulary with counts for each side; with --shared both are the same.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and build the vocabulary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", required=True, help="source side of the training text")
    parser.add_argument("--target", required=True, help="target side of the training text")
    parser.add_argument("--source-vocabulary", required=True, help="file to write")
    parser.add_argument("--target-vocabulary", required=True, help="file to write")
    parser.add_argument("--shared", action="store_true", help="one vocabulary for both sides")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.vocabulary import build_vocabulary

        build_vocabulary(
            arguments.source,
            arguments.target,
            arguments.source_vocabulary,
            arguments.target_vocabulary,
            shared=arguments.shared,
        )


if __name__ == "__main__":
    main()
