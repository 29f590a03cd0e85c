"""The paper's tables with our numbers beside each printed one.

A run of the config is shown in the rows whose model is that of the row it names (`paper:
table3/define`), which may be several: Table 4 repeats rows of others. Parameters need no training:
without a run they are computed from the row's settings. Everything else says that there is no run.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onmt_define.errors import UserError
from onmt_define.paper.commands import DEFAULT_VOCABULARY_SIZE
from onmt_define.paper.comparison import PARTS
from onmt_define.paper.model_counts import ModelCount, count_model
from onmt_define.paper.published import (
    PublishedRow,
    PublishedTable,
    Settings,
    find_row,
    load_tables,
)
from onmt_define.report.analyses import Analysis
from onmt_define.report.records import LanguageModelRun, Missing, Results, Run, TranslationRun
from onmt_define.report.tables import MISSING, NOT_APPLICABLE, Cell, Column, Row, Table

NO_RUN = "no run"
COMPUTED = "computed"
ANOTHER_WORK = "another work's model"
COLUMNS = (
    Column("model", "model"),
    Column("number", "number"),
    Column("paper", "paper", "number"),
    Column("ours", "ours", "decimal2"),
    Column("difference", "difference", "difference"),
    Column("from", "from"),
    Column("seeds", "seeds", "integer"),
    Column("interval", "interval", "interval"),
    Column("significance", "significance"),
    Column("count", "our exact parameters", "integer"),
    Column("row", "row"),
)
LABELS = {
    "validation_perplexity": "validation perplexity",
    "test_perplexity": "test perplexity",
    "training_ms_per_batch": "training, ms/batch",
    "inference_ms_per_batch": "inference, ms/batch",
    "lookup_table_mb": "look-up table, MB",
    "bleu_newstest2014": "BLEU newstest2014",
    "bleu_newstest2017": "BLEU newstest2017",
}


@dataclass(frozen=True)
class Comparison:
    """One of the paper's tables; `runs` names the runs of the config that are in it."""

    published: PublishedTable
    table: Table
    runs: tuple[str, ...]


def compare_with_paper(
    results: Results, compressions: Sequence[Analysis], missing: list[Missing]
) -> list[Comparison]:
    """All tables of the paper, in its order."""
    named = list(_named_rows(results, missing))
    return [_compare(table, named, compressions) for table in load_tables().values()]


@dataclass(frozen=True)
class _Named:
    """A run of the config that names a row, and the records of its seeds."""

    name: str
    row: PublishedRow
    seeds: list[Run]


def _named_rows(results: Results, missing: list[Missing]) -> Iterator[_Named]:
    """The runs that name a row; a name that the paper doesn't have is missing."""
    kinds: dict[str, Sequence[Run]] = {
        "translation": results.translation,
        "language_models": results.language_models,
    }
    # A translation and a language model may have the same name.
    for section, records in kinds.items():
        for run in (results.config.get(section) or {}).get("runs") or []:
            if run.get("paper"):
                name = str(run["name"])
                try:
                    row = find_row(str(run["paper"]))
                except UserError as error:
                    missing.append(Missing(f"run {name}", str(error)))
                    continue
                yield _Named(name, row, [one for one in records if one.name == name])


def differences_from_paper(results: Results) -> list[str]:
    """What each run that names a row of the paper does otherwise, as its records tell."""
    found = []
    for named in _named_rows(results, []):
        row, runs = named.row, named.seeds
        corpus = load_tables()[row.id.partition("/")[0].removeprefix("table")].corpus
        training = (row.settings or {}).get("training", {})
        said = []
        corpora = sorted({run.corpus for run in runs if run.corpus})
        if corpora and corpora != [corpus]:
            said.append(f"corpus {', '.join(corpora)} (paper: {corpus})")
        vocabulary = {
            run.vocabulary for run in runs if isinstance(run, LanguageModelRun) and run.vocabulary
        }
        size = (row.settings or {}).get("vocabulary_size")
        if size and vocabulary and vocabulary != {size}:
            ours = ", ".join(f"{one:,}" for one in sorted(vocabulary))
            said.append(f"vocabulary {ours} (paper: {size:,})")
        said += _training_differences(runs, training)
        if not runs or all(run.device is None for run in runs):
            said.append("no record of a training")
        if said:
            found.append(f"{named.name} ({row.id}): {'; '.join(said)}.")
    return found


def _training_differences(runs: Sequence[Run], training: Settings) -> Iterator[str]:
    epochs = {run.epochs for run in runs if isinstance(run, LanguageModelRun) and run.epochs}
    if epochs and "epochs" in training and epochs != {training["epochs"]}:
        ours = ", ".join(map(str, sorted(epochs)))
        yield f"{ours} epochs (paper: {training['epochs']})"
    steps = {run.steps for run in runs if run.steps}
    if steps and not epochs:
        paper = f"paper: {training['steps']:,}" if "steps" in training else "the paper tells none"
        yield f"{', '.join(f'{one:,}' for one in sorted(steps))} steps ({paper})"
    devices = sorted({run.device for run in runs if run.device})
    if devices:
        yield f"on {', '.join(devices)} (paper: {training.get('gpu', 'not told')})"
    versions = sorted({run.versions["torch"] for run in runs if "torch" in run.versions})
    if versions:
        yield f"torch {', '.join(versions)} (paper: {training.get('pytorch', 'not told')})"


def _compare(
    published: PublishedTable,
    named: Sequence[_Named],
    compressions: Sequence[Analysis],
) -> Comparison:
    rows: list[Row] = []
    shown: dict[str, None] = {}
    for row in published.rows:
        runs = _runs_of(row, named)
        shown |= dict.fromkeys(run.name for run in runs)
        rows += _lines(row, runs, compressions)
    name = f"paper_table{published.number}"
    return Comparison(published, Table(name, COLUMNS, tuple(rows)), tuple(shown))


def _runs_of(row: PublishedRow, named: Sequence[_Named]) -> list[Run]:
    """All seeds of the first run whose named row is this one or builds the same model."""
    if row.settings is None:
        return []
    for exactly in (True, False):
        for one in named:
            same = one.row.id == row.id or (not exactly and _model(one.row) == _model(row))
            if one.seeds and same:
                return one.seeds
    return []


def _model(row: PublishedRow) -> Settings:
    """What is trained, without compressing it afterwards."""
    return {key: value for key, value in (row.settings or {}).items() if key != "compression"}


def _lines(
    row: PublishedRow, runs: Sequence[Run], compressions: Sequence[Analysis]
) -> Iterator[Row]:
    """A line for each number that the row prints."""
    computed = _counted(row)
    totals = [run.parameters["total"] for run in runs if run.parameters.get("total")]
    exact = totals[0] if totals else computed and computed.total
    common: dict[str, Cell] = {
        "row": row.id.partition("/")[2],
        "model": row.name,
        "count": NOT_APPLICABLE if exact is None else exact,
        "seeds": NOT_APPLICABLE,
        "interval": NOT_APPLICABLE,
        "significance": NOT_APPLICABLE,
        "ours": NOT_APPLICABLE,
        "difference": NOT_APPLICABLE,
        "from": NO_RUN if row.settings is not None else ANOTHER_WORK,
    }
    for part, printed in row.printed.get("parameters", {}).items():
        cells = {**common, "number": f"parameters, {PARTS[part]}, millions", "paper": printed}
        if part == "total" and totals:
            cells |= _beside(printed, totals[0] / 1e6) | {"from": runs[0].name}
        elif computed is not None:
            cells |= _beside(printed, getattr(computed, part) / 1e6) | {"from": COMPUTED}
        yield Row(cells)
    for key, label in LABELS.items():
        if key not in row.printed:
            continue
        cells = {**common, "number": label, "paper": row.printed[key]}
        if runs:
            cells |= {"from": runs[0].name} | _measured(row, key, runs, compressions)
        yield Row(cells)


def _counted(row: PublishedRow) -> ModelCount | None:
    settings = row.counted_settings or row.settings
    if settings is None:
        return None
    return count_model(settings, settings["vocabulary_size"] or DEFAULT_VOCABULARY_SIZE)


def _measured(
    row: PublishedRow, key: str, runs: Sequence[Run], compressions: Sequence[Analysis]
) -> dict[str, Cell]:
    coding = (row.settings or {}).get("compression")
    compressed = coding is not None
    if compressed or key in ("lookup_table_mb", "inference_ms_per_batch"):
        values = [
            _of_compression(one.record, key, compressed)
            for one in compressions
            if one.run in runs and (not coding or _is_coded(one.record, coding))
        ]
    else:
        values = [_MEASURES[key](run) if key in _MEASURES else None for run in runs]
    known = [value for value in values if value is not None]
    if not known:
        return {"ours": MISSING, "difference": MISSING}
    cells = _beside(row.printed[key], statistics.fmean(known))
    cells["seeds"] = len(known)
    cells["significance"] = _significance(key, runs)
    interval = _interval(key, runs)
    if len(known) > 1:
        cells["interval"] = (min(known), max(known))
    elif interval and not compressed:
        cells["interval"] = interval
    return cells


def _beside(printed: str, ours: float) -> dict[str, Cell]:
    return {"ours": ours, "difference": ours - float(printed)}


def _is_coded(record: dict[str, Any], coding: Settings) -> bool:
    sizes = (record.get("codebooks"), record.get("codes"))
    return sizes == (coding["codebooks"], coding["codewords"])


def _of_compression(record: dict[str, Any], key: str, compressed: bool) -> float | None:
    """A number of a model before or after it was compressed, out of the record of that."""
    try:
        if key == "lookup_table_mb":
            size = "compressed_bytes" if compressed else "table_bytes"
            return sum(layer[size] for layer in record["layers"].values()) / 1e6
        if key == "inference_ms_per_batch":
            return record["score"]["ms_per_batch"]["after" if compressed else "before"]
        if key == "test_perplexity" and record["score"]["metric"] == "perplexity":
            return record["score"]["after"]
    except (KeyError, TypeError, AttributeError):
        return None
    return None


def _significance(key: str, runs: Sequence[Run]) -> Cell:
    """The paired test of each seed's BLEU, the weakest where there are several."""
    test_set = key.removeprefix("bleu_")
    tested = [
        (score.p_value, score.baseline)
        for run in runs
        if isinstance(run, TranslationRun) and (score := run.scores.get(test_set))
        if score.p_value is not None and score.baseline is not None
    ]
    if not tested:
        return NOT_APPLICABLE
    p_value, baseline = max(tested)
    at_most = "≤" if len(tested) > 1 else "="
    return f"p {at_most} {p_value:.3f} against {baseline}"


def _interval(key: str, runs: Sequence[Run]) -> tuple[float, float] | None:
    scores = [
        run.scores[key.removeprefix("bleu_")]
        for run in runs
        if isinstance(run, TranslationRun) and key.removeprefix("bleu_") in run.scores
    ]
    return scores[0].interval if scores else None


def _bleu(test_set: str) -> Callable[[Any], float | None]:
    return lambda run: run.scores[test_set].bleu if test_set in run.scores else None


def _milliseconds_a_step(run: Run) -> float | None:
    return 1e3 * run.seconds / run.steps if run.seconds and run.steps else None


_MEASURES: dict[str, Callable[[Any], float | None]] = {
    "validation_perplexity": lambda run: run.perplexity["valid"],
    "test_perplexity": lambda run: run.perplexity["test"],
    "training_ms_per_batch": _milliseconds_a_step,
    "bleu_newstest2014": _bleu("newstest2014"),
    "bleu_newstest2017": _bleu("newstest2017"),
}
