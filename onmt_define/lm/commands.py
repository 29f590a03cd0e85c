"""`onmt_define lm`: the command line of the language models and the file that describes a run.

What not every installation has is imported where it is used: `onmt_define doctor` runs without.
"""

import argparse
import logging
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError

SCHEMA = Path(__file__).with_name("run.schema.yaml")


def add_commands(subparsers: Any) -> None:
    """Register `lm train` and `lm evaluate` below a command's subparsers."""
    commands = subparsers.add_parser(
        "lm", help="train and evaluate a language model"
    ).add_subparsers(required=True, metavar="COMMAND")
    train = commands.add_parser("train", help="train the model of one run file, or go on with it")
    add_train_arguments(train)
    evaluate = commands.add_parser("evaluate", help="perplexity of a text under a trained model")
    evaluate.add_argument("model", help="model.pt of a training")
    evaluate.add_argument("text", help="text to score, tokens separated by spaces")
    evaluate.add_argument("--output", required=True, metavar="FILE", help="JSON record to write")
    evaluate.add_argument(
        "--batch-size", type=positive, default=1, help="pieces read side by side; 1 is exact"
    )
    evaluate.add_argument("--gpus", type=int, choices=(0, 1), default=0, help="GPUs to use")
    evaluate.add_argument("--threads", type=positive, default=1, help="threads on the CPU")
    evaluate.set_defaults(function=run_evaluation)


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a training and the function that runs it."""
    parser.add_argument("--config", required=True, metavar="FILE", help="run file (YAML)")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder of this run alone")
    parser.add_argument("--gpus", type=int, choices=(0, 1), default=0, help="GPUs to use")
    parser.add_argument("--threads", type=positive, default=1, help="threads on the CPU")
    parser.add_argument("--log", metavar="FILE", help="log to append to (DIR/training.log)")
    parser.add_argument("--gpu-log", metavar="FILE", help="table to append the GPU's use to")
    parser.set_defaults(function=run_training)


def run_training(arguments: argparse.Namespace) -> None:
    """Carry out `lm train`."""
    settings = read_run(arguments.config)
    require_gpus(arguments.gpus)
    if Path(arguments.output).is_file():
        raise UserError(f"--output: {arguments.output} is a file, expected a folder")
    send_messages_to(arguments.log or Path(arguments.output) / "training.log")
    from onmt_define.lm.training import train

    gpu_log = Path(arguments.gpu_log) if arguments.gpu_log else None
    train(settings, arguments.output, arguments.gpus, arguments.threads, gpu_log)


def run_evaluation(arguments: argparse.Namespace) -> None:
    """Carry out `lm evaluate`."""
    require_gpus(arguments.gpus)
    import torch

    from onmt_define.lm.evaluation import evaluate_text, write_record

    torch.set_num_threads(arguments.threads)
    device = "cuda" if arguments.gpus else "cpu"
    record = evaluate_text(arguments.model, arguments.text, arguments.batch_size, device)
    write_record(arguments.output, record)
    print(f"{record['run']}  {record['tokens']:,} tokens  perplexity {record['perplexity']:.2f}")


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def require_gpus(gpus: int) -> None:
    """Raise `UserError` if a GPU is asked for and none is visible."""
    if not gpus:
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"--gpus {gpus}: no CUDA device is visible, expected one; use --gpus 0 for the CPU"
        )


def send_messages_to(log: str | Path) -> None:
    """Send warnings and what Lightning says to a file instead of the terminal."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("onmt_define").setLevel(logging.INFO)
    logging.captureWarnings(True)


def read_run(path: str | Path) -> dict[str, Any]:
    """Read a run file; see `check_run`."""
    from onmt_define.schema import load_yaml

    return check_run(load_yaml(path), str(path))


def check_run(settings: Any, where: str) -> dict[str, Any]:
    """Check a run's settings against `run.schema.yaml` and fill in the defaults.

    Raises:
        UserError: naming `where`, the key, what was found and what is expected.
    """
    from onmt_define.schema import load_yaml, validate

    schema = load_yaml(SCHEMA)
    validate(settings, schema, where)
    defaults = {
        key: part["default"] for key, part in schema["properties"].items() if "default" in part
    }
    from onmt_define.lm.embeddings import check_input_layer

    check_input_layer(settings["embedding"], where)
    return {**defaults, **settings}
