"""Fetch one file from the first of several mirrors that serves the right bytes.

The bytes go to a hidden `.part` file beside the destination, which takes the final name only
after size and checksums were checked. A later call goes on with a `.part` file, but only from the
URL that it came from and only when the server confirms the range.
"""

import functools
import hashlib
import io
import os
import random
import shutil
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urlsplit

import httpx
from filelock import FileLock

from onmt_define import __version__
from onmt_define.errors import UserError
from onmt_define.workflow.archives import DAMAGED, open_decompressed
from onmt_define.workflow.progress import progress

TRIES_WITHOUT_PROGRESS = 5
FIRST_WAIT = 1.0  # seconds; doubles with every try
TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_TRY_AGAIN = {408, 425, 429}  # besides 5xx: the server asks for patience
_COMPRESSED = ("", ".gz", ".xz")


@dataclass(frozen=True)
class Mirror:
    """One place to get a file from.

    `location` is an http(s) URL or a local path; `checksum` ("sha256:..." or "md5:...") and `size`
    in bytes describe the file as it is served there, None where they aren't known.
    """

    location: str
    checksum: str | None = None
    size: int | None = None


class _MirrorFailedError(Exception):
    """This mirror can't give the right file; the message says why."""


class _TryAgainError(Exception):
    """This mirror may give the file a little later."""


def fetch(mirrors: Sequence[Mirror], destination: Path, content_checksum: str | None = None) -> str:
    """Put the file at `destination`, unless it is there already, and return where it came from.

    `content_checksum` is of the content once gzip or xz is taken off, for files that are packed
    anew now and then. A file already at the destination is kept if it passes the checks of one of
    the mirrors; where it came from is noted beside it. Raises `UserError` with every mirror and its
    failure when none has the right file.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(destination.with_name(f".{destination.name}.lock")):
        for mirror in mirrors:
            if destination.exists() and not _problem(destination, mirror, content_checksum):
                return _noted_origin(destination, mirrors) or mirror.location
        destination.unlink(missing_ok=True)
        return _fetch_from_first(mirrors, destination, content_checksum)


def at_mirror(
    mirrors: Sequence[Mirror], place: str, folder: str = "", any_compression: bool = False
) -> list[Mirror]:
    """Where the files of `mirrors` may lie at the one `place` that the config's `mirror:` names.

    `place` is a local folder or an http(s) URL, and nothing else is asked when it is given. There a
    file is looked for in this order:

    1. `folder`, when given (the corpus's name), and its base name: `multi30k/train.en.gz`
    2. the last two components of its URL's path: `wmt14/test-full.tgz`
    3. its base name: `test-full.tgz`

    With `any_compression`, for a single text file, the spellings without suffix, with `.gz` and
    with `.xz` all count; checksum and size of the packed bytes are then dropped, so the caller must
    check the content. Otherwise they still hold. Raises `UserError` if `place` is neither a folder
    nor an http(s) URL.
    """
    check_mirror(place)
    found: dict[Mirror, None] = {}  # in order, each once
    for mirror in mirrors:
        *folders, name = unquote(urlsplit(mirror.location).path).strip("/").split("/")
        for parts in ([folder, name], [*folders[-1:], name], [name]):
            path = "/".join(filter(None, parts))
            if any_compression:
                found.update({Mirror(_join(place, each)): None for each in _spellings(path)})
            else:
                found[Mirror(_join(place, path), mirror.checksum, mirror.size)] = None
    return list(found)


def check_mirror(place: str) -> None:
    """Raise `UserError` if `place` is neither a folder nor an http(s) URL; nothing is asked."""
    if _is_url(place):
        return
    if "://" in place:
        raise UserError(f"mirror: {place!r} must be a folder or begin with http:// or https://")
    if not Path(place).expanduser().exists():
        raise UserError(f"mirror: there is no folder {place!r}")
    if not Path(place).expanduser().is_dir():
        raise UserError(f"mirror: {place!r} is a file, expected a folder or an http(s) address")


def user_agent() -> str:
    """Our name and version, in the form of well-behaved crawlers.

    Some hosts of research data answer 403 to Python's own name and to anything that doesn't start
    as a browser does.
    """
    return f"Mozilla/5.0 (compatible; onmt_define/{__version__}; +python-httpx/{httpx.__version__})"


def file_checksum(path: Path, algorithm: str = "sha256") -> str:
    """The file's checksum as "algorithm:hexadecimal digits"."""
    with open(path, "rb") as file:
        return _checksum(file, algorithm)


def _checksum(file: io.BufferedIOBase, algorithm: str) -> str:
    return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _is_url(location: str) -> bool:
    return location.startswith(("http://", "https://"))


def _join(place: str, path: str) -> str:
    if _is_url(place):
        return f"{place.rstrip('/')}/{quote(path)}"
    return str(Path(place).expanduser() / path)


def _spellings(path: str) -> list[str]:
    stem = path.removesuffix(".gz").removesuffix(".xz")
    return [path, *(stem + suffix for suffix in _COMPRESSED if stem + suffix != path)]


def _fetch_from_first(
    mirrors: Sequence[Mirror], destination: Path, content_checksum: str | None
) -> str:
    failures: dict[str, list[str]] = {}
    for mirror in mirrors:
        part = _part_of(destination, mirror)
        try:
            _fetch_from(mirror, part, content_checksum)
        except _MirrorFailedError as failure:
            failures.setdefault(str(failure), []).append(mirror.location)
            continue
        _origin_note(destination).write_text(mirror.location, encoding="utf-8")
        os.replace(part, destination)
        for other in mirrors:
            _part_of(destination, other).unlink(missing_ok=True)
        return mirror.location
    tried = "; ".join(f"{', '.join(places)}: {reason}" for reason, places in failures.items())
    raise UserError(
        f"could not get {destination.name} ({tried}); check the network, or set `mirror:` in the "
        "config to a folder or server that holds this file"
    )


def _origin_note(destination: Path) -> Path:
    """Beside a file, where it came from: mirrors may have the same bytes."""
    return destination.with_name(f".{destination.name}.origin")


def _noted_origin(destination: Path, mirrors: Sequence[Mirror]) -> str | None:
    note = _origin_note(destination)
    origin = note.read_text(encoding="utf-8") if note.exists() else None
    return origin if origin in [mirror.location for mirror in mirrors] else None


def _part_of(destination: Path, mirror: Mirror) -> Path:
    """A name of its own for each mirror: bytes of one are never continued with those of another."""
    origin = hashlib.sha256(mirror.location.encode()).hexdigest()[:12]
    return destination.with_name(f".{destination.name}.{origin}.part")


def _fetch_from(mirror: Mirror, part: Path, content_checksum: str | None) -> None:
    if not _is_url(mirror.location):
        _copy(Path(mirror.location), part)
        resumed = False
    else:
        if not (mirror.checksum or content_checksum):
            part.unlink(missing_ok=True)  # nothing would tell a wrong continuation
        resumed = _download(mirror, part)
    problem = _problem(part, mirror, content_checksum)
    if problem and resumed:
        # The server may have changed its file since the first bytes came: once more from the start.
        part.unlink()
        _download(mirror, part)
        problem = _problem(part, mirror, content_checksum)
    if problem:
        part.unlink()
        raise _MirrorFailedError(problem)


def _problem(path: Path, mirror: Mirror, content_checksum: str | None) -> str | None:
    """What is wrong with the bytes at `path`, None if nothing is."""
    size = path.stat().st_size
    if mirror.size is not None and size != mirror.size:
        return f"{size:,} bytes instead of {mirror.size:,}"
    if mirror.checksum:
        algorithm = mirror.checksum.partition(":")[0]
        if file_checksum(path, algorithm) != mirror.checksum:
            return f"wrong {algorithm}"
    if content_checksum:
        algorithm = content_checksum.partition(":")[0]
        try:
            with open_decompressed(path) as file:
                if _checksum(file, algorithm) != content_checksum:
                    return f"wrong {algorithm} of the uncompressed text"
        except DAMAGED:
            return "damaged"
    return None


def _copy(source: Path, part: Path) -> None:
    if not source.is_file():
        raise _MirrorFailedError("not there")
    try:
        shutil.copyfile(source, part)
    except OSError as error:
        raise UserError(f"cannot copy {source} to {part.parent}: {error.strerror}") from error


def _download(mirror: Mirror, part: Path) -> bool:
    """Bring the whole file to `part`, trying again while that helps; True if it was resumed."""
    furthest, idle_tries, resumed = 0, 0, False
    with _client() as client:
        while True:
            try:
                return _transfer(client, mirror, part) or resumed
            except (_TryAgainError, httpx.TransportError) as error:
                reason = str(error) or type(error).__name__
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise _MirrorFailedError(str(error)) from error
            size = part.stat().st_size if part.exists() else 0
            idle_tries = 1 if size > furthest else idle_tries + 1
            furthest = max(size, furthest)
            resumed = resumed or size > 0
            if idle_tries >= TRIES_WITHOUT_PROGRESS:
                raise _MirrorFailedError(f"{reason} ({idle_tries} tries)")
            time.sleep(FIRST_WAIT * 2 ** (idle_tries - 1) * random.uniform(0.8, 1.2))


def _client() -> httpx.Client:
    # Identity: a file is to come as it lies on the server, not packed for the way.
    headers = {"User-Agent": user_agent(), "Accept-Encoding": "identity"}
    return httpx.Client(
        headers=headers, follow_redirects=True, timeout=TIMEOUT, verify=_certificates()
    )


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The trusted authorities, read once: it takes a tenth of a second."""
    return httpx.create_ssl_context()


def _transfer(client: httpx.Client, mirror: Mirror, part: Path) -> bool:
    """One request; True if it went on with bytes that were there before."""
    present = part.stat().st_size if part.exists() else 0
    if present and present == mirror.size:
        return True
    headers = {"Range": f"bytes={present}-"} if present else {}
    with client.stream("GET", mirror.location, headers=headers) as response:
        continues = _continues(response, present, part)
        length = response.headers.get("Content-Length", "")
        total = int(length) + (present if continues else 0) if length.isdecimal() else None
        if total is not None and mirror.size is not None and total != mirror.size:
            part.unlink(missing_ok=True)
            raise _MirrorFailedError(f"{total:,} bytes instead of {mirror.size:,}")
        name = PurePosixPath(urlsplit(mirror.location).path).name
        with progress(f"downloading {name}", "MB", total, present if continues else 0) as advance:
            _save(response, part, continues, advance)
    return continues


def _continues(response: httpx.Response, present: int, part: Path) -> bool:
    """Whether the answer begins after the `present` bytes; raises where it is no file at all."""
    status = response.status_code
    if status >= 500 or status in _TRY_AGAIN:
        raise _TryAgainError(f"HTTP {status} {response.reason_phrase}")
    if status == 200:
        return False
    at_our_place = response.headers.get("Content-Range", "").startswith(f"bytes {present}-")
    if status == 206 and present and at_our_place:
        return True
    if present and status in (206, 416):
        part.unlink()
        raise _TryAgainError("the server could not continue the file")
    raise _MirrorFailedError(f"HTTP {status} {response.reason_phrase}")


def _save(
    response: httpx.Response, part: Path, continues: bool, advance: Callable[[int], None]
) -> None:
    try:
        with open(part, "ab" if continues else "wb") as file:
            # Raw: a content encoding that the server adds for a .gz file must not be taken off.
            for chunk in response.iter_raw():
                file.write(chunk)
                advance(len(chunk))
    except OSError as error:
        raise UserError(f"cannot write {part}: {error.strerror}") from error
