"""Reading aligned text and taking in a user's files: all of them right, or nothing written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from onmt_define.errors import UserError
from onmt_define.workflow.parallel_text import (
    count_lines,
    import_user_files,
    iterate_lines,
    iterate_pairs,
)

SCRIPT = Path(__file__).parents[1] / "scripts" / "import_corpus.py"


def write(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict:
    """The `files:` mapping of a small corpus whose folder's name has spaces and umlauts."""
    folder = tmp_path / "meine Texte für später"
    return {
        split: {
            "source": write(folder / f"{split}.en", f"{split} one\n{split} two\n"),
            "target": write(folder / f"{split}.de", f"{split} eins\n{split} zwei\n"),
        }
        for split in ("train", "valid")
    }


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"a\rb\n", ["a\rb"]),
        ("a\u2028b\u0085c\x1cd\x0be\x0c\n".encode(), ["a\u2028b\u0085c\x1cd\x0be\x0c"]),
        (b"\n\na\n", ["", "", "a"]),
        (b"", []),
    ],
)
def test_lines(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    path = write(tmp_path / "text", content)
    assert list(iterate_lines(path)) == lines
    assert count_lines(path) == len(lines)


LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")))


@given(LINES)
def test_nothing_but_a_newline_ends_a_line(tmp_path_factory, lines: list[str]) -> None:
    path = write(tmp_path_factory.mktemp("text") / "text", "".join(f"{line}\n" for line in lines))
    read = list(iterate_lines(path))
    assert len(read) == count_lines(path) == len(lines)
    for line, original in zip(read[1:], lines[1:], strict=True):
        assert line == original.removesuffix("\r")


def test_different_lengths_name_both_files_and_counts(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a", "1\n2\n3\n"), write(tmp_path / "b", "1")
    for first, second, counts in ((source, target, "3.*1"), (target, source, "1.*3")):
        with pytest.raises(UserError, match=f"{first} has {counts[0]} lines and {second} has"):
            list(iterate_pairs(first, second))


def test_import_normalises_and_joins(files: dict, tmp_path: Path) -> None:
    folder = Path(files["train"]["source"]).parent
    originals = {path: path.read_bytes() for path in folder.iterdir()}
    files["train"] = {
        "source": [
            files["train"]["source"],
            write(folder / "b.en", b"\xef\xbb\xbfthree\r\n\nlast"),
        ],
        "target": [files["train"]["target"], write(folder / "b.de", "drei\u2028\n\nletzte\n")],
    }
    files["test_sets"] = {
        "news-2.1": {
            "source": write(folder / "n.en", "a\n\n"),
            "target": write(folder / "n.de", "b\nc"),
        }
    }
    counts = import_user_files(files, "en", "de", tmp_path / "raw")
    assert counts == {"train": 5, "valid": 2, "news-2.1": 2}
    raw = tmp_path / "raw"
    assert (raw / "train.en").read_text() == "train one\ntrain two\nthree\n\nlast\n"
    assert (raw / "train.de").read_text() == "train eins\ntrain zwei\ndrei\u2028\n\nletzte\n"
    assert (raw / "news-2.1.en").read_text() == "a\n\n"
    assert {path: path.read_bytes() for path in originals} == originals


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\nz\xfcrich\n", r"valid\.de, line 2: byte 2 is not UTF-8"),
        ("one\n\uffe8\n", r"valid\.de, line 2 has the character U\+FFE8.*replace it"),
        ("", r"valid\.de is empty"),
        (" \n\t\n", r"have text on both sides in none of their lines"),
        ("one\n", r"valid\.en has 2 lines and .*valid\.de has 1"),
        (None, r"cannot read .*valid\.de: No such file"),
    ],
)
def test_one_bad_file_and_nothing_is_written(
    files: dict, tmp_path: Path, content: str | bytes | None, message: str
) -> None:
    bad = Path(files["valid"]["target"])
    bad.unlink() if content is None else write(bad, content)
    with pytest.raises(UserError, match=message):
        import_user_files(files, "en", "de", tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"valid": None}, "files: valid must have the keys source and target"),
        ({"valid": {"source": "a"}}, "files: valid must have the keys"),
        ({"train": {"source": ["a", "b"], "target": "c"}}, "2 source files and 1 target files"),
        ({"test_sets": {"train": {}}}, "'train' can't name a test set"),
        ({"test_sets": {"../x": {}}}, "can't name a test set"),
    ],
)
def test_wrong_mapping(files: dict, tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_user_files({**files, **change}, "en", "de", tmp_path / "raw")


def test_one_language_twice(files: dict, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must differ"):
        import_user_files(files, "en", "en", tmp_path / "raw")


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_script(files: dict, tmp_path: Path, dump) -> None:
    mapping = write(tmp_path / "files", dump(files))
    command = [sys.executable, SCRIPT, "--files", mapping, "--output", tmp_path / "raw"]
    languages = ["--source-language", "en", "--target-language", "de"]
    done = subprocess.run([*command, *languages], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "train: 2 pairs\nvalid: 2 pairs\n"), done.stderr

    write(Path(files["train"]["source"]), "")
    done = subprocess.run([*command, *languages], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
