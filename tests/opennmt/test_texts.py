"""Texts of every shape: how they are read through, and that no line of a translation is lost."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onmt_define.errors import UserError
from onmt_define.opennmt import texts


@pytest.fixture
def in_small_blocks(monkeypatch):
    monkeypatch.setattr(texts, "BYTES_AT_ONCE", 7)


@pytest.mark.usefixtures("in_small_blocks")
@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\nb", 2), ("ä ö ü ß\r\n".encode() * 9 + b"\n\nx", 12)],
)
def test_lines_are_counted(tmp_path, content, lines):
    (tmp_path / "text").write_bytes(content)
    assert texts.count_lines("src", tmp_path / "text") == lines


@pytest.mark.usefixtures("in_small_blocks")
@pytest.mark.parametrize(
    ("check", "good", "bad", "problem"),
    [
        (None, "w ö", b"w \xe4", "isn't UTF-8 (its byte 3 is 0xe4)"),
        (texts.no_longer_than(4), "a b c d", b"a b c d e", "has 5 tokens, expected at most 4"),
        (texts.with_features(0, None), "a b", "a￨b".encode(), "has the character U+FFE8"),
        (texts.with_features(1, None), "a￨x b￨y", b"a", "has a word with another number of feat"),
        (texts.with_features(1, "x"), "a b", "a￨b c".encode(), "has a word with another number"),
        (texts.NOT_BLANK, "a", "\u3000".encode(), "is blank"),
        (texts.ALIGNMENT, "0-0 1-1", b"0-0 1", "has '1', expected pairs"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 20])
def test_a_bad_line_is_named(tmp_path, check, good, bad, problem, before):
    line = f"{good}\n".encode()
    (tmp_path / "text").write_bytes(line * before + bad + b"\n" + line * 3)
    with pytest.raises(UserError) as caught:
        texts.count_lines("src", tmp_path / "text", *([check] if check else []))
    assert f"text, line {before + 1} {problem}" in str(caught.value)


@given(st.lists(st.integers(0, 12), max_size=20), st.integers(1, 9), st.booleans())
def test_a_long_line_is_found_wherever_it_is(lengths, most, ends):
    lines = [" ".join("w" * length) for length in lengths]
    block = "\n".join(lines) + "\n" * ends
    check = texts.no_longer_than(most)
    is_found = check.may_fail(block.encode()) and any(map(check.problem, lines))
    assert is_found == any(length > most for length in lengths)


SETTINGS = {
    "greedy": ("-beam_size", "1"),
    "beam": ("-beam_size", "5", "-n_best", "2"),
    "reference": ("-tgt", "gaps.tgt", "-beam_size", "1"),
    "prefix": ("-transforms", "prefix", "-src_prefix", "w1", "-beam_size", "1"),
    "debugging": ("-attn_debug", "-verbose", "-beam_size", "1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_blank_source_line_gives_an_empty_line(trained, stock, tmp_path, settings):
    folder, rng = trained[0], random.Random(5)
    lines = [" ".join(rng.choices(["w1", "w2", "w3"], k=rng.randint(1, 6))) for _ in range(40)]
    for place in (0, 7, 8, 39):
        lines[place] = ""
    translations = {}
    for name, chosen in (("gaps", lines), ("whole", [line for line in lines if line])):
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in chosen))
        (folder / f"{name}.tgt").write_text("w2 w1\n" * len(chosen))
        arguments = [word.replace("gaps", name) for word in SETTINGS[settings]]
        status, printed = stock(
            *("translate", "-model", "model_step_20.pt", "-src", f"{name}.src"),
            *("-output", tmp_path / name, "-max_length", "8", *arguments),
        )
        assert status == 0, printed
        translations[name] = (tmp_path / name).read_text().split("\n")[:-1]
    best = 2 if settings == "beam" else 1
    whole = iter(translations["whole"])
    expected = [next(whole) if line else "" for line in lines for _ in range(best)]
    assert translations["gaps"] == expected
    assert any(expected)


@pytest.mark.slow
def test_a_bucket_of_blank_lines(trained, stock, tmp_path, monkeypatch):
    """OpenNMT-py's buckets of lines, of which one holds text at its end alone and one none."""
    from onmt.inputters.dynamic_iterator import DynamicDatasetIter

    build = DynamicDatasetIter.from_opt.__func__

    def from_opt(*arguments, **settings):
        iterator = build(*arguments, **settings)
        iterator.bucket_size = 4
        return iterator

    monkeypatch.setattr(DynamicDatasetIter, "from_opt", classmethod(from_opt))
    words = ["", "", "", "w1 w2", *[""] * 4, "w3", "", "w1 w2", "w2", "w3"]
    (tmp_path / "src").write_text("".join(f"{line}\n" for line in words))
    output = ("-output", tmp_path / "hyp", "-min_length", "1", "-max_length", "3")
    status, printed = stock(
        "translate", "-model", trained[0] / "model_step_20.pt", "-src", tmp_path / "src", *output
    )
    assert status == 0, printed
    lines = (tmp_path / "hyp").read_text().split("\n")[:-1]
    assert list(map(bool, lines)) == list(map(bool, words))
    assert lines[3] == lines[10]
    assert lines[8] == lines[12]
