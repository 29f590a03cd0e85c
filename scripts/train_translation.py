"""Train one translation model, or go on with a training that was stopped.

Example:
    python scripts/train_translation.py --config results/demo/mt/define/seed1/train.yaml \\
        --output results/demo/mt/define/seed1 --corpus demo --gpus 1 --log train.log

Inputs: a resolved OpenNMT-py configuration and the files it names.
Outputs: OUTPUT/checkpoints/ while it runs; OUTPUT/model.pt (the kept checkpoint with the lowest
validation perplexity) and OUTPUT/record.json at the end.
SIGTERM and SIGUSR1 save a checkpoint and stop; the same command goes on from it.
gpus.tsv beside the log says when GPUs were taken and released.
"""

import argparse

from onmt_define.errors import exit_on_user_error
from onmt_define.stop_signals import end_at_stop_signals


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, help="resolved OpenNMT-py configuration")
    parser.add_argument("--output", required=True, help="folder of the run and seed")
    parser.add_argument("--corpus", required=True, help="name of the corpus, for the record")
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs (default: 0)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: 1)")
    parser.add_argument("--allow-cpu", action="store_true", help="use the CPU if there is no GPU")
    parser.add_argument("--log", required=True, help="file to append OpenNMT-py's output to")
    parser.add_argument("--gpu-log", help="table to append the use of the GPUs to")
    arguments = parser.parse_args()
    end_at_stop_signals()
    with exit_on_user_error():
        from onmt_define.workflow.training import train

        train(
            arguments.config,
            arguments.output,
            gpus=arguments.gpus,
            threads=arguments.threads,
            allow_cpu=arguments.allow_cpu,
            log_path=arguments.log,
            gpu_log=arguments.gpu_log,
            corpus=arguments.corpus,
        )


if __name__ == "__main__":
    main()
