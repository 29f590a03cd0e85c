"""`onmt_define lm`: the command line of the language models and the file that describes a run."""

import argparse
import difflib
import logging
import math
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError, validators

from onmt_define.errors import UserError

SCHEMA = Path(__file__).with_name("run.schema.yaml")
TYPE_NAMES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "object": "a mapping of keys",
    "null": "nothing",
}


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
        "--batch_size", type=positive, default=1, help="pieces read side by side; 1 is exact"
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
    parser.set_defaults(function=run_training)


def run_training(arguments: argparse.Namespace) -> None:
    """Carry out `lm train`."""
    settings = read_run(arguments.config)
    require_gpus(arguments.gpus)
    send_messages_to(arguments.log or Path(arguments.output) / "training.log")
    from onmt_define.lm.training import train

    train(settings, arguments.output, arguments.gpus, arguments.threads)


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
    """Read a run file, check it against `run.schema.yaml`, and fill in the defaults.

    Raises:
        UserError: naming the key, what was found and what is expected.
    """
    try:
        settings = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}, expected a run file") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or "not UTF-8"
        raise UserError(f"{path}{place}: {reason}, expected YAML") from None
    schema = yaml.safe_load(SCHEMA.read_text("utf-8"))
    errors = list(StrictValidator(schema).iter_errors(settings))
    if errors:
        raise UserError(f"{path}: {describe(min(errors, key=_precedence))}")
    defaults = {
        key: part["default"] for key, part in schema["properties"].items() if "default" in part
    }
    return {**defaults, **settings}


StrictValidator = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int,
            "number": lambda _, value: type(value) in (int, float) and math.isfinite(value),
        }
    ),
)
"""JSON Schema where 2.0 is no whole number, and neither infinity nor NaN is a number."""


def describe(error: ValidationError) -> str:
    """Say in a sentence which key is wrong, what was found and what is expected."""
    key = ".".join(map(str, error.absolute_path))
    prefix = f"{key}." if key else ""
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        unknown = next(name for name in error.instance if name not in known)
        near = difflib.get_close_matches(str(unknown), known, n=1, cutoff=0.0)[0]
        found = error.instance[unknown]
        return f"unknown key {prefix}{unknown} (found {found!r}), the nearest known key is {near}"
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"{prefix}{missing} is missing, expected it beside {', '.join(error.instance)}"
    if error.schema is False:
        return f"{key} is {error.instance!r}, expected this key only with type: define"
    return f"{key or 'the file'} is {error.instance!r}, expected {_expected(error)}"


def _expected(error: ValidationError) -> str:
    schema, found = error.schema, error.instance
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    limits = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "exclusiveMaximum": "less than",
    }
    parts = [f"{words} {schema[name]}" for name, words in limits.items() if name in schema]
    expected = " or ".join(TYPE_NAMES[name] for name in types)
    if parts:
        expected += f", {' and '.join(parts)}"
    if isinstance(found, str) and "number" in types and _is_number(found):
        expected += f" (write it as {float(found)!r}: YAML reads {found} as text)"
    return expected


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _precedence(error: ValidationError) -> int:
    """A misspelt key before the missing one that it was meant to be."""
    order = ["additionalProperties", "required"]
    return order.index(error.validator) if error.validator in order else len(order)
