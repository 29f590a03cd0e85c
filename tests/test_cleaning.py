"""Cleaning: both sides stay together whatever a line holds, and only training pairs are dropped."""

import json
import lzma
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from onmt_define.errors import UserError
from onmt_define.workflow import cleaning, ordered_map
from onmt_define.workflow.cleaning import CleaningSettings, clean_corpus, detokenise
from onmt_define.workflow.moses import MosesTokeniser

MULTI30K = Path(__file__).parents[2] / "shared" / "data" / "multi30k"
SCRIPT = Path(__file__).parents[1] / "scripts" / "clean_corpus.py"
SETTINGS = CleaningSettings("en", "de", max_tokens=10, max_length_ratio=2.0)


def corpus(folder: Path, **splits: list[tuple[str, str]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{split}.{language}").write_bytes(text.encode())
    return folder


def lines_of(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]


def multi30k(name: str, language: str) -> list[str]:
    path = MULTI30K / f"{name}.{language}.xz"
    if not path.exists():
        pytest.skip("the Multi30k text isn't here")
    return lzma.decompress(path.read_bytes()).decode().split("\n")[:-1]


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("en", "Mr. Smith's dog didn't bark.", "Mr. Smith 's dog didn 't bark ."),
        ("de", "Das ist z. B. „gut“ – oder?", 'Das ist z. B. " gut " - oder ?'),
        ("en", 'a <b> & "c" | [d]', 'a < b > & " c " | [ d ]'),
        ("en", "a well-known man", "a well-known man"),
        ("de", "10\u00a0km", "10 km"),
        ("en", "a\u2028b\u0085c\x1cd\re\tf\u3000g\u202fh", "a b c d e f g h"),
        ("de", "Donau\u00addampf\u200bschiff\ufeff", "Donaudampfschiff"),
        ("en", "a\uffe8b", "a \u2502 b"),
        ("en", " \u00a0\x00 ", ""),
    ],
)
def test_tokens(language: str, line: str, tokens: str) -> None:
    assert MosesTokeniser(language)(line) == tokens


def test_aggressive_dashes_come_and_go() -> None:
    tokens = MosesTokeniser("en", aggressive_dashes=True)("a well-known man")
    assert tokens == "a well @-@ known man"
    assert list(detokenise([tokens], "en")) == ["a well-known man"]


@pytest.mark.parametrize("language", ["en", "de"])
def test_same_tokens_as_sacremoses_itself(language: str) -> None:
    normaliser, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    ours = MosesTokeniser(language)
    for line in multi30k("val", language):
        expected = tokenizer.tokenize(normaliser.normalize(line), return_str=True, escape=False)
        assert ours(line) == expected


@pytest.mark.parametrize("language", ["en", "de"])
def test_detokenising_gives_the_text_back(language: str) -> None:
    originals = multi30k("test_2016_flickr", language)
    tokenise = MosesTokeniser(language)
    again = list(detokenise(map(tokenise, originals), language))
    same = sum(line == original.strip() for line, original in zip(again, originals, strict=True))
    assert same >= 0.97 * len(originals)


def test_detokenising_leaves_entities_and_blank_lines_alone() -> None:
    assert list(detokenise(["", "R &amp; D ."], "en")) == ["", "R &amp; D."]


def test_filters_drop_training_pairs_only(tmp_path: Path) -> None:
    pairs = [
        ("Good morning .", "Guten Morgen ."),
        ("", "Leer ."),
        ("\u200b", "Unsichtbar ."),
        ("one two three", "eins"),
        ("w " * 11, "w " * 9),
        ("w " * 10, "w " * 5),
    ]
    raw = corpus(tmp_path / "raw", train=pairs, valid=pairs, news=pairs)
    counts = clean_corpus(raw, tmp_path / "clean", ["train", "valid", "news"], SETTINGS)
    dropped = {"empty": 2, "length_ratio": 1, "too_long": 1}
    assert counts["train"] == {"pairs": 6, "kept": 2, "dropped": dropped}
    assert counts["valid"] == counts["news"] == {"pairs": 6, "kept": 6, "dropped": {}}
    for split, numbers in counts.items():
        written = (tmp_path / "clean" / f"{split}.counts.json").read_text()
        assert json.loads(written) == numbers
    assert lines_of(tmp_path / "clean" / "train.de") == ["Guten Morgen .", "w w w w w"]
    assert lines_of(tmp_path / "clean" / "news.en")[1:3] == ["", ""]


def test_nothing_left_says_which_filter_took_how_many(tmp_path: Path) -> None:
    raw = corpus(
        tmp_path / "raw", train=[("", "a"), ("a b c", "a"), ("a b c", "b"), ("w " * 11, "w")]
    )
    with pytest.raises(UserError) as error:
        clean_corpus(raw, tmp_path / "clean", ["train"], SETTINGS)
    assert str(error.value).endswith(
        "1 have an empty side, 1 are longer than 10 tokens, "
        "2 have one side more than 2.0 times as long as the other"
    )
    assert not list((tmp_path / "clean").iterdir())


def test_different_lengths_leave_nothing(tmp_path: Path) -> None:
    raw = corpus(tmp_path / "raw", train=[("a", "b"), ("c", "d")])
    (raw / "train.de").write_text("b\n")
    with pytest.raises(UserError, match=r"has 2 lines and .* has 1"):
        clean_corpus(raw, tmp_path / "clean", ["train"], SETTINGS)
    assert not list((tmp_path / "clean").iterdir())


ANY_LINE = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"], exclude_characters="\n"),
        st.sampled_from("\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\u00a0\u00ad\ufeff\uffe8 .,'\"-&"),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ANY_LINE, ANY_LINE), max_size=8), st.booleans())
def test_no_character_shifts_the_alignment(
    tmp_path_factory, pairs: list[tuple[str, str]], aggressive: bool
) -> None:
    """Each line starts with its number; cleaned, both sides must still show the same numbers."""
    pairs = [(f"{n} {source}", f"{n} {target}") for n, (source, target) in enumerate(pairs, 1)]
    pairs.insert(0, ("0 one pair that stays", "0 ein Paar das bleibt"))
    folder = tmp_path_factory.mktemp("corpus")
    raw = corpus(folder / "raw", train=pairs, news=pairs)
    chosen = CleaningSettings("en", "de", 100, 1.5, aggressive)
    counts = clean_corpus(raw, folder / "clean", ["train", "news"], chosen)
    for split in ("train", "news"):
        sides = [lines_of(folder / "clean" / f"{split}.{language}") for language in ("en", "de")]
        for line in sides[0] + sides[1]:
            assert line == " ".join(line.split())
            assert line.splitlines() == [line]
            assert "\uffe8" not in line
        numbers = [[int(line.split()[0]) for line in side] for side in sides]
        assert numbers[0] == numbers[1] == sorted(set(numbers[0]))
        assert len(numbers[0]) == counts[split]["kept"]
    assert numbers[0] == list(range(len(pairs)))


def test_processes_keep_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "LINES_PER_CHUNK", 7)
    pairs = [(f"Number {n}.", f"Nummer {n}.") for n in range(500)]
    raw = corpus(tmp_path / "raw", train=pairs)
    before = set(multiprocessing.active_children())  # other tests' processes may still be ending
    one = clean_corpus(raw, tmp_path / "one", ["train"], SETTINGS, threads=1)
    two = clean_corpus(raw, tmp_path / "two", ["train"], SETTINGS, threads=2)
    assert one == two
    for name in ("train.en", "train.de", "train.counts.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert set(multiprocessing.active_children()) <= before


def test_reads_only_a_little_ahead() -> None:
    """What bounds the memory: chunks are taken from the input as results leave."""
    taken = 0

    def chunks():
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield [("a", "b")]

    clean = cleaning.functools.partial(cleaning.clean_chunk, SETTINGS, False)
    with ordered_map.process_pool(2) as pool:
        results = ordered_map.map_in_order(clean, chunks(), pool, ahead=4)
        next(results)
        assert taken <= 5
        results.close()


def test_script(tmp_path: Path) -> None:
    raw = corpus(tmp_path / "mein Korpus" / "raw", train=[("A dog.", "Ein Hund.")])
    command = [sys.executable, SCRIPT, "--input", raw, "--output", tmp_path / "clean"]
    command += ["--source-language", "en", "--target-language", "de", "--splits", "train"]
    command += ["--max-tokens", "100", "--max-length-ratio", "1.5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "train: 1 of 1 pairs kept\n"), done.stderr
    assert lines_of(tmp_path / "clean" / "train.de") == ["Ein Hund ."]
    (raw / "train.en").unlink()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot read")
