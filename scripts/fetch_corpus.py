"""Fetch a corpus that is known by name, check it, and write its raw text.

Example: python scripts/fetch_corpus.py --name multi30k --output data/multi30k/raw

Input:   nothing local, or with --mirror a folder or server that holds the same files.
Outputs: in the output folder {train,valid,<test set>}.{en,de}, or {train,valid,test}.txt for a
         corpus for language models, and provenance.json (origin, size, sha256, lines of each file).
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and fetch."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", required=True, help="the corpus, e.g. multi30k, wmt14, ptb")
    parser.add_argument("--output", required=True, help="folder for the raw text")
    parser.add_argument(
        "--test-sets", nargs="+", metavar="NAME", help="which test sets (default: all its own)"
    )
    parser.add_argument("--mirror", help="folder or URL to take every file from, and nowhere else")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.sources import fetch_corpus

        provenance = fetch_corpus(
            arguments.name,
            arguments.output,
            test_sets=arguments.test_sets,
            mirror=arguments.mirror,
        )
        for file, facts in provenance["files"].items():
            print(f"{file}: {facts['lines']:,} lines")


if __name__ == "__main__":
    main()
