"""The paper's rows as runs: from a row's settings to those of a run file."""

from typing import Any

from onmt_define.errors import UserError
from onmt_define.paper.published import PublishedRow, find_row, load_tables

# Keys that a row and a run have in common.
MODEL_KEYS = (
    *("model", "layers", "hidden_size", "model_dim", "inner_dim", "heads", "head_dim"),
    *("map", "unit", "classifier"),
)
STATED_KEYS = ("optimizer", "learning_rate", "weight_decay", "bptt", "batch_size", "epochs")


def paper_run(row_id: str) -> dict[str, Any]:
    """The settings of a run that trains a row's model, without texts.

    What the paper states of the training comes from there, the rest from the row's `run`.

    Raises:
        UserError: no such row, another work's model, or a translation model.
    """
    row = find_row(row_id)
    settings = row.settings or {}
    if not is_language_model(row):
        kind = "isn't a language model trained here" if settings else "is another work's model"
        raise UserError(f"paper is {row_id!r}, which {kind}, expected one of {_known()}")
    stated = settings.get("training", {})
    run = {key: settings[key] for key in MODEL_KEYS if key in settings}
    run |= {key: stated[key] for key in STATED_KEYS if key in stated}
    if reduction := stated.get("learning_rate_reduction"):
        run |= {"decay_epochs": reduction["steps"], "decay_factor": 1 / reduction["factor"]}
    return {"run": row_id.replace("/", "-"), "seed": 1, "paper": row_id, **run, **settings["run"]}


def is_language_model(row: PublishedRow) -> bool:
    """Whether a row can be trained by `onmt_define lm`."""
    return row.settings is not None and "run" in row.settings and "compression" not in row.settings


def _known() -> str:
    rows = [row for table in load_tables().values() for row in table.rows if is_language_model(row)]
    return f"the {len(rows)} rows from {rows[0].id} to {rows[-1].id}"
