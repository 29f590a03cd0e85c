"""Miniatures of WMT14's archives: the same names and layout, a few hundred sentences."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from sacrebleu.dataset import DATASETS

from onmt_define.workflow.demo.corpus import generate_corpus
from onmt_define.workflow.sources import SOURCES

LINES = {"europarl-v7": 200, "commoncrawl": 150, "news-commentary-v9": 50}
TEST_LINES = 12
TEST_SETS = ("wmt13", "wmt14/full", "wmt17")


def write_miniature(folder: Path) -> None:
    """Write what a server of WMT14 holds to `folder`/www, and sources.yaml and md5.json beside it.

    The file at its URL's path without the host; sources.yaml is the package's own with the
    miniature's sizes, checksums and counts.
    """
    catalogue = yaml.safe_load(SOURCES.read_text(encoding="utf-8"))
    wmt14 = catalogue["corpora"]["wmt14"]
    english, german = zip(*generate_corpus(sum(LINES.values()), 1, 1)["train"], strict=True)
    start = 0
    for part in wmt14["train"]:
        archive, count = part["archive"], LINES[part["archive"]]
        members = {part["member"].replace("de-en", "cs-en").format(side="en"): "nothing\n"}
        for side, lines in (("en", english), ("de", german)):
            text = "".join(f"{line}\n" for line in lines[start : start + count])
            members[part["member"].format(side=side)] = text
        original = catalogue["archives"][archive][0]
        packed = _pack(folder, original["url"], members)
        entry = {"url": original["url"], "size": len(packed)}
        catalogue["archives"][archive] = [{**entry, "sha256": hashlib.sha256(packed).hexdigest()}]
        part["lines"] = count
        start += count
    wmt14["pairs_with_text"] = start
    for parts in (wmt14["valid"], *wmt14["test_sets"].values()):
        parts[0]["lines"] = TEST_LINES
    checksums = {}
    for seed, name in enumerate(TEST_SETS):
        dataset = DATASETS[name]
        pairs = generate_corpus(1, 1, TEST_LINES, seed + 2)["test"]
        members = {
            member: _sgml([pair[side] for pair in pairs])
            for side, member in enumerate(dataset.langpairs["en-de"])
        }
        checksums[name] = hashlib.md5(_pack(folder, dataset.data[0], members)).hexdigest()
    (folder / "sources.yaml").write_text(yaml.safe_dump(catalogue), encoding="utf-8")
    (folder / "md5.json").write_text(json.dumps(checksums))


def _pack(folder: Path, url: str, members: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    *_, parent, name = urlsplit(url).path.split("/")
    path = folder / "www" / parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def _sgml(lines: list[str]) -> str:
    segments = "".join(f'<seg id="{n}">{line}</seg>\n' for n, line in enumerate(lines, start=1))
    return f'<doc docid="1" genre="news" origlang="en">\n{segments}</doc>\n'
