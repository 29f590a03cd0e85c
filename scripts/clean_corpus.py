"""Normalise punctuation and tokenise a raw parallel corpus (Moses rules); filter its training set.

Example: python scripts/clean_corpus.py --input data/multi30k/raw --output data/multi30k/clean \\
             --source-language en --target-language de --splits train valid test_2016_flickr \\
             --max-tokens 100 --max-length-ratio 2 --threads 4

Inputs:  {split}.{language} in the input folder, for every split named.
Outputs: the same names in the output folder, tokens joined by single spaces, and
         {split}.counts.json (pairs read, kept, and dropped by reason). Only the split `train`
         loses pairs: those with an empty side, a side of more than --max-tokens tokens, or one
         side more than --max-length-ratio times as long as the other.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and clean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, help="folder with the raw text")
    parser.add_argument("--output", required=True, help="folder for the clean text")
    parser.add_argument("--source-language", required=True, help="code such as en")
    parser.add_argument("--target-language", required=True, help="code such as de")
    parser.add_argument(
        "--splits", required=True, nargs="+", metavar="SPLIT", help="train, valid, test sets"
    )
    parser.add_argument("--max-tokens", required=True, type=int, help="longest side kept")
    parser.add_argument(
        "--max-length-ratio", required=True, type=float, help="longer side divided by shorter"
    )
    parser.add_argument(
        "--aggressive-dashes", action="store_true", help="split words at dashes: a @-@ b"
    )
    parser.add_argument("--threads", type=int, default=1, help="processes (default: 1)")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.cleaning import CleaningSettings, clean_corpus

        settings = CleaningSettings(
            source_language=arguments.source_language,
            target_language=arguments.target_language,
            max_tokens=arguments.max_tokens,
            max_length_ratio=arguments.max_length_ratio,
            aggressive_dashes=arguments.aggressive_dashes,
        )
        counts = clean_corpus(
            arguments.input, arguments.output, arguments.splits, settings, arguments.threads
        )
        for split, numbers in counts.items():
            print(f"{split}: {numbers['kept']:,} of {numbers['pairs']:,} pairs kept")


if __name__ == "__main__":
    main()
