"""Gathering the public texts of configs/reduced-ende.yaml."""

import lzma

import pytest

from onmt_define.errors import UserError
from onmt_define.schema import load_yaml
from onmt_define.workflow import reduced_ende


@pytest.fixture
def texts(tmp_path):
    """Every file that is asked for, each with a pair of its own."""
    folder = tmp_path / "texts"
    sets = load_yaml(reduced_ende._SETS)
    entries = [sets["valid"], *sets["test_sets"].values(), *sets["train"]]
    for number, entry in enumerate(entries):
        if "columns" in entry:
            write(folder / entry["columns"], f"One {number}.\tEins {number}.\tby somebody\n")
        else:
            write(folder / entry["source"], f"One {number}.\n")
            write(folder / entry["target"], f"Eins {number}.\n")
    return folder


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def training_pairs(output):
    sides = [(output / f"train.{language}").read_text("utf-8") for language in ("en", "de")]
    return list(zip(*(side.splitlines() for side in sides), strict=True))


def test_every_set_is_taken_once(texts, tmp_path):
    write(texts / "europarl-20k/train.en", "Twice.\nTwice.\n")
    write(texts / "europarl-20k/train.de", "Zweimal.\nZweimal.\n")
    counts = reduced_ende.gather(texts, tmp_path / "out")
    sets = load_yaml(reduced_ende._SETS)
    assert counts == {
        "train": len(sets["train"]),
        "valid": 1,
        "newstest2014": 1,
        "newstest2017": 1,
    }
    assert ("Twice.", "Zweimal.") in training_pairs(tmp_path / "out")
    assert (tmp_path / "out/newstest2017.de").read_text("utf-8") == "Eins 2.\n"


def test_no_training_pair_shares_a_side_with_what_is_tested(texts, tmp_path):
    write(texts / "multi30k/train.en", "one 1!\nAnother.\nThird.\n...\n")
    write(texts / "multi30k/train.de", "Etwas anderes.\nEINS, 0\nDritter.\n...\n")
    reduced_ende.gather(texts, tmp_path / "out")
    pairs = training_pairs(tmp_path / "out")
    assert ("Third.", "Dritter.") in pairs
    assert not {"one 1!", "Another.", "..."} & {source for source, _ in pairs}


def test_tokenised_text_becomes_ordinary_text(texts, tmp_path):
    write(texts / "opennmt-toy-ende/src-train.txt", "&quot; It &apos;s so , &quot; he said .\n")
    write(texts / "opennmt-toy-ende/tgt-train.txt", "Ja , so ist es .\n")
    reduced_ende.gather(texts, tmp_path / "out")
    expected = ('"It\'s so," he said.', "Ja, so ist es.")
    assert expected in training_pairs(tmp_path / "out")


def test_compressed_files_serve_as_well(texts, tmp_path):
    reduced_ende.gather(texts, tmp_path / "plain")
    for path in [path for path in texts.rglob("*") if path.is_file()]:
        path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    reduced_ende.gather(texts, tmp_path / "compressed")
    assert training_pairs(tmp_path / "plain") == training_pairs(tmp_path / "compressed")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("tatoeba/deu.txt", None, "deu.txt (or deu.txt.xz) can't be read"),
        ("tatoeba/deu.txt", b"no tab\n", "deu.txt, line 1: expected two texts with a tab"),
        ("multi30k/val.de", b"one\ntwo\n", "have different numbers of lines"),
        ("multi30k/val.de", b"\xff\n", "val.de is not a whole file of UTF-8 text"),
        ("multi30k/val.de.xz", lzma.compress(b"x" * 99)[:-9], "val.de is not a whole file"),
        ("multi30k/val.de.xz", b"<html>", "val.de is not a whole file"),
    ],
)
def test_bad_files_are_named_and_nothing_is_written(texts, tmp_path, name, content, sentence):
    (texts / name).unlink(missing_ok=True)
    if content is not None:
        (texts / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        reduced_ende.gather(texts, tmp_path / "out")
    assert sentence in str(error.value)
    assert not list((tmp_path / "out").glob("*"))
