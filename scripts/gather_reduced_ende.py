"""Gather public English-German texts into the corpus of configs/reduced-ende.yaml.

Example: python scripts/gather_reduced_ende.py --texts ~/texts --output texts/reduced-ende

Input:   a folder with the files that onmt_define/workflow/reduced_ende.yaml lists, with their
         origin; each as it is or compressed with xz.
Outputs: in the output folder {train,valid,newstest2014,newstest2017}.{en,de}: every training pair
         once, none that shares a side with the validation or test sets.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and gather."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", required=True, help="folder with the public texts")
    parser.add_argument("--output", required=True, help="folder for the corpus")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.reduced_ende import gather

        for split, pairs in gather(arguments.texts, arguments.output).items():
            print(f"{split}: {pairs:,} pairs")


if __name__ == "__main__":
    main()
