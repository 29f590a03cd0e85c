"""Compress the input layers of one trained model and score it before and after.

Example:
    python scripts/compress_model.py --model results/demo/mt/define/seed1/model.pt \\
        --output results/demo/mt/define/seed1/compressed.pt --codebooks 32 --codes 16 \\
        --steps 2000 --score test.en test.de --log compress.log

Inputs: a model; what to score it on, a text or a source and its reference in the model's tokens.
Outputs: the compressed model, and its record beside it under the suffix .json.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and compress."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="model.pt of a run")
    parser.add_argument("--output", required=True, help="compressed model to write")
    parser.add_argument("--codebooks", type=int, required=True, help="codewords a vector")
    parser.add_argument("--codes", type=int, required=True, help="codewords in each codebook")
    parser.add_argument("--steps", type=int, required=True, help="steps of training a layer")
    parser.add_argument("--score", nargs="+", required=True, help="files to score it on")
    parser.add_argument("--gpus", type=int, default=0, help="1 to use a GPU (default: 0)")
    parser.add_argument("--log", required=True, help="the job's log; gpus.tsv lies beside it")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.compressing import compress

        compress(
            arguments.model,
            arguments.output,
            arguments.score,
            codebooks=arguments.codebooks,
            codes=arguments.codes,
            steps=arguments.steps,
            gpus=arguments.gpus,
            log_path=arguments.log,
        )


if __name__ == "__main__":
    main()
