"""Factorisations compared by task (Table 4 of the paper), from whatever runs there are."""

import statistics
from collections.abc import Sequence

from onmt_define.report.records import LanguageModelRun, Results, Run, TranslationRun
from onmt_define.report.tables import MISSING, Cell, Column, Row, Table, by_name

TYPES = ("standard", "projective", "adaptive", "define")
COLUMNS = (
    Column("task", "task"),
    Column("embedding", "input layer"),
    Column("run", "run"),
    Column("seeds", "seeds", "integer"),
    Column("parameters", "total parameters", "integer"),
    Column("relative", "parameters relative to the task's first", "percent", "%"),
    Column("metric", "metric"),
    Column("value", "value", "decimal2"),
)


def factorisation_table(results: Results) -> Table:
    """One row a run, task by task, in the paper's order of input layers; means over seeds."""
    tasks: dict[str, list[list[Run]]] = {}
    for runs in (results.translation, results.language_models):
        for seeds in by_name(runs).values():
            tasks.setdefault(task_of(seeds), []).append(seeds)
    rows = []
    for task, groups in tasks.items():
        first = None
        for seeds in sorted(groups, key=_rank):
            total = next(
                (run.parameters["total"] for run in seeds if run.parameters["total"]), None
            )
            first = first or total
            metric, value = quality_of(seeds, results)
            cells: dict[str, Cell] = {
                "task": task,
                "embedding": _type(seeds) or MISSING,
                "run": seeds[0].name,
                "seeds": len(seeds),
                "parameters": MISSING if total is None else total,
                "relative": MISSING if not (total and first) else (total / first - 1) * 100,
                "metric": metric,
                "value": MISSING if value is None else value,
            }
            rows.append(Row(cells))
    return Table("factorisations", COLUMNS, tuple(rows))


def task_of(seeds: Sequence[Run]) -> str:
    """What a run's seeds do on which corpus; only runs of one task can be compared."""
    corpus = next((run.corpus for run in seeds if run.corpus), MISSING)
    first = seeds[0]
    if isinstance(first, LanguageModelRun):
        return f"language model {first.model or MISSING}, {corpus}"
    return f"translation, {corpus}"


def _type(seeds: Sequence[Run]) -> str | None:
    return next((run.embedding.type for run in seeds if run.embedding), None)


def _rank(seeds: Sequence[Run]) -> int:
    kind = _type(seeds)
    return TYPES.index(kind) if kind in TYPES else len(TYPES)


def quality_of(seeds: Sequence[Run], results: Results) -> tuple[str, float | None]:
    """Name of the metric and its mean over the seeds that have it."""
    if isinstance(seeds[0], LanguageModelRun):
        metric = "test perplexity"
        values = [run.perplexity["test"] for run in seeds if isinstance(run, LanguageModelRun)]
    else:
        test_set = str(results.config["test_sets"][-1]) if results.test_sets else None
        metric = f"BLEU {test_set}" if test_set else "BLEU"
        values = [
            run.scores[test_set].bleu
            for run in seeds
            if isinstance(run, TranslationRun) and test_set in run.scores
        ]
    known = [value for value in values if value is not None]
    return metric, statistics.fmean(known) if known else None
