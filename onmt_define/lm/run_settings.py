"""The settings of one run: read from a file or a row of the paper, checked, and completed.

What not every installation has is imported where it is used: `onmt_define doctor` runs without.
"""

from functools import cache
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError

SCHEMA = Path(__file__).with_name("run.schema.yaml")


def complete_run(settings: Any, where: str) -> dict[str, Any]:
    """Fill in what the paper's row says, if one is named, then check; see `check_run`."""
    if isinstance(settings, dict) and isinstance(settings.get("paper"), str):
        from onmt_define.lm.paper_runs import paper_run
        from onmt_define.paper.published import merge

        try:
            settings = merge(paper_run(settings["paper"]), settings)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
    return check_run(settings, where)


def check_run(settings: Any, where: str) -> dict[str, Any]:
    """Check a run's settings against `run.schema.yaml` and fill in the defaults.

    Raises:
        UserError: naming `where`, the key, what was found and what is expected.
    """
    from onmt_define.schema import validate

    schema = _schema()
    validate(settings, schema, where)
    _check_keys_of_model(settings, schema["properties"], where)
    completed = _with_defaults(settings, schema)
    epochs, fine_tuning = completed["epochs"], completed.get("fine_tuning_epochs", 0)
    if fine_tuning > epochs:
        raise UserError(
            f"{where}: fine_tuning_epochs is {fine_tuning}, expected at most epochs, {epochs}, of "
            "which they are the last"
        )
    _check_sizes(completed, where)
    return completed


@cache
def _schema() -> dict[str, Any]:
    from onmt_define.schema import load_yaml

    return load_yaml(SCHEMA)


def _check_keys_of_model(settings: dict[str, Any], keys: dict[str, Any], where: str) -> None:
    model = settings["model"]
    for key, part in keys.items():
        models = part.get("models", [model])
        if key in settings and model not in models:
            raise UserError(
                f"{where}: {key} is for {' and '.join(models)}, but model is {model!r}, leave it "
                "out"
            )
        needed = "models" in part and "default" not in part and model in models
        if needed and key not in settings:
            raise UserError(f"{where}: {model} lacks the key {key!r} ({part['description']})")


def _with_defaults(settings: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The settings with the defaults of all keys that the model has."""
    completed = dict(settings)
    for key, part in schema["properties"].items():
        if "default" in part and completed.get("model") in part.get("models", [None, *_MODELS]):
            completed.setdefault(key, part["default"])
        if isinstance(completed.get(key), dict):
            completed[key] = _with_defaults(completed[key], part)
    return completed


_MODELS = ("lstm", "awd-lstm", "transformer-xl")


def _check_sizes(settings: dict[str, Any], where: str) -> None:
    """Build the model, without memory for its weights, for the smallest fitting vocabulary."""
    from onmt_define.embeddings.weightless import weightless
    from onmt_define.lm.model import build_model

    try:
        with weightless():
            build_model(settings, max([1, *settings["classifier"]["cutoffs"]]) + 1)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
