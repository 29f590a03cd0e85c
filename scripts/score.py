"""Score translations against their references with sacrebleu.

Example:
    python scripts/score.py --hypothesis results/demo/mt/define/seed1/test.hyp \\
        --reference data/demo/raw/test.de --test-set test \\
        --output results/demo/mt/define/seed1/test.score.json

Inputs: detokenised translations and references, line by line.
Output: JSON with BLEU, its bootstrap interval, chrF and the signatures.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hypothesis", required=True, help="detokenised translations")
    parser.add_argument("--reference", required=True, help="detokenised references")
    parser.add_argument("--test-set", required=True, help="name of the test set, for the record")
    parser.add_argument("--output", required=True, help="JSON file for the scores")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.scoring import score

        score(
            arguments.hypothesis,
            arguments.reference,
            arguments.output,
            test_set=arguments.test_set,
        )


if __name__ == "__main__":
    main()
