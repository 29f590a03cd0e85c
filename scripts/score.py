"""Score translations against their references with sacrebleu.

Example:
    python scripts/score.py --hypothesis results/demo/mt/define/seed1/test.hyp \\
        --reference data/demo/raw/test.de --test-set test \\
        --output results/demo/mt/define/seed1/test.score.json

Inputs: detokenised translations and references, line by line; with --baseline, the translations of
        another run, with --comet, a model of the package COMET and the source text.
Output: JSON with BLEU, chrF, their bootstrap intervals and signatures; paired tests; COMET.
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
    parser.add_argument("--baseline", help="translations of the run to compare with")
    parser.add_argument("--baseline-run", help="that run's name, for the record")
    parser.add_argument("--baseline-seed", type=int, help="its seed, for the record")
    parser.add_argument("--source", help="detokenised source text, for COMET")
    parser.add_argument("--comet", help="COMET model, such as Unbabel/wmt22-comet-da")
    parser.add_argument("--output", required=True, help="JSON file for the scores")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.scoring import Baseline, score

        baseline = None
        if arguments.baseline:
            run, seed = arguments.baseline_run, arguments.baseline_seed
            baseline = Baseline(arguments.baseline, run, seed)
        score(
            arguments.hypothesis,
            arguments.reference,
            arguments.output,
            test_set=arguments.test_set,
            baseline=baseline,
            source=arguments.source,
            comet=arguments.comet,
        )


if __name__ == "__main__":
    main()
