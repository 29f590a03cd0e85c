"""Named corpora: the shipped list, and fetching from miniature archives and real text offline."""

import gzip
import hashlib
import io
import itertools
import json
import lzma
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import sacrebleu.dataset
import yaml
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

from onmt_define.errors import UserError
from onmt_define.workflow.sources import SOURCES, fetch_corpus

TEXTS = Path(__file__).parents[2] / "shared" / "data"
SCRIPT = Path(__file__).parents[1] / "scripts" / "fetch_corpus.py"

EUROPARL = {"en": b"One.\n\nThree.\n", "de": b"Eins.\n\nDrei."}
COMMENTARY = {"en": b"Four\x0b four.\n", "de": "Vier.\u2028\n".encode()}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tgz(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def members(name: str, sides: Mapping[str, bytes], folder: str = "training/") -> dict[str, bytes]:
    others = {f"{folder}{name}.cs-en.en": b"not this\n"}
    return {**others, **{f"{folder}{name}.de-en.{side}": text for side, text in sides.items()}}


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def sgml(lines: list[str]) -> bytes:
    segments = "".join(f'<seg id="{n}">{line}</seg>\n' for n, line in enumerate(lines, start=1))
    return f'<doc docid="1" genre="news" origlang="en">\n{segments}</doc>\n'.encode()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a miniature of each kind of file; sacrebleu knows the miniature test set."""
    folder = tmp_path / "my mirror"
    write(folder / "wmt13" / "europarl.tgz", tgz(members("europarl-v7", EUROPARL)))
    write(folder / "commentary.zip", zipped(members("nc-v9", COMMENTARY, "wmt/14/training/")))
    news = tgz(
        {
            "test/mini-src.en.sgm": sgml(["A  news item.", "Another."]),
            "test/mini-ref.de.sgm": sgml(["Eine Nachricht.", "Noch eine."]),
            "test/mini-ref.cs.sgm": sgml(["Nic."]),
        }
    )
    write(folder / "mini.tgz", news)
    monkeypatch.setattr("sacrebleu.dataset.base.SACREBLEU_DIR", str(tmp_path / "sacrebleu"))
    dataset = FakeSGMLDataset(
        "mini/full",
        data=["https://example.org/wmt/mini.tgz"],
        md5=[hashlib.md5(news).hexdigest()],
        langpairs={"en-de": ["test/mini-src.en.sgm", "test/mini-ref.de.sgm"]},
    )
    monkeypatch.setitem(sacrebleu.dataset.DATASETS, "mini/full", dataset)
    return folder


@pytest.fixture
def catalogue(mirror: Path) -> dict:
    """What sources.yaml would say of the miniatures."""
    packed = sha256((mirror / "wmt13" / "europarl.tgz").read_bytes())
    europarl = {"archive": "europarl", "member": "training/europarl-v7.de-en.{side}", "lines": 3}
    nc = {"archive": "nc", "member": "training/nc-v9.de-en.{side}", "lines": 1}
    host = "https://example.org"
    return {
        "archives": {
            "europarl": [{"url": f"{host}/wmt13/europarl.tgz", "sha256": packed}],
            "nc": [{"url": f"{host}/nc.tgz"}, {"url": f"{host}/commentary.zip"}],
        },
        "test_sets": {"mini-news": [{"sacrebleu": "mini/full", "lines": 2}]},
        "corpora": {
            "mini": {
                "sides": ["en", "de"],
                "pairs_with_text": 3,
                "train": [europarl, nc],
                "valid": [nc],
                "test_sets": {"own": [nc]},
            }
        },
    }


def fetch(catalogue: dict, tmp_path: Path, mirror: Path, **choices) -> dict:
    sources = tmp_path / "sources.yaml"
    sources.write_text(yaml.safe_dump(catalogue))
    return fetch_corpus("mini", tmp_path / "raw", mirror=str(mirror), sources=sources, **choices)


def test_archives_and_test_sets(catalogue: dict, tmp_path: Path, mirror: Path) -> None:
    provenance = fetch(catalogue, tmp_path, mirror, test_sets=["mini-news", "own"])
    raw = tmp_path / "raw"
    train = {
        "en": b"One.\n\nThree.\nFour\x0b four.\n",
        "de": "Eins.\n\nDrei.\nVier.\u2028\n".encode(),
    }
    for side, text in train.items():
        assert (raw / f"train.{side}").read_bytes() == text
        assert (raw / f"own.{side}").read_bytes() == COMMENTARY[side]
    assert (raw / "mini-news.en").read_text() == "A news item.\nAnother.\n"
    assert (raw / "mini-news.de").read_text() == "Eine Nachricht.\nNoch eine.\n"

    assert json.loads((raw / "provenance.json").read_text()) == provenance
    assert provenance["files"]["train.de"] == {
        "lines": 4,
        "size": len(train["de"]),
        "sha256": sha256(train["de"]),
        "parts": [
            {
                "from": f"{mirror}/wmt13/europarl.tgz: training/europarl-v7.de-en.de",
                "lines": 3,
                "sha256": sha256(EUROPARL["de"]),
            },
            {
                "from": f"{mirror}/commentary.zip: training/nc-v9.de-en.de",
                "lines": 1,
                "sha256": sha256(COMMENTARY["de"]),
            },
        ],
    }
    assert {Path(each["from"]).name for each in provenance["downloads"]} == {
        "europarl.tgz",
        "commentary.zip",
    }
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert left == {"raw", "sources.yaml", "my mirror", "sacrebleu"}


def test_text_that_others_tokenised_becomes_plain(tmp_path: Path, mirror: Path) -> None:
    """As the Stanford set is: hyphens split with marks, and signs that serve Moses's decoder."""
    tokenised = b"a well ##AT##-##AT## known man &apos;s &quot; R &amp; D &quot; &#91; &amp;lt; .\n"
    write(mirror / "mini" / "train.en", tokenised)
    write(mirror / "mini" / "train.de", b"Nord ##AT##-##AT## S\xc3\xbcd , ja !\n")
    parts = {
        split: [{"urls": ["https://example.org/mini/train.{side}"], "lines": 1, **how}]
        for split, how in (("train", {"tokenised": "keep"}), ("news", {"tokenised": "join"}))
    }
    corpus = {"sides": ["en", "de"], "train": parts["train"], "valid": parts["news"]}
    corpus["test_sets"] = {"news": parts["news"]}
    fetch({"archives": {}, "test_sets": {}, "corpora": {"mini": corpus}}, tmp_path, mirror)
    raw = tmp_path / "raw"
    plain = 'a well-known man \'s " R & D " [ &lt; .\n'
    assert (raw / "train.en").read_text("utf-8") == plain
    assert (raw / "news.en").read_text("utf-8") == 'a well-known man\'s "R & D" [&lt;.\n'
    assert (raw / "train.de").read_text("utf-8") == "Nord-Süd , ja !\n"
    assert (raw / "news.de").read_text("utf-8") == "Nord-Süd, ja!\n"


def test_direction_and_repetition_change_nothing(
    catalogue: dict, tmp_path: Path, mirror: Path
) -> None:
    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / "raw").iterdir()}

    fetch(catalogue, tmp_path, mirror, test_sets=["mini-news"])
    once = files()
    fetch(catalogue, tmp_path, mirror, test_sets=["mini-news"])
    assert files() == once
    (tmp_path / "raw" / "train.de").write_bytes(b"spoilt")
    fetch(catalogue, tmp_path, mirror, test_sets=["mini-news"])
    assert files() == once


def test_interrupted_sacrebleu_cache_is_mended(
    catalogue: dict, tmp_path: Path, mirror: Path
) -> None:
    fetch(catalogue, tmp_path, mirror, test_sets=["mini-news"])
    (tmp_path / "sacrebleu" / "mini" / "full" / "mini_full.en-de.src").write_text("A news")
    fetch(catalogue, tmp_path, mirror, test_sets=["mini-news"])
    assert (tmp_path / "raw" / "mini-news.en").read_text() == "A news item.\nAnother.\n"


def test_unpacked_members_will_do(catalogue: dict, tmp_path: Path, mirror: Path) -> None:
    (mirror / "wmt13" / "europarl.tgz").unlink()
    write(mirror / "training" / "europarl-v7.de-en.en.gz", gzip.compress(EUROPARL["en"]))
    write(mirror / "mini" / "europarl-v7.de-en.de.xz", lzma.compress(EUROPARL["de"]))
    fetch(catalogue, tmp_path, mirror)
    assert (tmp_path / "raw" / "train.de").read_bytes().startswith(EUROPARL["de"])


def test_text_files_in_any_compression(tmp_path: Path, mirror: Path) -> None:
    texts = {"train": b"a b\nc\n", "valid": b"d\n", "test": b"e"}
    write(mirror / "train.txt.xz", lzma.compress(texts["train"]))
    write(mirror / "valid.txt.gz", texts["valid"])  # unpacked by the server, its name kept
    write(mirror / "mini" / "test.txt", texts["test"])

    def part(split: str) -> list[dict]:
        text = texts[split]
        url = f"https://example.org/{split}.txt.gz"
        return [{"urls": [url], "lines": text.count(b"\n") or 1, "sha256": {"txt": sha256(text)}}]

    corpus = {"sides": ["txt"], "train": part("train"), "valid": part("valid")}
    corpus["test_sets"] = {"test": part("test")}
    catalogue = {"archives": {}, "test_sets": {}, "corpora": {"mini": corpus}}
    fetch(catalogue, tmp_path, mirror)
    assert (tmp_path / "raw" / "train.txt").read_bytes() == texts["train"]
    assert (tmp_path / "raw" / "test.txt").read_bytes() == b"e\n"


def test_second_call_goes_on_with_what_is_here(
    catalogue: dict, tmp_path: Path, mirror: Path
) -> None:
    zip_file, europarl = mirror / "commentary.zip", mirror / "wmt13" / "europarl.tgz"
    content = zip_file.read_bytes()
    zip_file.unlink()
    with pytest.raises(UserError, match="could not get nc "):
        fetch(catalogue, tmp_path, mirror)
    assert not (tmp_path / "raw" / "train.en").exists()
    europarl.unlink()
    zip_file.write_bytes(content)
    fetch(catalogue, tmp_path, mirror)
    assert (tmp_path / "raw" / "train.en").exists()


def test_damaged_archive_is_not_kept(catalogue: dict, tmp_path: Path, mirror: Path) -> None:
    zip_file = mirror / "commentary.zip"
    content = zip_file.read_bytes()
    zip_file.write_bytes(b"<html>Not today.</html>")
    with pytest.raises(UserError, match=r"the archive .*nc is damaged"):
        fetch(catalogue, tmp_path, mirror)
    zip_file.write_bytes(content)
    fetch(catalogue, tmp_path, mirror)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"lines": 5}, r"own\.en: the text from .* has 1 lines instead of 5"),
        ({"size": {"de": 3}}, r"own\.de: the text from .* has 9 bytes instead of 3"),
        ({"sha256": {"de": "0" * 64}}, r"own\.de: the text from .* has the sha256"),
        ({"member": "nc-v9.fr-en.{side}"}, r"has no file named nc-v9\.fr-en\.de or nc"),
    ],
)
def test_wrong_text_is_refused(
    catalogue: dict, tmp_path: Path, mirror: Path, facts: dict, message: str
) -> None:
    own = catalogue["corpora"]["mini"]["test_sets"]["own"]
    own[0] = {**own[0], **facts}
    with pytest.raises(UserError, match=message):
        fetch(catalogue, tmp_path, mirror)
    assert not (tmp_path / "raw" / "provenance.json").exists()


def test_number_of_pairs_with_text_is_checked(
    catalogue: dict, tmp_path: Path, mirror: Path
) -> None:
    catalogue["corpora"]["mini"]["pairs_with_text"] = 4
    with pytest.raises(UserError, match="had 3 pairs with text on both sides, expected 4"):
        fetch(catalogue, tmp_path, mirror)
    assert not (tmp_path / "raw" / "train.en").exists()


def test_unknown_names_list_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no corpus named 'wmt15'; known are: multi30k, wmt14, "):
        fetch_corpus("wmt15", tmp_path / "raw")
    with pytest.raises(UserError, match=r"test set for corpus wmt14 named 'x'; .*newstest2014, "):
        fetch_corpus("wmt14", tmp_path / "raw", test_sets=["x"])
    with pytest.raises(UserError, match="corpus ptb named 'newstest2014'; known are: test"):
        fetch_corpus("ptb", tmp_path / "raw", test_sets=["newstest2014"])


def test_shipped_list_is_complete() -> None:
    catalogue = yaml.safe_load(SOURCES.read_text())
    for entries in catalogue["archives"].values():
        for entry in entries:
            assert entry["url"].startswith("https://")
            assert len(entry.get("sha256", "0" * 64)) == 64
    splits = list(catalogue["test_sets"].values())
    for corpus in catalogue["corpora"].values():
        splits += [corpus["train"], corpus["valid"], *corpus["test_sets"].values()]
        for part in (*corpus["train"], *corpus["valid"]):
            assert "sha256" not in part or set(part["sha256"]) == set(corpus["sides"])
    for part in itertools.chain.from_iterable(splits):
        assert isinstance(part["lines"], int)
        assert part.get("archive", "wikitext-2") in catalogue["archives"]
        if "sacrebleu" in part:
            dataset = sacrebleu.dataset.DATASETS[part["sacrebleu"]]
            assert len(dataset.data) == len(dataset.md5) == 1
            assert "en-de" in dataset.langpairs
        assert {"urls", "archive", "sacrebleu"} & set(part)


@pytest.mark.parametrize("name", ["multi30k", "ptb", "wikitext-2"])
def test_real_text_through_the_script(tmp_path: Path, name: str) -> None:
    """The shipped checksums and counts are those of the real text."""
    if not TEXTS.is_dir():
        pytest.skip("the real text isn't here")
    output = tmp_path / "Daten" / name / "raw"
    command = [sys.executable, SCRIPT, "--name", name, "--output", output, "--mirror", TEXTS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    provenance = json.loads((output / "provenance.json").read_text())
    assert set(provenance["files"]) | {"provenance.json"} == {p.name for p in output.iterdir()}
    last = "test_2018_flickr.de: 1,071" if name == "multi30k" else "test.txt: "
    assert last in done.stdout
