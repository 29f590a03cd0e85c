"""The paper's tables as data: complete, strict, and the numbers that the paper prints."""

import re

import pytest
import yaml
from paths import ROOT

from onmt_define.errors import UserError
from onmt_define.paper.published import TABLES, find_row, load_tables, merge, read_table

PAPERS = ROOT.parent / "shared" / "seeds"
# The line is lost in the extracted text of v2.
LOST_IN_V2 = {"table8b/without-reduce"}

ROWS = [row for table in load_tables().values() for row in table.rows]
V2_ROWS = [row for row in ROWS if row.id not in LOST_IN_V2]
V1_ROWS = [row for table in load_tables().values() if table.v1_number for row in table.rows]


def numbers(printed):
    """The row's numbers in the paper's order of columns."""
    parameters = printed.get("parameters", {}).values()
    return [*parameters, *(value for value in printed.values() if isinstance(value, str))]


def is_on_a_line(wanted, lines):
    """Whether some line holds the numbers in this order, perhaps among others."""

    def holds(line):
        found = iter(line)
        return all(number in found for number in wanted)

    return any(map(holds, lines))


@pytest.fixture(scope="module")
def papers():
    """Numbers of each line of both versions: (v1, v2)."""
    texts = [path.read_text("utf-8") for path in sorted(PAPERS.glob("*.txt"))]
    if len(texts) != 2:
        pytest.skip("the two versions of the paper aren't beside the repository")
    texts.sort(key=lambda text: "Anonymous authors" not in text)
    return [[re.findall(r"\d+(?:\.\d+)?", line) for line in text.splitlines()] for text in texts]


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.id not in LOST_IN_V2], ids=lambda r: r.id
)
def test_v2_prints_the_row(row, papers):
    assert is_on_a_line(numbers(row.printed), papers[1])


@pytest.mark.parametrize("row", V1_ROWS, ids=lambda row: row.id)
def test_v1_prints_the_row(row, papers):
    assert is_on_a_line(numbers(merge(row.printed, row.printed_v1)), papers[0])


def test_all_tables_and_rows_are_there():
    sizes = {number: len(table.rows) for number, table in load_tables().items()}
    assert sizes == {
        **{"1a": 5, "1b": 4, "1c": 6, "2a": 9, "2b": 4, "3": 5, "4": 10, "5": 6},
        **{"6a": 4, "6b": 3, "7a": 9, "8a": 2, "8b": 2},
    }


def test_where_the_versions_differ():
    differing = {row.id: row.printed_v1 for row in ROWS if row.printed_v1}
    assert differing == {
        "table3/sru": {"bleu_newstest2017": "28.3"},
        "table8a/residual": {"test_perplexity": "39.03"},
    }
    assert find_row("table8a/residual").printed["test_perplexity"] == "40.03"


def test_a_row_takes_its_bases_settings_and_changes_some():
    base, row = find_row("table1a/R4").settings, find_row("table7a/N7-k2048").settings
    assert row["unit"] == {**base["unit"], "expand_dim": 2048, "max_groups": 8}
    assert {**row, "unit": None} == {**base, "unit": None}
    assert base["training"]["epochs"] == 20
    assert find_row("table1a/R1").settings["training"]["gpus"] == 2
    assert find_row("table6b/hgt").counted_settings["unit"]["mix"] == "concat"
    assert "cutoffs" not in find_row("table1a/R1").settings["classifier"]


def test_other_works_rows_have_no_settings():
    assert {row.id for row in ROWS if row.settings is None} == {
        *("table1b/grave-lstm", "table1b/grave-lstm-cache", "table1b/merity-qrnn"),
        *("table1c/awd-lstm-mos", "table1c/awd-lstm-mos-finetuned", "table1c/transformer-xl"),
        *("table3/vaswani", "table3/sru"),
    }


def test_unknown_row_names_the_nearest():
    with pytest.raises(UserError, match=r"no row 'table1a/R33', did you mean table1a/R3\?"):
        find_row("table1a/R33")
    with pytest.raises(UserError, match="expected an id such as table1a/R3"):
        find_row("xyz")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param(
            {"rows": {"R1": {"name": "a", "printed": {"test_perplexity": 44.12}}}},
            "rows.R1.printed.test_perplexity is 44.12, expected string",
            id="a number loses its last zero",
        ),
        pytest.param(
            {"rows": {"R1": {"name": "a", "printed": {"parameters": {"totl": "1"}}}}},
            "unknown key 'rows.R1.printed.parameters.totl', did you mean 'total'",
            id="mistyped column",
        ),
        pytest.param(
            {"settings": {"unit": {"maxgroups": 8}}},
            "unknown key 'settings.unit.maxgroups', did you mean 'max_groups'",
            id="mistyped argument of the unit",
        ),
        pytest.param(
            {"settings": {"training": {"momentum": 0.9}}},
            "unknown key 'settings.training.momentum'",
            id="what the paper doesn't state",
        ),
        pytest.param({"corpus": "text8"}, "corpus is 'text8', expected one of", id="corpus"),
        pytest.param(
            {"settings": {"unit": {"depth": 1}}}, "1 is less than the minimum of 2", id="depth"
        ),
        pytest.param({"sectoin": "4.1"}, "did you mean 'section'", id="mistyped key of the table"),
    ],
)
def test_the_schema_is_strict(change, sentence, tmp_path):
    document = yaml.safe_load((TABLES / "table1a.yaml").read_text("utf-8"))
    path = tmp_path / "table1a.yaml"
    path.write_text(yaml.safe_dump(document))
    assert read_table(path) == document
    path.write_text(yaml.safe_dump({**document, **change}))
    with pytest.raises(UserError, match=re.escape(sentence)) as error:
        read_table(path)
    assert str(path) in str(error.value)
