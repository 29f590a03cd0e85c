"""Fetch a corpus by its name: from the places listed in sources.yaml to checked raw text files."""

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from filelock import FileLock

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.workflow.archives import extract_members, open_decompressed
from onmt_define.workflow.downloads import Mirror, at_mirror, fetch, file_checksum
from onmt_define.workflow.moses_escapes import unescape_moses
from onmt_define.workflow.parallel_text import iterate_pairs
from onmt_define.workflow.sacrebleu_sets import fetch_test_set

SOURCES = Path(__file__).with_name("sources.yaml")
_PLAIN_TEXT_SIDE = "txt"  # the one side of a corpus for language models

Part = Mapping[str, Any]  # an entry of sources.yaml: where a stretch of text comes from


@dataclass(frozen=True)
class _Text:
    """One part of one side, on disk: maybe compressed, not yet checked."""

    path: Path
    origin: str
    download: Path  # what to throw away if the text turns out to be wrong


def fetch_corpus(
    name: str,
    output_dir: str | Path,
    test_sets: Sequence[str] | None = None,
    mirror: str | None = None,
    sources: Path | None = None,
) -> dict[str, Any]:
    """Write the raw text of corpus `name` and return what provenance.json beside it says.

    A parallel corpus becomes {train,valid,<test set>}.{en,de}, whichever of its languages the run
    translates from. A corpus for language models becomes
    {train,valid,test}.txt. `test_sets` are all the corpus's own when None. With `mirror`, a local
    folder or URL, nothing is asked from anywhere else; for its layout see `downloads.at_mirror`.
    A member of an archive may lie there unpacked too (`wikitext-2/wiki.train.tokens`).

    What was downloaded is kept in a folder beside `output_dir` until all is done, so that a second
    call goes on where the first one stopped. One that waited for another to finish the same corpus
    finds it whole and asks for nothing. Raises `UserError` for an unknown name, a file that no
    mirror serves rightly, and text with another checksum or number of lines than expected.
    """
    catalogue = yaml.safe_load((sources or SOURCES).read_text(encoding="utf-8"))
    corpus = _look_up(catalogue["corpora"], name, "corpus")
    sides = corpus["sides"]
    splits = _splits(catalogue, name, corpus, test_sets)
    output = Path(output_dir)
    output.parent.mkdir(parents=True, exist_ok=True)
    downloads = output.with_name(f"{output.name}.downloads")
    names = [f"{split}.{side}" for split in splits for side in sides]
    with FileLock(output.with_name(f".{output.name}.lock")):
        if (present := _whole_already(output, name, names)) is not None:
            return present
        store = _Store(name, downloads, mirror, catalogue["archives"], _members(splits, sides))
        files = {}
        for split, parts in splits.items():
            for side in sides:
                path = output / f"{split}.{side}"
                files[path.name] = _write_side(parts, side, path, store)
        if "pairs_with_text" in corpus:
            _check_pairs([output / f"train.{side}" for side in sides], corpus["pairs_with_text"])
        provenance = {"corpus": name, "files": files, "downloads": store.describe()}
        with complete_or_absent(output / "provenance.json") as path:
            path.write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(downloads, ignore_errors=True)
    return provenance


def _whole_already(output: Path, corpus: str, names: Sequence[str]) -> dict[str, Any] | None:
    """The provenance of what is in `output`, if those files and no others were written there."""
    try:
        provenance = json.loads((output / "provenance.json").read_text(encoding="utf-8"))
        if provenance["corpus"] != corpus or list(provenance["files"]) != list(names):
            return None
        for name, facts in provenance["files"].items():
            if file_checksum(output / name) != f"sha256:{facts['sha256']}":
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # an unfinished or older one: as if nothing were there
    return provenance


@cache
def _shipped_catalogue() -> dict[str, Any]:
    return yaml.safe_load(SOURCES.read_text(encoding="utf-8"))


def raw_splits(
    download: str, test_sets: Sequence[str], languages: Sequence[str] = (_PLAIN_TEXT_SIDE,)
) -> list[str]:
    """The splits of a download's raw text: train, valid, then its own test sets and those wanted.

    All of its own test sets come along whichever are wanted, so that configurations with different
    ones share its files. `languages` are those of a translation; without them the download must be
    a corpus for language models. Raises `UserError` for a download or test set that is unknown or
    of another kind.
    """
    catalogue = _shipped_catalogue()
    corpus = _look_up(catalogue["corpora"], download, "corpus")
    if set(corpus["sides"]) != set(languages):
        fitting = [
            name
            for name, other in catalogue["corpora"].items()
            if set(other["sides"]) == set(languages)
        ]
        kind = "language models" if _PLAIN_TEXT_SIDE in languages else " and ".join(languages)
        raise UserError(
            f"corpus {download} isn't one for {kind}, expected one of: "
            f"{', '.join(fitting) or 'none is known, use files of your own'}"
        )
    wanted = list(dict.fromkeys([*corpus["test_sets"], *test_sets]))
    return list(_splits(catalogue, download, corpus, wanted))


def training_lines(corpus: str) -> int:
    """Lines of the training text, of one side."""
    catalogue = _shipped_catalogue()
    return sum(part["lines"] for part in _look_up(catalogue["corpora"], corpus, "corpus")["train"])


def download_sizes(corpus: str, test_sets: Sequence[str] | None = None) -> dict[str, int | None]:
    """The files that a corpus is fetched from, each with its size in bytes where that is known.

    Of a packed text (.gz) it is the size unpacked, more than what comes.
    """
    catalogue = _shipped_catalogue()
    known = _look_up(catalogue["corpora"], corpus, "corpus")
    sizes: dict[str, int | None] = {}
    for parts in _splits(catalogue, corpus, known, test_sets).values():
        for part in parts:
            if "sacrebleu" in part:
                sizes[f"sacrebleu {part['sacrebleu']}"] = None
            elif "urls" in part:
                for side in known["sides"]:
                    sizes[part["urls"][0].format(side=side)] = part.get("size", {}).get(side)
            else:
                first = catalogue["archives"][part["archive"]][0]
                sizes[first["url"]] = first.get("size")
    return sizes


def _look_up(known: Mapping[str, Any], name: str, kind: str) -> Any:
    if name not in known:
        raise UserError(f"there is no {kind} named {name!r}; known are: {', '.join(known)}")
    return known[name]


def _splits(
    catalogue: Mapping[str, Any],
    name: str,
    corpus: Mapping[str, Any],
    test_sets: Sequence[str] | None,
) -> dict[str, list[Part]]:
    """The parts of each split; a parallel corpus may borrow the test sets that all can use."""
    own = corpus["test_sets"]
    shared = {} if _PLAIN_TEXT_SIDE in corpus["sides"] else catalogue["test_sets"]
    chosen = own if test_sets is None else test_sets
    splits = {"train": corpus["train"], "valid": corpus["valid"]}
    for test_set in chosen:
        splits[test_set] = _look_up({**shared, **own}, test_set, f"test set for corpus {name}")
    return splits


def _members(splits: Mapping[str, list[Part]], sides: Sequence[str]) -> dict[str, set[str]]:
    """All that is needed of each archive, since one pass over it takes minutes."""
    members: defaultdict[str, set[str]] = defaultdict(set)
    for parts in splits.values():
        for part in parts:
            if "archive" in part:
                members[part["archive"]].update(part["member"].format(side=s) for s in sides)
    return members


@dataclass
class _Store:
    """Brings the texts of a corpus into one folder, each archive and test set only once."""

    corpus: str
    folder: Path
    mirror: str | None
    archives: Mapping[str, list[Mapping[str, Any]]]
    members: Mapping[str, set[str]]
    _origins: dict[Path, str] = field(default_factory=dict)
    _unpacked: dict[str, dict[str, Path]] = field(default_factory=dict)
    _sacrebleu: dict[str, tuple[dict[str, Path], str]] = field(default_factory=dict)

    def text(self, part: Part, side: str) -> _Text:
        """Where one side of a part lies once it is here; raises `UserError` if it can't be had."""
        if "sacrebleu" in part:
            return self._from_sacrebleu(part["sacrebleu"], side)
        if "archive" not in part:
            return self._from_urls(part, side)
        failure = None
        if "urls" in part or self.mirror:
            try:
                return self._from_urls(part, side)
            except UserError as error:
                failure = error
        try:
            return self._from_archive(part["archive"], part["member"].format(side=side))
        except UserError as error:
            if failure and "urls" in part:
                raise UserError(f"{failure}; nor from an archive: {error}") from error
            raise

    def describe(self) -> list[dict[str, Any]]:
        """Origin, size and sha256 of each file as it was downloaded."""
        return [
            {
                "from": origin,
                "size": path.stat().st_size,
                "sha256": file_checksum(path).removeprefix("sha256:"),
            }
            for path, origin in self._origins.items()
        ]

    def _from_urls(self, part: Part, side: str) -> _Text:
        places = [url.format(side=side) for url in part.get("urls", ())]
        if self.mirror and "member" in part:
            places.append(part["member"].format(side=side))
        mirrors = [Mirror(place) for place in places]
        if self.mirror:
            mirrors = at_mirror(mirrors, self.mirror, self.corpus, any_compression=True)
        sha256 = part.get("sha256", {}).get(side)
        path = self.folder / PurePosixPath(places[0]).name
        origin = fetch(mirrors, path, content_checksum=sha256 and f"sha256:{sha256}")
        self._origins[path] = origin
        return _Text(path, origin, path)

    def _from_archive(self, archive: str, member: str) -> _Text:
        path = self.folder / archive
        if archive not in self._unpacked:
            mirrors = [_archive_mirror(entry) for entry in self.archives[archive]]
            if self.mirror:
                mirrors = at_mirror(mirrors, self.mirror, self.corpus)
            self._origins[path] = fetch(mirrors, path)
            self._unpacked[archive] = self._unpack(path)
        return _Text(self._unpacked[archive][member], f"{self._origins[path]}: {member}", path)

    def _unpack(self, archive: Path) -> dict[str, Path]:
        folder = archive.with_name(f"{archive.name}-members")
        unpacked = {
            member: folder / PurePosixPath(member).name for member in self.members[archive.name]
        }
        try:
            extract_members(archive, unpacked)
        except UserError:
            archive.unlink()  # where no checksum is known, this is how a wrong file shows
            raise
        return unpacked

    def _from_sacrebleu(self, name: str, side: str) -> _Text:
        if name not in self._sacrebleu:
            self._sacrebleu[name] = fetch_test_set(name, self.folder, self.mirror)
        files, origin = self._sacrebleu[name]
        return _Text(files[side], f"sacrebleu {name}, {origin}", files[side])


def _archive_mirror(entry: Mapping[str, Any]) -> Mirror:
    checksums = [f"{kind}:{entry[kind]}" for kind in ("sha256", "md5") if kind in entry]
    return Mirror(entry["url"], checksums[0] if checksums else None, entry.get("size"))


def _write_side(parts: Sequence[Part], side: str, output: Path, store: _Store) -> dict[str, Any]:
    """Join the parts of one side, check each, and return the provenance of the whole."""
    whole, lines, origins = hashlib.sha256(), 0, []
    with complete_or_absent(output) as temporary, open(temporary, "wb") as file:
        for part in parts:
            text = store.text(part, side)
            plain = _plain_text(part.get("tokenised"), side)
            part_lines, part_size, sha256 = 0, 0, hashlib.sha256()
            with open_decompressed(text.path) as content:
                for line in content:
                    sha256.update(line)
                    part_lines += 1
                    part_size += len(line)
                    line = plain(line if line.endswith(b"\n") else line + b"\n")
                    whole.update(line)
                    file.write(line)
            problem = _wrong_text(part, side, part_lines, part_size, sha256.hexdigest())
            if problem:
                text.download.unlink(missing_ok=True)
                raise UserError(f"{output.name}: the text from {text.origin} {problem}")
            lines += part_lines
            origins.append({"from": text.origin, "lines": part_lines, "sha256": sha256.hexdigest()})
        size = file.tell()
    return {"lines": lines, "size": size, "sha256": whole.hexdigest(), "parts": origins}


def _plain_text(tokenised: str | None, side: str) -> Callable[[bytes], bytes]:
    """A function that takes a line of a corpus to ordinary text, as far as that is needed.

    `tokenised` is what sources.yaml says: None for text that is ordinary already, `keep` for text
    whose tokens may stay apart, since cleaning takes them apart again, `join` for text that scores
    are computed on.
    """
    if tokenised is None:
        return bytes
    # Imported here: it takes half a second, which every start of the workflow would wait for.
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang=side)

    def plain(line: bytes) -> bytes:
        text = unescape_moses(line.decode("utf-8")).rstrip("\n")
        if tokenised == "join":
            text = detokenizer.detokenize(text.split(" "), unescape=False)
        return f"{text}\n".encode()

    return plain


def _wrong_text(part: Part, side: str, lines: int, size: int, sha256: str) -> str | None:
    expected = part.get("sha256", {}).get(side)
    if lines != part["lines"]:
        return f"has {lines:,} lines instead of {part['lines']:,}"
    if size != part.get("size", {}).get(side, size):
        return f"has {size:,} bytes instead of {part['size'][side]:,}"
    if expected and sha256 != expected:
        return f"has the sha256 {sha256} instead of {expected}"
    return None


def _check_pairs(files: Sequence[Path], expected: int) -> None:
    """Count the pairs without a blank side, as other distributions of a corpus do."""
    found = sum(1 for pair in iterate_pairs(*files) if all(line.strip() for line in pair))
    if found != expected:
        for path in files:
            path.unlink()
        raise UserError(
            f"{' and '.join(map(str, files))} had {found:,} pairs with text on both sides, "
            f"expected {expected:,}"
        )
