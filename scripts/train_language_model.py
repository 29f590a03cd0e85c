"""Train the language model of one run, or go on with a training that was stopped.

Example:
    python scripts/train_language_model.py --config run.yaml \\
        --output results/demo/lm/lstm-define/seed1 --gpus 0 --threads 1 --log training.log

Inputs:
    --config    one resolved run; its keys are described in onmt_define/lm/run.schema.yaml
    train, valid, test    the texts that it names

Outputs, all in --output:
    data/           vocabulary and token ids
    checkpoints/    the newest two; the same command goes on from the newest that can be read
    metrics/        learning curve as CSV, one folder a try
    model.pt        settings, vocabulary and weights, for `onmt_define lm evaluate`
    record.json     written last: parameters, speed, learning curve, perplexities
"""

import argparse

from onmt_define.errors import exit_on_user_error
from onmt_define.lm.commands import add_train_arguments


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_train_arguments(parser)
    arguments = parser.parse_args()
    with exit_on_user_error():
        arguments.function(arguments)


if __name__ == "__main__":
    main()
