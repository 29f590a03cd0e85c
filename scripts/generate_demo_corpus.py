"""Generate the demo's English-German corpus from a grammar of our own: no text is downloaded.

Example: python scripts/generate_demo_corpus.py --output data/demo/raw --pairs 20000 \\
             --valid 500 --test 500 --seed 1

Inputs:  none; the same seed and sizes give the same bytes on every machine.
Outputs: {train,valid,test}.{en,de} in the output folder, one sentence a line, all sentences
         different from each other.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and write the corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, help="folder for the six files")
    parser.add_argument("--pairs", type=int, default=20000, help="for training (default: 20000)")
    parser.add_argument("--valid", type=int, default=500, help="for validation (default: 500)")
    parser.add_argument("--test", type=int, default=500, help="for the test set (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="of the random draws (default: 1)")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.demo.corpus import generate_corpus, write_corpus

        corpus = generate_corpus(
            arguments.pairs, arguments.valid, arguments.test, seed=arguments.seed
        )
        write_corpus(arguments.output, corpus)


if __name__ == "__main__":
    main()
