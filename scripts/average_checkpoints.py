"""Average the last checkpoints of a training into one model.

Example:
    python scripts/average_checkpoints.py --checkpoints results/demo/mt/define/seed1/checkpoints \\
        --number 5 --output results/demo/mt/define/seed1/model-averaged.pt

Inputs: a folder of OpenNMT-py checkpoints.
Output: a model whose weights are the means of theirs; the steps that went into it are printed.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and average."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoints", required=True, help="folder of a training's checkpoints")
    parser.add_argument("--number", required=True, type=int, help="how many, the newest")
    parser.add_argument("--output", required=True, help="file for the model")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.averaging import average_checkpoints

        steps = average_checkpoints(arguments.checkpoints, arguments.output, arguments.number)
        print(f"averaged the checkpoints of steps {', '.join(map(str, steps))}")


if __name__ == "__main__":
    main()
