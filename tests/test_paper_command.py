"""`onmt_define params` as its users run it."""

import csv
import io
import sys

import pytest

from onmt_define.cli import main


@pytest.fixture
def params(monkeypatch, capsys):
    """Run `onmt_define params` with some arguments; returns its output."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["onmt_define", "params", *arguments])
        main()
        return capsys.readouterr().out

    return run


def test_table_1a_as_text(params):
    out = params("--table", "1a")
    assert "R3   Adaptive + DeFINE  DeFINE         0.41   0.41      412,672  yes\n" in out
    assert "                        total         48.69  48.69   48,685,752  yes\n" in out
    assert "  no" not in out
    assert "Table 1b" not in out
    assert out.endswith(
        "20 of 20 printed numbers are met to the last digit (a row with two counts by either of "
        "them).\n"
    )


def test_all_tables_fit_a_hundred_columns_and_are_plain(params):
    out = params()
    assert max(map(len, out.splitlines())) <= 100
    assert out.isascii()
    assert out.isprintable() or set(out) - {"\n"} <= set(map(chr, range(32, 127)))
    assert out.count("Table ") > 12
    assert "85 of 97 printed numbers" in out


def test_a_number_without_letter_takes_all_parts(params):
    out = params("--table", "8", "--table", "7a")
    titles = [line[:9] for line in out.splitlines() if line.startswith("Table")]
    assert titles == ["Table 7a:", "Table 8a:", "Table 8b:"]


def test_hgt_shows_both_counts_and_why(params):
    out = params("--table", "6b")
    assert "hgt                   HGT                                 40.73  39.97" in out
    assert "counted with a link to the input  40.73  40.73   40,730,794  yes" in out
    assert "The printed count includes a link to the input" in out


def test_csv_has_a_line_for_each_number(params):
    records = list(csv.DictReader(io.StringIO(params("--table", "2a", "--format", "csv"))))
    assert len(records) == 9 * 4
    wanted = {"row": "table2a/projective-128", "part": "total"}
    (record,) = [record for record in records if wanted.items() <= record.items()]
    assert record["paper_millions"] == "70.98"
    assert (record["our_millions"], record["our_count"], record["match"]) == (
        "70.99",
        "70985230",
        "no",
    )
    assert "rounded columns" in record["remark"]


def test_other_works_models_are_left_open(params):
    (record, _) = csv.DictReader(io.StringIO(params("--table", "1b", "--format", "csv")))
    assert record["paper_millions"] == "151"
    assert (record["our_count"], record["match"]) == ("", "")
    assert "isn't built here" in record["remark"]


def test_markdown(params):
    out = params("--table", "7a", "--format", "markdown")
    assert out.startswith("### Table 7a: ")
    assert "| N7-k1024 | N = 7, k = 1024 | total | 40.73 | 40.73 | 40,730,794 | yes |" in out
    assert len({line.count("|") for line in out.splitlines() if line.startswith("|")}) == 1


def test_vocabulary_of_the_translation_models(params):
    out = params("--table", "3", "--vocabulary-size", "37000")
    assert "Ours is 44,140,544 + 1,537 V" in out
    assert "37,000 here" in out
    assert "101,009,544  no" in out
    assert "31,000 here" in params("--table", "3")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--table", "9"], "--table: table '9' isn't in the paper, expected one of 1a, 1b, 1c"),
        (["--table", "1a", "5"], "--table: table '5' prints no parameters, expected one of 1a"),
        (["--table", ""], "--table: table '' isn't in the paper"),
        (["--format", "html"], "--format is 'html', expected one of text, csv, markdown"),
        (["--vocabulary-size", "0"], "--vocabulary-size is '0', expected a whole number of at"),
        (["--vocabulary-size", "31.5"], "--vocabulary-size is '31.5', expected a whole number"),
    ],
)
def test_bad_arguments_get_one_sentence(params, capsys, arguments, sentence):
    with pytest.raises(SystemExit) as exit_:
        params(*arguments)
    output = capsys.readouterr()
    assert exit_.value.code == 2
    assert output.out == ""
    assert output.err.startswith(f"error: {sentence}")
    assert output.err.count("\n") == 1


def test_help_teaches(params, capsys):
    with pytest.raises(SystemExit):
        params("--help")
    out = capsys.readouterr().out
    assert "onmt_define params --table 3 --vocabulary-size 37000" in out
    assert "(default 31,000)" in out
