"""The report's page: one HTML file that needs nothing else, beside its tables and pictures.

Numbers are written the English way: 1,234.5, and a space that doesn't break before a unit.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
import yaml

from onmt_define.files import complete_or_absent
from onmt_define.report.analyses import (
    Analyses,
    compression_table,
    correlation_pictures,
    correlation_table,
    read_analyses,
)
from onmt_define.report.factorisations import factorisation_table
from onmt_define.report.figures import Picture, pictures, write_picture
from onmt_define.report.paper_tables import compare_with_paper, differences_from_paper
from onmt_define.report.records import Missing, Results, Run, read_json_object
from onmt_define.report.size_figure import size_pictures
from onmt_define.report.table_files import write_latex, write_markdown
from onmt_define.report.tables import (
    EMBEDDING_COLUMNS,
    MISSING,
    NOT_APPLICABLE,
    Cell,
    Column,
    Row,
    Table,
    by_name,
    cost_table,
    language_model_table,
    learning_curve_table,
    signature_table,
    training_table,
    translation_table,
    validation_table,
    write_csv,
)

_NO_BREAK = "\u00a0"


@dataclass(frozen=True)
class _Image:
    """A picture as the page embeds it."""

    source: str
    name: str
    section: str
    caption: str


@dataclass(frozen=True)
class _Metric:
    """A column that the summary speaks of; `sign` is -1 where a higher number is better."""

    key: str
    words: str
    digits: int
    sign: int

    def text(self, row: Row) -> str:
        value = row.cells[self.key]
        return MISSING if value == MISSING else f"{value:.{self.digits}f}"


def write_report(
    results: Results,
    output: str | Path,
    provenance: Sequence[str | Path] = (),
    folder: str | Path | None = None,
) -> Path:
    """Write output/index.html, config.yaml, tables/*.{csv,md,tex} and figures/*.{svg,png}.

    Args:
        provenance: JSON files about the corpora: origin, counts.
        folder: results/{name}, where correlation maps and compressions are looked for.

    Returns:
        The page's path.
    """
    output = Path(output)
    missing = list(results.missing)
    analyses = read_analyses(results, Path(folder), missing) if folder else Analyses((), ())
    paper = compare_with_paper(results, analyses.compressions, missing)
    tables = {table.name: table for table in (*_tables(results), *_analysis_tables(analyses))}
    tables |= {comparison.table.name: comparison.table for comparison in paper}
    for table in tables.values():
        write_csv(table, output / "tables" / f"{table.name}.csv")
        write_markdown(table, output / "tables" / f"{table.name}.md", format_cell)
        write_latex(table, output / "tables" / f"{table.name}.tex", format_cell)
    (output / "figures").mkdir(parents=True, exist_ok=True)  # even if there is nothing to draw
    compressions = analyses.compressions
    images = [
        _embed(picture, output / "figures")
        for picture in (*pictures(results), *size_pictures(results, compressions))
    ]
    images += _correlation_images(analyses, output / "figures")
    sources = list(_read_provenance(provenance, missing))
    config = yaml.safe_dump(results.config, allow_unicode=True, sort_keys=False)
    with complete_or_absent(output / "config.yaml") as part:
        part.write_text(config, encoding="utf-8")
    html = (
        _environment()
        .get_template("report.html.j2")
        .render(
            results=results,
            config=config,
            summary=summary(results, missing),
            remarks=remarks(results),
            paper=paper,
            differences=differences_from_paper(results),
            tables=tables,
            views=_views(results, tables),
            images=images,
            provenance=sources,
            missing=missing,
            versions=_versions(results),
        )
    )
    page = output / "index.html"
    with complete_or_absent(page) as part:
        part.write_text(html, encoding="utf-8")
    return page


def summary(results: Results, missing: Sequence[Missing]) -> list[str]:
    """At most five lines in plain words that say what came out, each from the records."""
    return [
        _scope(results),
        *_translation_sentences(results),
        *_language_model_sentences(results),
        _missing_sentence(missing),
    ]


def remarks(results: Results) -> list[str]:
    """What a reader must know before comparing the runs with each other."""
    runs = results.translation
    found = []
    for test_set in results.test_sets:
        for metric in ("signature", "chrf_signature"):
            signatures = {getattr(run.scores[test_set], metric) for run in runs} - {None}
            if len(signatures) > 1:
                score = "BLEU" if metric == "signature" else "chrF"
                found.append(f"The {score} signatures on {test_set} differ: don't compare scores.")
    if len({run.steps for run in runs} - {None}) > 1:
        found.append("The translation runs were trained for different numbers of steps.")
    if len({run.device for run in runs} - {None}) > 1:
        found.append("The translation runs used different devices: don't compare their speed.")
    if len({run.corpus for run in results.language_models} - {None}) > 1:
        found.append("The language models used different corpora: compare perplexity within one.")
    return found


def format_cell(cell: Cell, column: Column) -> str:
    """A cell as a reader sees it, with its unit where the heading doesn't say it."""
    if cell == NOT_APPLICABLE:
        return "–"
    if cell == MISSING:
        return MISSING
    match column.kind:
        case "integer":
            return f"{cell:,.0f}"
        case "decimal1":
            return f"{cell:,.1f}"
        case "decimal2":
            return f"{cell:,.2f}"
        case "decimal3":
            return f"{cell:,.3f}"
        case "difference":
            return _signed(f"{cell:+,.2f}")
        case "percent":
            return _signed_percent(cell)
        case "duration":
            return format_duration(cell)
        case "interval":
            return f"{cell[0]:.1f} to {cell[1]:.1f}"
        case _:
            return str(cell)


def format_duration(seconds: float) -> str:
    """Seconds in the two largest units that matter: 2 min 31 s, 3 h 05 min, 2 d 04 h."""
    if seconds < 59.95:
        return f"{seconds:.1f}{_NO_BREAK}s"
    whole = round(seconds)
    if whole < 3600:
        return _joined(whole // 60, "min", whole % 60, "s")
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return _joined(minutes // 60, "h", minutes % 60, "min")
    hours = round(seconds / 3600)
    return _joined(hours // 24, "d", hours % 24, "h")


def format_count(count: float) -> str:
    """A count of parameters in words: 1.2 million, 34.5 thousand, 512."""
    for size, word in ((1e6, "million"), (1e3, "thousand")):
        if count >= 0.9995 * size:  # what would round up to 1,000 of the smaller unit
            scaled = count / size
            return f"{scaled:,.{1 if scaled < 100 else 0}f}{_NO_BREAK}{word}"
    return f"{count:.0f}"


def _joined(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return _NO_BREAK.join((str(large), large_unit, f"{small:02d}", small_unit))


def _signed_percent(value: float) -> str:
    return f"{_signed(f'{value:+.1f}')}{_NO_BREAK}%"


def _signed(number: str) -> str:
    """With a minus sign in place of a hyphen, and no sign before nothing but zeros."""
    return number.replace("-", "−") if number.strip("+-0.") else number[1:]


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = format_cell
    return environment


def _tables(results: Results) -> Iterable[Table]:
    if results.translation:
        yield translation_table(results)
        yield signature_table(results)
    if results.language_models:
        yield language_model_table(results)
    if results.translation or results.language_models:
        yield cost_table(results)
        yield training_table(results)
    yield learning_curve_table(results)
    yield validation_table(results)
    yield factorisation_table(results)


def _analysis_tables(analyses: Analyses) -> Iterable[Table]:
    if analyses.correlations:
        yield correlation_table(analyses.correlations)
    if analyses.compressions:
        yield compression_table(analyses.compressions)


def _views(results: Results, tables: dict[str, Table]) -> dict[str, Table]:
    """The parts of the two wide tables that the page shows, by the place where it shows them."""
    views: dict[str, Table] = {}
    if results.translation:
        table = tables["translation"]
        tested = ("baseline ", "p ")
        views["scores"] = table.view(
            (
                *("run", "seed"),
                *_keys(table, starts=("BLEU", "interval", *tested, "deviation", "chrF", "COMET")),
                *("steps", "model step", "seconds", "source tokens/s", "target tokens/s"),
            )
        )
        views["sizes"] = _sizes(table)
    if results.language_models:
        table = tables["language_models"]
        views["perplexities"] = table.view(
            (
                *("run", "seed", "corpus", "model", "valid perplexity", "test perplexity"),
                *_keys(table, starts=("deviation",)),
                *("epochs", "steps", "seconds", "tokens/s"),
            )
        )
        views["language model sizes"] = _sizes(table)
    return views


def _sizes(table: Table) -> Table:
    """What no seed changes: input layer, parameters, vocabulary; the total first."""
    totals = ("total parameters", "relative")
    parts = [key for key in _keys(table, ends=(" parameters",)) if key not in totals]
    keys = ["run", *EMBEDDING_COLUMNS, *totals, *parts, *_keys(table, ends=("vocabulary",))]
    view = table.view(keys, table.first_seed_rows())
    short = [replace(one, label=one.label.replace(" parameters", "")) for one in view.columns]
    return replace(view, columns=tuple(short))


def _keys(
    table: Table, starts: tuple[str, ...] = ("",), ends: tuple[str, ...] = ("",)
) -> list[str]:
    keys = (column.key for column in table.columns)
    return [key for key in keys if key.startswith(starts) and key.endswith(ends)]


def _embed(picture: Picture, folder: Path) -> _Image:
    svg = write_picture(picture, folder)
    return _Image(_source(svg), picture.name, picture.section, picture.caption)


def _correlation_images(analyses: Analyses, folder: Path) -> Iterable[_Image]:
    """The pictures that `onmt_define correlation` drew, copied beside the others."""
    for name, caption, svg in correlation_pictures(analyses.correlations):
        for kind in ("svg", "png"):
            with complete_or_absent(folder / f"{name}.{kind}") as part:
                part.write_bytes(svg.with_suffix(f".{kind}").read_bytes())
        yield _Image(_source(svg), name, "correlation", caption)


def _source(svg: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.read_bytes()).decode('ascii')}"


def _read_provenance(
    paths: Iterable[str | Path], missing: list[Missing]
) -> Iterable[tuple[str, str]]:
    for path in map(Path, paths):
        try:
            content = read_json_object(path)
        except ValueError as error:
            missing.append(Missing(str(path), str(error)))
            continue
        yield str(path), yaml.safe_dump(content, allow_unicode=True, sort_keys=False)


def _versions(results: Results) -> dict[str, str]:
    """Each program's version; all of them where the runs' differ."""
    found: dict[str, dict[str, None]] = {}
    for run in (*results.translation, *results.language_models):
        for program, version in run.versions.items():
            found.setdefault(program, {})[version] = None
    return {program: ", ".join(versions) for program, versions in found.items()}


def _scope(results: Results) -> str:
    config = results.config
    corpus = config.get("corpus")
    corpus = corpus.get("name") if isinstance(corpus, dict) else corpus
    parts = []
    if results.translation:
        languages = [config.get("source_language"), config.get("target_language")]
        about = [" to ".join(map(str, languages))] if all(languages) else []
        about += [f"corpus {corpus}"] if corpus else []
        about.append(_seeds(results.translation))
        count = _plural(len(by_name(results.translation)), "translation run")
        parts.append(f"{count} ({', '.join(about)})")
    if results.language_models:
        count = _plural(len(by_name(results.language_models)), "language model")
        parts.append(f"{count} ({_seeds(results.language_models)})")
    return f"This report covers {' and '.join(parts) or 'no runs'}."


def _seeds(runs: Sequence[Run]) -> str:
    counts = sorted({len(seeds) for seeds in by_name(runs).values()})
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} seeds each"
    return f"{_plural(counts[0], 'seed')} each"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _translation_sentences(results: Results) -> list[str]:
    if not results.test_sets:
        return []
    test_set = results.test_sets[0]
    rows = translation_table(results).one_row_per_run()
    metric = _Metric(f"BLEU {test_set}", "BLEU", digits=1, sign=-1)
    chosen = _noteworthy(rows[1:], metric)
    if not chosen:
        return [_result(rows[0], metric, f" on {test_set}") + "."]
    best, *smallest = [_compared(row, rows[0], metric, f" on {test_set}") for row in chosen]
    return [" ".join([best, *_intervals(chosen[0], rows[0], test_set)]), *smallest]


def _language_model_sentences(results: Results) -> list[str]:
    if not results.language_models:
        return []
    first, *others = language_model_table(results).one_row_per_run()
    metric = _Metric("test perplexity", "test perplexity", digits=2, sign=1)
    # perplexities on different texts can't be compared
    others = [row for row in others if row.cells["corpus"] == first.cells["corpus"]]
    chosen = _noteworthy(others, metric)[:1]
    if not chosen:
        return ["Among the language models, " + _result(first, metric, "") + "."]
    return ["Among the language models, " + _compared(chosen[0], first, metric, "")]


def _noteworthy(rows: Sequence[Row], metric: _Metric) -> list[Row]:
    """The best run and, where it is another one, the smallest; none without a score."""
    rows = [row for row in rows if row.cells[metric.key] != MISSING]
    best = sorted(rows, key=lambda row: metric.sign * row.cells[metric.key])[:1]
    counted = [row for row in rows if row.cells["total parameters"] != MISSING]
    smallest = sorted(counted, key=lambda row: row.cells["total parameters"])[:1]
    return best + [row for row in smallest if row is not best[0]]


def _result(row: Row, metric: _Metric, where: str) -> str:
    cells = row.cells
    if cells[metric.key] == MISSING:
        return f"{cells['run']} has no {metric.words}{where} (missing)"
    seeds = f" ({cells['seed']} seeds)" if row.is_mean else ""
    total = cells["total parameters"]
    size = "" if total == MISSING else f" with {format_count(total)} parameters"
    return f"{cells['run']} reached {metric.words} {metric.text(row)}{where}{seeds}{size}"


def _compared(row: Row, reference: Row, metric: _Metric, where: str) -> str:
    total, relative = reference.cells["total parameters"], row.cells["relative"]
    size = MISSING if total == MISSING else format_count(total)
    against = f"{reference.cells['run']} ({metric.text(reference)}, {size})"
    if relative == MISSING:
        return f"{_result(row, metric, where)}; the first run is {against}."
    return f"{_result(row, metric, where)}, {_fewer_or_more(relative)} {against}."


def _fewer_or_more(percent: float) -> str:
    size = f"{abs(percent):.0f}" if abs(percent) >= 9.5 else f"{abs(percent):.1f}"
    if float(size) == 0:
        return "as many as"
    return f"{size}{_NO_BREAK}% {'fewer' if percent < 0 else 'more'} than"


def _intervals(row: Row, reference: Row, test_set: str) -> list[str]:
    p_value = row.cells.get(f"p {test_set}")
    if isinstance(p_value, float):
        baseline = row.cells[f"baseline {test_set}"]
        return [f"In a paired bootstrap test against {baseline}, p is {p_value:.3f}."]
    one, other = (each.cells[f"interval {test_set}"] for each in (row, reference))
    if not (isinstance(one, tuple) and isinstance(other, tuple)):
        return []
    overlap = "overlap" if one[0] <= other[1] and other[0] <= one[1] else "don't overlap"
    return [
        f"Their bootstrap intervals, {one[0]:.1f} to {one[1]:.1f} for {row.cells['run']} and "
        f"{other[0]:.1f} to {other[1]:.1f} for {reference.cells['run']}, {overlap}."
    ]


def _missing_sentence(missing: Sequence[Missing]) -> str:
    if not missing:
        return "Every expected result is there."
    verb = "is" if len(missing) == 1 else "are"
    return f"{_plural(len(missing), 'result')} {verb} missing, listed at the end with the reason."
