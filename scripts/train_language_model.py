"""Train the language model of one run, or go on with a training that was stopped.

Example:
    python scripts/train_language_model.py --config results/demo/lm/lstm-define/seed1/run.yaml \\
        --output results/demo/lm/lstm-define/seed1 --gpus 0 --threads 1 --log train.log

Inputs:
    --config    one resolved run; its keys are described in onmt_define/lm/run.schema.yaml
    train, valid, test    the texts that it names

Outputs, all in --output:
    data/           vocabulary and token ids
    checkpoints/    the newest two; the same command goes on from the newest that can be read
    metrics/        learning curve as CSV, one folder a try
    tensorboard/    the same for TensorBoard
    model.pt        settings, vocabulary and weights, for `onmt_define lm evaluate`
    record.json     written last: parameters, speed, learning curve, perplexities
"""

import argparse
from pathlib import Path

from onmt_define.errors import exit_on_user_error
from onmt_define.lm.commands import add_run_arguments, add_train_arguments, read_arguments
from onmt_define.lm.reporting import is_first_process
from onmt_define.stop_signals import end_at_stop_signals
from onmt_define.workflow.gpus import usable_gpus
from onmt_define.workflow.leases import lease


def main() -> None:
    """Parse the command line, wait for a GPU if one is asked for, and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_run_arguments(parser)
    add_train_arguments(parser)
    parser.add_argument("--allow-cpu", action="store_true", help="use the CPU if there is no GPU")
    arguments = parser.parse_args()
    end_at_stop_signals()
    with exit_on_user_error():
        if not is_first_process():
            arguments.function(arguments)  # one that Lightning added, on GPUs held by the first
            return
        settings = read_arguments(arguments)
        run = settings["run"]
        arguments.log = arguments.log or Path(arguments.output) / "training.log"
        if arguments.gpus:
            arguments.gpus = usable_gpus(arguments.gpus, arguments.allow_cpu, f"training {run}")
        job, log = f"{run} seed{settings['seed']}", Path(arguments.log).with_name("gpus.tsv")
        with lease(arguments.gpus, job, log):
            arguments.function(arguments)


if __name__ == "__main__":
    main()
