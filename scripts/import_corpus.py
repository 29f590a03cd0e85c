"""Check the user's own parallel text files and copy them, normalised, to where the workflow reads.

Example: python scripts/import_corpus.py --files files.yaml --source-language en \\
             --target-language de --output data/mine/raw

Input:   a YAML or JSON file with the config's `files:` mapping, for instance
             train: {source: [a.en, b.en], target: [a.de, b.de]}
             valid: {source: valid.en, target: valid.de}
             test_sets:
               news: {source: news.en, target: news.de}
Outputs: in the output folder {train,valid,<test set>}.{source,target language}; nothing at all if
         any file fails a check. The originals are only read.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line, check and copy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", required=True, help="YAML or JSON file with the mapping")
    parser.add_argument("--source-language", required=True, help="code such as en")
    parser.add_argument("--target-language", required=True, help="code such as de")
    parser.add_argument("--output", required=True, help="folder for the raw text")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.schema import load_yaml
        from onmt_define.workflow.parallel_text import import_user_files

        counts = import_user_files(
            load_yaml(arguments.files),
            arguments.source_language,
            arguments.target_language,
            arguments.output,
        )
        for split, lines in counts.items():
            print(f"{split}: {lines:,} pairs")


if __name__ == "__main__":
    main()
