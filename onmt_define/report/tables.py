"""The report's tables, as rows for both CSV and HTML.

A cell holds a number or a text in the unit of its column; `MISSING` where a run should have left
it and didn't, `NOT_APPLICABLE` where there is nothing to say (a standard embedding has no groups).
Input layers are described with the paper's symbols: n, the width of the token map; k, the width
the layer expands to; m, the width it hands to the model; N, its depth in group linear layers.
"""

import csv
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from onmt_define.files import complete_or_absent
from onmt_define.report.records import (
    LANGUAGE_MODEL_PARTS,
    TRANSLATION_PARTS,
    Embedding,
    LanguageModelRun,
    Results,
    Run,
    TranslationRun,
)

MISSING = "missing"
NOT_APPLICABLE = ""
EMBEDDING_COLUMNS = ("embedding", "n", "k", "m", "N", "groups")

Cell = Any
AnyRun = TypeVar("AnyRun", bound=Run)


@dataclass(frozen=True)
class Column:
    """One column; `kind` is text, integer, decimal1 to decimal3, percent, duration or interval."""

    key: str
    label: str
    kind: str = "text"
    unit: str = ""


@dataclass(frozen=True)
class Row:
    """Cells by column key; a row of means stands below the seeds that it sums up."""

    cells: dict[str, Cell]
    is_mean: bool = False


@dataclass(frozen=True)
class Table:
    """Columns and rows under the stem of the CSV file that holds them."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def view(self, keys: Iterable[str], rows: Iterable[Row] | None = None) -> "Table":
        """The same table with the columns of `keys`, in that order, and perhaps other rows."""
        by_key = {column.key: column for column in self.columns}
        columns = tuple(by_key[key] for key in keys)
        return replace(self, columns=columns, rows=self.rows if rows is None else tuple(rows))

    def one_row_per_run(self) -> tuple[Row, ...]:
        """The mean row of a run with several seeds, the only row of a run with one."""
        return tuple({row.cells["run"]: row for row in self.rows}.values())  # the mean comes last

    def first_seed_rows(self) -> tuple[Row, ...]:
        """The first seed of each run whose parameters are known, for what no seed changes."""
        first: dict[str, Row] = {}
        for row in self.rows:
            kept = first.setdefault(row.cells["run"], row)
            if kept.cells["total parameters"] == MISSING and not row.is_mean:
                first[row.cells["run"]] = row
        return tuple(first.values())


_DEVIATION = "deviation "
_EMBEDDING = (
    Column("embedding", "embedding"),
    Column("n", "n", "integer"),
    Column("k", "k", "integer"),
    Column("m", "m", "integer"),
    Column("N", "N", "integer"),
    Column("groups", "groups"),
)
_TRAINING = (
    Column("steps", "steps", "integer"),
    Column("seconds", "training time", "duration", "s"),
)
_CURVE = (
    Column("kind", "kind"),
    Column("run", "run"),
    Column("seed", "seed"),
    Column("step", "step", "integer"),
)


def translation_table(results: Results) -> Table:
    """One row a run and seed, and their means: quality, sizes, speed of the translation runs."""
    runs = results.translation
    several = any(len(seeds) > 1 for seeds in by_name(runs).values())
    columns = [Column("run", "run"), Column("seed", "seed"), *_EMBEDDING]
    tested = any(score.baseline for run in runs for score in run.scores.values())
    for test_set in results.test_sets:
        columns += [
            Column(f"BLEU {test_set}", f"BLEU {test_set}", "decimal1"),
            Column(f"interval {test_set}", f"BLEU {test_set} bootstrap interval", "interval"),
            *(_significance(test_set) if tested else ()),
            *_deviation(f"BLEU {test_set}", "decimal2", several),
            Column(f"chrF {test_set}", f"chrF {test_set}", "decimal1"),
            *(
                Column(f"COMET {test_set}", f"COMET {test_set}, {model}", "decimal3")
                for model in _comet_models(runs)
            ),
        ]
    columns += [
        *_parameter_columns(TRANSLATION_PARTS),
        *_TRAINING,
        Column("model step", "model of step", "integer"),
        Column("source tokens/s", "training speed, source", "integer", "tokens/s"),
        Column("target tokens/s", "training speed, target", "integer", "tokens/s"),
        Column("source vocabulary", "source vocabulary", "integer", "entries"),
        Column("target vocabulary", "target vocabulary", "integer", "entries"),
    ]
    reference = reference_parameters(runs)
    rows = _rows_with_means(runs, columns, lambda run: _translation_cells(run, reference))
    return Table("translation", tuple(columns), tuple(rows))


def _significance(test_set: str) -> tuple[Column, ...]:
    """The run that a score was tested against, which may differ from row to row, and the result."""
    return (
        Column(f"baseline {test_set}", f"BLEU {test_set}, tested against"),
        Column(f"p {test_set}", f"BLEU {test_set}, p", "decimal3"),
    )


def _comet_models(runs: Sequence[TranslationRun]) -> list[str]:
    """In words, the model or models that COMET scored with; empty where it did not."""
    scores = [score for run in runs for score in run.scores.values()]
    names = dict.fromkeys(score.comet_model for score in scores if score.comet_model)
    return [" or ".join(names)] if names else []


def language_model_table(results: Results) -> Table:
    """One row a run and seed, and their means: perplexity, sizes, speed of the language models."""
    runs = results.language_models
    several = any(len(seeds) > 1 for seeds in by_name(runs).values())
    columns = [
        Column("run", "run"),
        Column("seed", "seed"),
        Column("corpus", "corpus"),
        Column("model", "model"),
        *_EMBEDDING,
        Column("valid perplexity", "valid perplexity", "decimal2"),
        Column("test perplexity", "test perplexity", "decimal2"),
        *_deviation("test perplexity", "decimal2", several),
        *_parameter_columns(LANGUAGE_MODEL_PARTS),
        *_TRAINING,
        Column("epochs", "epochs", "integer"),
        Column("tokens/s", "training speed", "integer", "tokens/s"),
        Column("vocabulary", "vocabulary", "integer", "entries"),
        *(
            Column(f"{split} tokens", f"{split} text", "integer", "tokens")
            for split in ("train", "valid", "test")
        ),
    ]
    reference = reference_parameters(runs)
    rows = _rows_with_means(runs, columns, lambda run: _language_model_cells(run, reference))
    return Table("language_models", tuple(columns), tuple(rows))


def cost_table(results: Results) -> Table:
    """One row for each training: what it took, of its GPUs where it ran on some."""
    columns = (
        Column("run", "run"),
        Column("seed", "seed"),
        Column("kind", "kind"),
        Column("device", "device"),
        Column("seconds", "training time", "duration", "s"),
        Column("gpu hours", "GPU time", "decimal3", "GPU-hours"),
        Column("speed", "training speed", "integer", "tokens/s"),
        Column("memory", "peak memory of the machine", "integer", "MiB"),
        Column("utilisation", "mean utilisation of the GPUs", "decimal1", "%"),
        Column("peak memory", "peak memory of one GPU", "integer", "MiB"),
        Column("energy", "energy of the GPUs", "decimal3", "kWh"),
    )
    rows = [
        Row(
            {
                "run": run.name,
                "seed": run.seed,
                "kind": kind,
                "device": _cell(run.device),
                "seconds": _cell(run.seconds),
                "gpu hours": _gpu_hours(run),
                "speed": _cell(_target_speed(run)),
                "memory": NOT_APPLICABLE if run.peak_memory_mib is None else run.peak_memory_mib,
                **_gpu_cells(run),
            }
        )
        for kind, runs in (
            ("translation", results.translation),
            ("language model", results.language_models),
        )
        for run in runs
    ]
    return Table("cost", columns, tuple(rows))


def _gpu_hours(run: Run) -> Cell:
    if run.gpus == 0:
        return NOT_APPLICABLE
    return MISSING if run.gpus is None or run.seconds is None else run.gpus * run.seconds / 3600


def _gpu_cells(run: Run) -> dict[str, Cell]:
    if use := run.gpu_use:
        found = (use.utilisation, use.peak_memory_mib, use.kwh)
        cells = [_cell(value) for value in found]
    else:
        cells = [MISSING if run.gpus else NOT_APPLICABLE] * 3
    return dict(zip(("utilisation", "peak memory", "energy"), cells, strict=True))


def _target_speed(run: Run) -> float | None:
    if isinstance(run, LanguageModelRun):
        return run.tokens_per_second
    return run.tokens_per_second["target"] if isinstance(run, TranslationRun) else None


def training_table(results: Results) -> Table:
    """One row a training: what another person needs to repeat it, beside config and data."""
    versions = ("commit", "onmt_define", "torch", "cuda", "OpenNMT-py", "lightning", "python")
    known = [
        name
        for name in versions
        if any(name in run.versions for run in (*results.translation, *results.language_models))
    ]
    columns = (
        Column("run", "run"),
        Column("seed", "seed"),
        Column("corpus", "corpus"),
        Column("device", "device"),
        Column("tries", "tries"),
        *(Column(name, name) for name in known),
        Column("target", "Snakemake's target"),
    )
    rows = [
        Row(
            {
                "run": run.name,
                "seed": run.seed,
                "corpus": _cell(run.corpus),
                "device": _cell(run.device),
                "tries": _tries(run),
                **{name: run.versions.get(name, NOT_APPLICABLE) for name in known},
                "target": f"results/{results.name}/{kind}/{run.name}/seed{run.seed}/record.json",
            }
        )
        for kind, runs in (("mt", results.translation), ("lm", results.language_models))
        for run in runs
    ]
    return Table("trainings", columns, tuple(rows))


def _tries(run: Run) -> Cell:
    if run.tries is None:
        return MISSING
    resumed = ", ".join(f"{step:,}" for step in run.tries[1:])
    return f"{len(run.tries)}" + (f", resumed from step {resumed}" if resumed else "")


def signature_table(results: Results) -> Table:
    """sacrebleu's signatures in full: a row for each that differs, with the runs it belongs to."""
    groups: dict[tuple[Cell, ...], dict[str, None]] = {}
    for run in results.translation:
        for test_set, score in run.scores.items():
            signatures = (
                ("BLEU", score.bleu, score.signature),
                ("chrF", score.chrf, score.chrf_signature),
            )
            for metric, value, signature in signatures:
                if value is not None:
                    key = (test_set, metric, _cell(score.lines), _cell(signature))
                    groups.setdefault(key, {})[run.name] = None
    columns = (
        Column("test set", "test set"),
        Column("metric", "metric"),
        Column("lines", "size", "integer", "lines"),
        Column("signature", "signature"),
        Column("runs", "runs"),
    )
    keys = [column.key for column in columns]
    each = Counter(key[:2] for key in groups)
    rows = [
        Row(dict(zip(keys, (*key, "all" if each[key[:2]] == 1 else ", ".join(names)), strict=True)))
        for key, names in sorted(groups.items(), key=lambda item: str(item[0]))
    ]
    return Table("signatures", columns, tuple(rows))


def learning_curve_table(results: Results) -> Table:
    """Every reported training step of every run."""
    columns = (
        *_CURVE,
        Column("train_perplexity", "training perplexity", "decimal2"),
        Column("train_accuracy", "training accuracy", "decimal2", "%"),
        Column("learning_rate", "learning rate", "decimal2"),
        Column("tokens_per_second", "training speed", "integer", "tokens/s"),
        Column("seconds", "training time", "duration", "s"),
    )
    return Table("learning_curve", columns, _points(results, columns, "learning_curve"))


def validation_table(results: Results) -> Table:
    """Every validation of every run."""
    columns = (
        *_CURVE,
        Column("epoch", "epoch", "integer"),
        Column("perplexity", "validation perplexity", "decimal2"),
        Column("accuracy", "validation accuracy", "decimal2", "%"),
    )
    return Table("validation", columns, _points(results, columns, "validation"))


def write_csv(table: Table, path: str | Path) -> None:
    """Write all columns in full precision, units in the header, an interval as low and high."""
    header: list[str] = []
    for column in table.columns:
        unit = f" ({column.unit})" if column.unit else ""
        ends = (" low", " high") if column.kind == "interval" else ("",)
        header += [f"{column.label}{end}{unit}" for end in ends]
    with complete_or_absent(path) as part, open(part, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in table.rows:
            values: list[Cell] = []
            for column in table.columns:
                cell = row.cells[column.key]
                if column.kind == "interval" and not isinstance(cell, tuple):
                    cell = (cell, cell)  # low and high are missing, or don't apply
                values += cell if isinstance(cell, tuple) else (cell,)
            writer.writerow(values)


def by_name(runs: Sequence[AnyRun]) -> dict[str, list[AnyRun]]:
    """The seeds of each run, in the config's order."""
    groups: dict[str, list[AnyRun]] = {}
    for run in runs:
        groups.setdefault(run.name, []).append(run)
    return groups


def reference_parameters(runs: Sequence[Run]) -> int | None:
    """All parameters of the first run, which the others are compared with; None if missing."""
    totals = [run.parameters["total"] for run in runs if run.name == runs[0].name]
    return next((total for total in totals if total), None)


def _deviation(metric: str, kind: str, several: bool) -> tuple[Column, ...]:
    label = f"{metric} standard deviation over seeds"
    return (Column(f"{_DEVIATION}{metric}", label, kind),) if several else ()


def _parameter_columns(parts: Sequence[str]) -> list[Column]:
    columns = [Column(f"{part} parameters", f"{part} parameters", "integer") for part in parts]
    return [
        *columns,
        Column("total parameters", "total parameters", "integer"),
        Column("relative", "total parameters relative to the first run", "percent", "%"),
    ]


def _cell(value: Cell) -> Cell:
    return MISSING if value is None else value


def _embedding_cells(embedding: Embedding | None) -> dict[str, Cell]:
    if embedding is None:
        return dict.fromkeys(EMBEDDING_COLUMNS, MISSING)
    groups = ", ".join(map(str, embedding.groups)) if embedding.groups else None
    sizes = (embedding.map_dim, embedding.expand_dim, embedding.output_dim, embedding.depth, groups)
    cells = [NOT_APPLICABLE if size is None else size for size in sizes]
    return dict(zip(EMBEDDING_COLUMNS, (embedding.type, *cells), strict=True))


def _parameter_cells(run: Run, reference: int | None) -> dict[str, Cell]:
    cells = {f"{part} parameters": _cell(count) for part, count in run.parameters.items()}
    total = run.parameters["total"]
    cells["relative"] = MISSING
    if total is not None and reference is not None:
        cells["relative"] = (total / reference - 1) * 100
    return cells


def _common_cells(run: Run, reference: int | None) -> dict[str, Cell]:
    return {
        "run": run.name,
        "seed": run.seed,
        **_embedding_cells(run.embedding),
        **_parameter_cells(run, reference),
        "steps": _cell(run.steps),
        "seconds": _cell(run.seconds),
    }


def _translation_cells(run: TranslationRun, reference: int | None) -> dict[str, Cell]:
    cells = _common_cells(run, reference)
    for test_set, score in run.scores.items():
        cells[f"BLEU {test_set}"] = _cell(score.bleu)
        without = MISSING if score.bleu is None else NOT_APPLICABLE
        cells[f"interval {test_set}"] = score.interval or without
        cells[f"chrF {test_set}"] = _cell(score.chrf)
        cells[f"COMET {test_set}"] = _cell(score.comet)
        if score.baseline is not None:
            cells[f"baseline {test_set}"] = score.baseline
            cells[f"p {test_set}"] = _cell(score.p_value)
    cells["model step"] = _cell(run.model_step)
    for side in ("source", "target"):
        cells[f"{side} tokens/s"] = _cell(run.tokens_per_second[side])
        cells[f"{side} vocabulary"] = _cell(run.vocabulary[side])
    return cells


def _language_model_cells(run: LanguageModelRun, reference: int | None) -> dict[str, Cell]:
    return {
        **_common_cells(run, reference),
        "corpus": _cell(run.corpus),
        "model": _cell(run.model),
        "valid perplexity": _cell(run.perplexity["valid"]),
        "test perplexity": _cell(run.perplexity["test"]),
        "epochs": _cell(run.epochs),
        "tokens/s": _cell(run.tokens_per_second),
        "vocabulary": _cell(run.vocabulary),
        **{f"{split} tokens": _cell(count) for split, count in run.tokens.items()},
    }


def _rows_with_means(
    runs: Sequence[AnyRun],
    columns: Sequence[Column],
    cells_of: Callable[[AnyRun], dict[str, Cell]],
) -> list[Row]:
    """A row a seed; where a run has several, also their mean over the same seeds in all columns."""
    rows: list[Row] = []
    for seeds in by_name(runs).values():
        cells = [cells_of(run) for run in seeds]
        # a single seed has no deviation
        rows += [
            Row({column.key: one.get(column.key, NOT_APPLICABLE) for column in columns})
            for one in cells
        ]
        if len(seeds) > 1:
            whole = [one for run, one in zip(seeds, cells, strict=True) if run.complete]
            rows.append(_mean_row(columns, cells, whole))
    return rows


def _mean_row(
    columns: Sequence[Column], cells: Sequence[dict[str, Cell]], whole: Sequence[dict[str, Cell]]
) -> Row:
    """Means over the seeds in `whole`, those with all their scores, out of all seeds in `cells`."""
    of = "" if len(whole) == len(cells) else f" of {len(cells)}"
    mean: dict[str, Cell] = {}
    for column in columns:
        if column.key.startswith(_DEVIATION):
            metric = column.key.removeprefix(_DEVIATION)
            mean[column.key] = _deviation_of([one[metric] for one in whole])
        elif column.kind == "interval" or column.key.startswith(("baseline ", "p ")):
            mean[column.key] = NOT_APPLICABLE  # each seed's own says nothing about a mean
        elif column.kind == "text" or column.key in EMBEDDING_COLUMNS:
            mean[column.key] = (whole or cells)[0].get(column.key)
        else:
            mean[column.key] = _mean_of([one[column.key] for one in whole])
    mean["seed"] = f"mean of {len(whole)}{of}"
    return Row(mean, is_mean=True)


def _mean_of(values: Sequence[Cell]) -> Cell:
    if not values or MISSING in values:
        return MISSING
    same = all(value == values[0] for value in values)  # keeps counts whole
    return values[0] if same else statistics.fmean(values)


def _deviation_of(values: Sequence[Cell]) -> Cell:
    return statistics.stdev(values) if len(values) > 1 and MISSING not in values else MISSING


def _points(results: Results, columns: Sequence[Column], curve: str) -> tuple[Row, ...]:
    rows = []
    keys = [column.key for column in columns]
    for kind, runs in (
        ("translation", results.translation),
        ("language model", results.language_models),
    ):
        for run in runs:
            for point in getattr(run, curve):
                cells = {name: _cell(value) for name, value in point.items()}
                cells |= {"kind": kind, "run": run.name, "seed": run.seed}
                rows.append(Row({key: cells.get(key, NOT_APPLICABLE) for key in keys}))
    return tuple(rows)
