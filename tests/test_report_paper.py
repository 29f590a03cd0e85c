"""The report's sections beyond the runs: the paper's tables, correlation, compression, files."""

import csv
import json
import re

import pytest
from test_report import change, check_page, make_config, make_tree, rows_of, write_json

from onmt_define.report.analyses import compression_table, correlation_table, read_analyses
from onmt_define.report.factorisations import factorisation_table
from onmt_define.report.page import format_cell, write_report
from onmt_define.report.paper_tables import compare_with_paper, differences_from_paper
from onmt_define.report.records import read_config, read_results
from onmt_define.report.size_figure import size_pictures
from onmt_define.report.table_files import in_latex, write_latex, write_markdown
from onmt_define.report.tables import MISSING, Column, Row, Table

COMPRESSION = {
    "kind": "compression",
    "embedding_type": "define",
    "codebooks": 32,
    "codes": 16,
    "layers": {
        "input": {
            "tokens": 2000,
            "width": 128,
            "table_bytes": 1_024_000,
            "compressed_bytes": 294_144,
            "error": 0.034,
            "lookup_ms": {"before": 0.05, "after": 0.9},
        }
    },
    "file_bytes": {"before": 2_600_000, "after": 2_100_000},
    "score": {
        "metric": "perplexity",
        "before": 37.0,
        "after": 37.25,
        "batch": "128 tokens",
        "ms_per_batch": {"before": 20.5, "after": 21.75},
    },
}
STAGE = {"embedding": "input", "stage": "layer 1", "width": 64, "groups": 4}
CORRELATION = {
    "kind": "correlation",
    "stages": [
        {**STAGE, "stage": "mapping layer", "groups": 1, "off-diagonal": 0.2, "centred": 0.15},
        {**STAGE, "off-diagonal": 0.1234, "centred": 0.101, "between groups": 0.0567},
    ],
}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"></svg>'


def paper_config(**rows):
    """Runs `standard` and `define`, and two language models, that name rows of the paper."""
    config = make_config(
        ["standard", "define"],
        ["lstm-standard", "lstm-define"],
        test_sets=["newstest2014", "newstest2017"],
    )
    for section in ("translation", "language_models"):
        for run in config[section]["runs"]:
            if run["name"].replace("-", "_") in rows:
                run["paper"] = rows[run["name"].replace("-", "_")]
    return config


def lines_of(comparisons, number, model):
    (one,) = (one for one in comparisons if one.published.number == number)
    return {line["number"]: line for line in rows_of(one.table) if line["model"] == model}


def test_our_numbers_stand_beside_the_papers(tmp_path):
    config = paper_config(define="table3/define", lstm_define="table2a/define-128")
    tested = {"run": "standard", "seed": 1, "BLEU": {"difference": 1.0, "p_value": 0.0208}}
    make_tree(tmp_path, config)
    change(tmp_path / "mt/define/seed1/newstest2017.score.json", baseline=tested)
    results = read_results(config, tmp_path)
    missing = []
    comparisons = compare_with_paper(results, (), missing)
    assert not missing
    assert [one.published.number for one in comparisons] == (
        ["1a", "1b", "1c", "2a", "2b", "3", "4", "5", "6a", "6b", "7a", "8a", "8b"]
    )
    bleu = lines_of(comparisons, "3", "Transformer + DeFINE")["BLEU newstest2017"]
    assert (bleu["paper"], bleu["ours"], bleu["seeds"]) == ("28.25", 87.1, 1)
    assert bleu["difference"] == pytest.approx(87.1 - 28.25)
    assert bleu["interval"] == pytest.approx((85.9, 88.2))
    assert bleu["significance"] == "p = 0.021 against standard"
    assert bleu["from"] == "define"
    assert bleu["count"] == results.translation[1].parameters["total"]
    # Table 4 repeats the row; its model is the same, so the run is.
    again = lines_of(comparisons, "4", "Transformer, DeFINE")["BLEU newstest2017"]
    assert again["ours"] == 87.1
    without = lines_of(comparisons, "3", "Transformer")
    assert without["BLEU newstest2017"]["from"] == "no run"
    assert without["BLEU newstest2017"]["ours"] == ""
    total = without["parameters, total, millions"]
    assert total["from"] == "computed"
    assert total["ours"] == pytest.approx(92, abs=0.5)
    other = lines_of(comparisons, "3", "Transformer (Vaswani et al., 2017)")
    assert other["BLEU newstest2014"]["from"] == "another work's model"
    assert [one.published.number for one in comparisons if one.runs] == ["2a", "2b", "3", "4", "5"]


def test_several_seeds_are_a_mean_between_their_bounds(tmp_path):
    config = paper_config(define="table3/define")
    for run in config["translation"]["runs"]:
        run["seeds"] = [1, 2]
    results = read_results(config, make_tree(tmp_path, config))
    bleu = lines_of(compare_with_paper(results, (), []), "3", "Transformer + DeFINE")
    line = bleu["BLEU newstest2017"]
    assert line["ours"] == pytest.approx(87.3)
    assert line["interval"] == pytest.approx((87.1, 87.5))
    assert line["seeds"] == 2


def test_runs_of_one_name_keep_to_their_own_kind(tmp_path):
    config = paper_config(lstm_define="table2a/define-128", define="table3/define")
    config["language_models"]["runs"][1]["name"] = "define"
    make_tree(tmp_path, config)
    results = read_results(config, tmp_path)
    comparisons = compare_with_paper(results, (), [])
    bleu = lines_of(comparisons, "3", "Transformer + DeFINE")["BLEU newstest2017"]
    perplexity = lines_of(comparisons, "5", "DeFINE")["test perplexity"]
    assert (bleu["ours"], bleu["seeds"]) == (87.1, 1)
    assert (perplexity["ours"], perplexity["seeds"]) == (37.0, 1)
    assert len(differences_from_paper(results)) == 2


def test_a_compressed_row_takes_its_numbers_from_the_compression(tmp_path):
    config = paper_config(lstm_define="table2a/define-128")
    make_tree(tmp_path, config)
    write_json(tmp_path / "lm/lstm-define/seed1/compressed.json", COMPRESSION)
    other = {**COMPRESSION, "codes": 256, "score": {**COMPRESSION["score"], "after": 99.0}}
    write_json(tmp_path / "lm/lstm-define/seed1/compressed-256.json", other)
    results = read_results(config, tmp_path)
    analyses = read_analyses(results, tmp_path, [])
    comparisons = compare_with_paper(results, analyses.compressions, [])
    plain = lines_of(comparisons, "5", "DeFINE")
    assert plain["look-up table, MB"]["ours"] == pytest.approx(1.024)
    assert plain["test perplexity"]["ours"] == 37.0
    assert plain["inference, ms/batch"]["ours"] == 20.5
    compressed = lines_of(comparisons, "5", "DeFINE, compressed")
    assert compressed["look-up table, MB"]["ours"] == pytest.approx(0.294144)
    assert compressed["test perplexity"]["ours"] == 37.25
    assert compressed["inference, ms/batch"]["ours"] == 21.75


def test_a_row_that_the_paper_has_not_is_named(tmp_path):
    config = paper_config(define="table3/defin")
    results = read_results(config, make_tree(tmp_path, config))
    page = write_report(results, tmp_path / "report")
    text = check_page(page).text
    assert "run define: the paper has no row 'table3/defin', did you mean table3/define?" in text


def test_what_differs_is_told_from_the_records(tmp_path):
    config = paper_config(define="table3/define", lstm_define="table1a/R3")
    results = read_results(config, make_tree(tmp_path, config))
    translation, language_model = differences_from_paper(results)
    assert translation.startswith("define (table3/define): corpus demo (paper: wmt14-en-de); ")
    assert "1,500 steps" in translation
    assert "on CPU, 1 thread" in translation
    assert "vocabulary 2,000 (paper: 267,735)" in language_model
    assert "2 epochs (paper: 20)" in language_model
    assert "torch 2.13.0 (paper: 1.2)" in language_model
    assert all(
        one in check_page(write_report(results, tmp_path / "report")).text
        for one in ("What differs from the paper", translation, language_model)
    )


def test_factorisations_by_task(tmp_path):
    config = make_config(["define", "standard", "projective"], ["lstm-define", "lstm-standard"])
    make_tree(tmp_path, config)
    (tmp_path / "mt/projective/seed1/record.json").unlink()
    rows = rows_of(factorisation_table(read_results(config, tmp_path)))
    found = [(row["task"], row["embedding"], row["value"]) for row in rows]
    assert found[:2] == [
        ("translation, demo", "standard", 88.0),
        ("translation, demo", "define", 87.1),
    ]
    assert ("language model lstm, demo", "define", 37.0) in found
    assert [row["run"] for row in rows if row["embedding"] == MISSING] == ["projective"]
    assert rows[1]["relative"] < 0


def test_correlation_and_compression_are_shown(tmp_path):
    config = make_config(["standard", "define"], ["lstm-define"])
    make_tree(tmp_path, config)
    place = tmp_path / "lm/lstm-define/seed1"
    write_json(place / "correlation/correlation.json", CORRELATION)
    for name in ("input", "input-groups"):
        (place / f"correlation/{name}.svg").write_text(SVG)
        (place / f"correlation/{name}.png").write_bytes(b"\x89PNG")
    write_json(place / "compressed.json", COMPRESSION)
    write_json(tmp_path / "mt/define/seed1/compressed.json", {"kind": "other"})
    results = read_results(config, tmp_path)
    missing = []
    analyses = read_analyses(results, tmp_path, missing)
    assert [one.reason for one in missing] == ["file is no record of a compression"]
    first, second = rows_of(correlation_table(analyses.correlations))
    assert (first["between groups"], second["between groups"]) == ("", 0.0567)
    assert (first["centred"], second["centred"]) == (0.15, 0.101)
    (row,) = rows_of(compression_table(analyses.compressions))
    assert row["error"] == pytest.approx(3.4)
    assert (row["before"], row["after"], row["file after"]) == (37.0, 37.25, 2.1)
    assert (row["ms before"], row["ms after"], row["batch"]) == (20.5, 21.75, "128 tokens")
    page = write_report(results, tmp_path / "report", folder=tmp_path)
    parsed = check_page(page)
    assert "0.123" in parsed.text
    assert "correlation maps between the groups of the stages of the input" in parsed.text
    assert (page.parent / "figures" / "correlation_lstm-define_input-groups.png").is_file()
    assert "mt/define/seed1/compressed.json: file is no record of a compression" in parsed.text


def test_compressing_moves_the_quality_in_the_figure_by_what_it_changed(tmp_path):
    config = make_config(["standard", "define"], ["lstm-standard", "lstm-define"], seeds=(1, 2))
    make_tree(tmp_path, config)
    # BLEU of a compression is another one than a report's: of tokens, decoded otherwise.
    bleu = {**COMPRESSION["score"], "metric": "BLEU", "before": 90.0}
    place = tmp_path / "mt/define/seed1"
    write_json(place / "compressed.json", {**COMPRESSION, "score": {**bleu, "after": 90.0}})
    write_json(place / "compressed-256.json", {**COMPRESSION, "score": {**bleu, "after": 89.5}})
    write_json(place / "compressed-none.json", {**COMPRESSION, "score": {**bleu, "after": None}})
    write_json(tmp_path / "lm/lstm-define/seed2/compressed.json", COMPRESSION)
    results = read_results(config, tmp_path)
    pictures = list(size_pictures(results, read_analyses(results, tmp_path, []).compressions))
    assert [dotted_lines(picture) for picture in pictures] == [
        [pytest.approx([87.3, 86.8]), pytest.approx([87.3, 87.3])],
        [pytest.approx([37.0, 37.25])],
    ]
    for picture in pictures:
        assert "moved by the change of the score that compressing measured" in picture.caption


def test_a_translation_run_and_a_language_model_of_one_name_are_two_in_the_figure(tmp_path):
    config = make_config(["standard", "define"], ["lstm", "define"])
    make_tree(tmp_path, config)
    write_json(tmp_path / "lm/define/seed1/compressed.json", COMPRESSION)
    results = read_results(config, tmp_path)
    pictures = size_pictures(results, read_analyses(results, tmp_path, []).compressions)
    assert [dotted_lines(picture) for picture in pictures] == [[], [pytest.approx([37.0, 37.25])]]


def dotted_lines(picture):
    (axes,) = picture.draw().axes
    return [list(line.get_ydata()) for line in axes.lines if line.get_linestyle() == ":"]


@pytest.mark.parametrize("wrong", [None, "x", [], {}, [1], {"a": 1}, float("nan"), True])
def test_no_wrong_field_of_an_analysis_stops_the_report(tmp_path, wrong):
    config = make_config(["define"], ["lstm-define"])
    make_tree(tmp_path, config)
    config["language_models"]["runs"][0]["paper"] = "table2a/define-128"
    place = tmp_path / "lm/lstm-define/seed1"
    for index, key in enumerate((*COMPRESSION, "input")):
        record = json.loads(json.dumps(COMPRESSION))
        (record["layers"] if key == "input" else record)[key] = wrong
        write_json(place / f"compressed{index}.json", record)
    stages = [{**CORRELATION["stages"][1], key: wrong} for key in CORRELATION["stages"][1]]
    write_json(place / "correlation/correlation.json", {**CORRELATION, "stages": [*stages, wrong]})
    results = read_results(config, tmp_path)
    check_page(write_report(results, tmp_path / "report", folder=tmp_path))


def test_an_empty_list_of_seeds_is_told(tmp_path):
    config = make_config(["standard", "define"], ["lstm-define"])
    config["translation"]["runs"][1]["seeds"] = []
    config["language_models"]["runs"][0]["seeds"] = []
    make_tree(tmp_path, config)
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config))
    results = read_results(read_config(path), tmp_path)
    text = check_page(write_report(results, tmp_path / "report")).text
    assert "mt/define: its list of seeds is empty" in text
    assert "lm/lstm-define: its list of seeds is empty" in text


def test_nothing_but_empty_lists_of_seeds_is_a_page_too(tmp_path):
    config = make_config(["standard"])
    config["translation"]["runs"][0]["seeds"] = []
    results = read_results(config, tmp_path)
    assert (
        "mt/standard: its list of seeds" in check_page(write_report(results, tmp_path / "r")).text
    )


@pytest.mark.slow
def test_sixty_runs_with_gaps(tmp_path):
    config = make_config([f"{kind}-{index}" for index in range(20) for kind in "abc"])
    make_tree(tmp_path, config)
    for index in range(0, 20, 5):
        (tmp_path / f"mt/a-{index}/seed1/record.json").unlink()
        change(tmp_path / f"mt/b-{index}/seed1/test.score.json", BLEU=float("nan"))
    results = read_results(config, tmp_path)
    text = check_page(write_report(results, tmp_path / "report")).text
    assert "60 translation runs" in text
    assert "8 results are missing" in text


def test_every_table_is_there_as_markdown_and_latex(tmp_path):
    config = paper_config(define="table3/define")
    page = write_report(read_results(config, make_tree(tmp_path, config)), tmp_path / "report")
    tables = page.parent / "tables"
    names = {path.stem for path in tables.glob("*.csv")}
    assert {"translation", "paper_table3", "factorisations"} <= names
    for name in names:
        with open(tables / f"{name}.csv", newline="") as file:
            rows = sum(1 for _ in csv.reader(file)) - 1
        markdown = (tables / f"{name}.md").read_text().splitlines()
        assert len(markdown) == rows + 2
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in markdown}
        assert len(columns) == 1, name
        latex = (tables / f"{name}.tex").read_text()
        assert latex.count("\\\\\n") == rows + 1
        ampersands = {len(re.findall(r"(?<!\\)&", line)) for line in latex.splitlines()[2:-2]}
        assert ampersands <= {0, columns.pop() - 2}, name


def test_what_means_something_to_latex_and_markdown_is_text(tmp_path):
    assert in_latex("a_b & 50% ~ {x} \\ #1 $") == (
        r"a\_b \& 50\% \textasciitilde{} \{x\} \textbackslash{} \#1 \$"
    )
    columns = (Column("run", "run"), Column("error", "error", "percent", "%"))
    table = Table("t", columns, (Row({"run": "a|b*c", "error": -0.5}),))
    write_markdown(table, tmp_path / "t.md", format_cell)
    assert (tmp_path / "t.md").read_text().splitlines()[2] == "| a\\|b\\*c | −0.5\u00a0% |"
    write_latex(table, tmp_path / "t.tex", format_cell)
    assert "a\\textbar{}b*c & $-$0.5~\\% \\\\" in (tmp_path / "t.tex").read_text()


def test_differences_have_a_sign():
    column = Column("difference", "difference", "difference")
    shown = [format_cell(value, column) for value in (1.234, -0.5, 0.001, -0.001)]
    assert shown == ["+1.23", "−0.50", "0.00", "0.00"]
