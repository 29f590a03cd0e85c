"""Byte-pair encoding and vocabularies: what the tools that they stand for write, byte for byte."""

import subprocess
from pathlib import Path

import pytest
import yaml
from paths import BIN

from onmt_define.errors import UserError
from onmt_define.workflow import bpe
from onmt_define.workflow.bpe import apply_bpe, learn_joint_bpe
from onmt_define.workflow.demo.corpus import generate_corpus
from onmt_define.workflow.vocabulary import build_vocabulary

LANGUAGES = ("en", "de")
MERGES, THRESHOLD = 300, 8


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tokenised text; some lines are blank, and the last one doesn't end."""
    folder = tmp_path_factory.mktemp("texte ü")
    pairs = generate_corpus(pairs=600, valid=1, test=1, seed=3)["train"]
    paths = {}
    for side, language in enumerate(LANGUAGES):
        lines = [pair[side].replace(".", " .").replace(",", " ,") for pair in pairs]
        lines[5] = lines[6] = ""
        paths[language] = folder / f"train.{language}"
        paths[language].write_text("\n".join([*lines, "Ünïcode \U0001f40e-s"]), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def ours(texts: dict[str, Path]) -> Path:
    """The folder with what our functions make of the text."""
    folder = next(iter(texts.values())).parent
    vocabularies = [folder / f"subwords.{language}" for language in LANGUAGES]
    learn_joint_bpe(list(texts.values()), folder / "codes", vocabularies, MERGES)
    for language, text in texts.items():
        encode(folder, language, text, folder / f"bpe.{language}")
    return folder


def encode(folder: Path, language: str, text: Path, output: Path, processes: int = 1) -> None:
    files = {"codes": folder / "codes", "vocabulary": folder / f"subwords.{language}"}
    apply_bpe(text, output, **files, threshold=THRESHOLD, processes=processes)


def same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def test_codes_vocabularies_and_text_are_those_of_subword_nmt(
    texts: dict[str, Path], ours: Path, tmp_path: Path
) -> None:
    command = [BIN / "subword-nmt", "learn-joint-bpe-and-vocab", "--symbols", str(MERGES)]
    command += ["--input", *texts.values(), "--output", tmp_path / "codes", "--write-vocabulary"]
    command += [tmp_path / f"subwords.{language}" for language in LANGUAGES]
    subprocess.run(command, check=True, capture_output=True)
    assert same(ours / "codes", tmp_path / "codes")
    for language, text in texts.items():
        vocabulary = tmp_path / f"subwords.{language}"
        assert same(ours / f"subwords.{language}", vocabulary)
        encoded = tmp_path / f"bpe.{language}"
        command = [BIN / "subword-nmt", "apply-bpe", "--input", text, "--output", encoded]
        command += ["--codes", tmp_path / "codes", "--vocabulary", vocabulary]
        subprocess.run([*command, "--vocabulary-threshold", str(THRESHOLD)], check=True)
        assert same(ours / f"bpe.{language}", encoded)


@pytest.mark.parametrize("shared", [False, True])
def test_vocabularies_are_those_of_onmt_build_vocab(
    ours: Path, tmp_path: Path, shared: bool
) -> None:
    text = {language: tmp_path / f"bpe.{language}" for language in LANGUAGES}
    for language, path in text.items():  # OpenNMT-py leaves out pairs with a blank side
        lines = (ours / f"bpe.{language}").read_text("utf-8").split("\n")
        path.write_text("".join(f"{line}\n" for line in lines if line), "utf-8")
    written = [tmp_path / f"ours.{language}" for language in LANGUAGES]
    build_vocabulary(*text.values(), *written, shared=shared)
    options = {
        "data": {"train": {"path_src": str(text["en"]), "path_tgt": str(text["de"])}},
        "src_vocab": str(tmp_path / "theirs.en"),
        "tgt_vocab": str(tmp_path / "theirs.de"),
        "save_data": str(tmp_path),
        "share_vocab": shared,
        "n_sample": -1,
    }
    (tmp_path / "options.yaml").write_text(yaml.safe_dump(options))
    command = [BIN / "onmt_build_vocab", "-config", tmp_path / "options.yaml"]
    subprocess.run(command, check=True, capture_output=True)
    assert same(written[0], tmp_path / "theirs.en")
    assert same(written[1], tmp_path / ("theirs.en" if shared else "theirs.de"))


def test_processes_and_chunks_change_nothing(
    texts: dict[str, Path], ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bpe, "CHARACTERS_PER_CHUNK", 1000)
    encode(ours, "de", texts["de"], tmp_path / "bpe.de", processes=2)
    assert same(ours / "bpe.de", tmp_path / "bpe.de")


def test_text_without_anything_to_merge_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c\n" * 3)
    with pytest.raises(UserError, match="subword-nmt learned nothing from"):
        learn_joint_bpe([tmp_path / "text"], tmp_path / "codes", [tmp_path / "words"], 10)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
