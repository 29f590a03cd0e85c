"""Vocabulary and token ids of language-modelling corpora."""

import lzma
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from paths import TEXTS

from onmt_define.errors import UserError
from onmt_define.lm.data import (
    EOS,
    UNK,
    Vocabulary,
    build_vocabulary,
    encode,
    open_corpus,
    prepare_corpus,
    read_lines,
)
from onmt_define.lm.known_corpora import check_known_corpus


@pytest.fixture
def write(tmp_path):
    def write_text(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write_text


def test_lines_end_at_line_feeds_and_tokens_at_ascii_spaces_only(write):
    text = "a\u2028b c\x85d\t\te\u00a0f  g\n\nlast line"
    assert list(read_lines(write("text", text))) == [
        ["a\u2028b", "c\x85d", "e\u00a0f", "g", EOS],
        [EOS],
        ["last", "line", EOS],
    ]


def test_vocabulary_is_sorted_by_frequency_then_first_occurrence(write):
    path = write("train", "rare b a\nb a\na\n")
    assert build_vocabulary(path).tokens == ["a", EOS, "b", "rare"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_count": 2}, ["a", EOS, "b", UNK]),
        ({"vocabulary_size": 3}, [UNK, "a", EOS]),
        ({"vocabulary_size": 4}, ["a", EOS, "b", UNK]),
        ({"vocabulary_size": 7}, ["a", EOS, "b", "c", "d", UNK]),
    ],
)
def test_rare_types_become_unknown(write, options, expected):
    path = write("train", "b a\nb a\na c d\n")
    assert build_vocabulary(path, **options).tokens == expected


def test_unknown_tokens_of_the_text_and_rare_types_are_counted_together(write):
    path = write("train", f"a a a b b {UNK} {UNK} c d\n")
    assert build_vocabulary(path, min_count=2).tokens == [UNK, "a", "b", EOS]


def test_unknown_token_is_refused_with_token_file_and_line(write):
    vocabulary = build_vocabulary(write("train", "a b\n"))
    path = write("valid", "a\n\nb zebra a\n")
    with pytest.raises(UserError, match=r"valid, line 3: the token 'zebra'"):
        encode(path, vocabulary)


def test_unknown_token_is_read_as_unk_of_the_training_text(write):
    vocabulary = build_vocabulary(write("train", f"a {UNK}\n"))
    assert encode(write("valid", "zebra\n"), vocabulary).tolist() == [
        vocabulary.ids[UNK],
        vocabulary.ids[EOS],
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\n\xff\n", "line 2, byte 1: not UTF-8"),
        (b"fine\na <eos> b\n", "line 2: holds the token <eos>"),
        (b"", "is empty"),
    ],
)
def test_unusable_text_is_refused(tmp_path, content, message):
    path = tmp_path / "train"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        build_vocabulary(path)


def test_ids_are_on_disk_and_decode_to_the_text(write, tmp_path):
    text = "the cat sat\n\non the mat\n"
    texts = {split: write(split, text) for split in ("train", "valid", "test")}
    corpus = prepare_corpus(texts, tmp_path / "data")

    assert isinstance(corpus.ids["valid"], np.memmap)
    assert corpus.ids["valid"].dtype == np.int32
    words = " ".join(corpus.vocabulary.tokens[index] for index in corpus.ids["valid"])
    assert words == "the cat sat <eos> <eos> on the mat <eos>"
    assert corpus.token_counts == {"train": 9, "valid": 9, "test": 9}
    assert open_corpus(tmp_path / "data").vocabulary == corpus.vocabulary


def test_nothing_is_written_when_a_later_text_is_refused(write, tmp_path):
    texts = {"train": write("train", "a\n"), "valid": write("valid", "b\n")}
    with pytest.raises(UserError, match="the token 'b'"):
        prepare_corpus(texts, tmp_path / "data")
    assert not list(tmp_path.glob("data/*"))


def test_ids_are_made_anew_only_when_a_text_or_an_option_changes(write, tmp_path):
    texts = {"train": write("train", "a b\na\n"), "valid": write("valid", "b\n")}
    folder = tmp_path / "data"
    prepare_corpus(texts, folder)
    before = (folder / "train.npy").stat().st_mtime_ns
    prepare_corpus(texts, folder)
    assert (folder / "train.npy").stat().st_mtime_ns == before

    assert UNK in prepare_corpus(texts, folder, min_count=2).vocabulary.ids
    write("train", "a b c\n")
    assert prepare_corpus(texts, folder).vocabulary == Vocabulary(["a", "b", "c", EOS])


@pytest.mark.parametrize("name", ["corpus.json", "valid.npy", "vocabulary.txt"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "other", "missing"])
def test_damaged_ids_are_made_anew(write, tmp_path, name, damage):
    texts = {"train": write("train", "a b\na\n" * 99), "valid": write("valid", "b\n" * 99)}
    folder = tmp_path / "data"
    expected = prepare_corpus(texts, folder).ids["valid"].tolist()
    path = folder / name
    whole = path.read_bytes()
    contents = {"cut": whole[: len(whole) // 2], "emptied": b"", "other": b"\xff\xfe{"}
    path.unlink()  # the mapped file is kept as it is
    if damage != "missing":
        path.write_bytes(contents[damage])
    corpus = prepare_corpus(texts, folder)
    assert corpus.ids["valid"].tolist() == expected
    assert corpus.vocabulary == Vocabulary(["a", EOS, "b"])


def test_no_room_for_the_ids_is_said(write, tmp_path):
    texts = {"train": write("train", "a b\n" * 5000)}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(UserError, match=r"train\.npy can't be written"):
            prepare_corpus(texts, tmp_path / "data")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "data" / "train.npy").exists()


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/zero")
    with pytest.raises(UserError, match="is no file, expected a text file"):
        build_vocabulary(path)


CORPORA = {
    "ptb": ("ptb.{}.txt", {"train": 929_589, "valid": 73_760, "test": 82_430}, 10_000),
    "wikitext-2": (
        "wiki.{}.tokens",
        {"train": 2_088_628, "valid": 217_646, "test": 245_569},
        33_278,
    ),
}


@pytest.mark.parametrize("name", CORPORA)
def test_token_counts_of_the_usual_corpora(name, tmp_path):
    pattern, counts, types = CORPORA[name]
    if not (TEXTS / name).is_dir():
        pytest.skip(f"the text of {name} is not here")
    texts = {}
    for split in counts:
        texts[split] = tmp_path / f"{split}.txt"
        compressed = TEXTS / name / f"{pattern.format(split)}.xz"
        texts[split].write_bytes(lzma.decompress(compressed.read_bytes()))
    corpus = prepare_corpus(texts, tmp_path / "data")
    check_known_corpus(name, corpus)
    assert corpus.token_counts == counts
    assert len(corpus.vocabulary) == types


def test_a_known_corpus_with_another_number_of_tokens_is_refused(write, tmp_path):
    texts = {split: write(split, "a b\n") for split in ("train", "valid", "test")}
    corpus = prepare_corpus(texts, tmp_path / "data")
    check_known_corpus("mine", corpus)
    with pytest.raises(UserError, match="train text of corpus ptb has 3 tokens, expected 929,589"):
        check_known_corpus("ptb", corpus)
