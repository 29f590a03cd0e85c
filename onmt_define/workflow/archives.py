"""Reading compressed files and picking single members out of archives."""

import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"

# What the standard library raises for a file that is cut short or isn't what it claims to be.
DAMAGED = (
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def open_decompressed(path: str | Path) -> io.BufferedIOBase:
    """Open a plain, gzip or xz file for reading its uncompressed bytes.

    The first bytes decide, not the name: a server may pack or unpack a file without renaming it.
    """
    with open(path, "rb") as file:
        start = file.read(len(_XZ_MAGIC))
    if start.startswith(_GZIP_MAGIC):
        return gzip.open(path, "rb")
    if start == _XZ_MAGIC:
        return lzma.open(path, "rb")
    return open(path, "rb")


def extract_members(archive: str | Path, destinations: Mapping[str, Path]) -> None:
    """Write the named members of a tar or zip archive to their destinations, in one pass.

    A member is found by its base name, since repacked archives keep names but not folders.
    Raises `UserError` when the archive is damaged or a member is missing.
    """
    wanted = {PurePosixPath(member).name: path for member, path in destinations.items()}
    try:
        for name, stream in _files_in(archive):
            if name in wanted:
                with complete_or_absent(wanted.pop(name)) as path, open(path, "wb") as file:
                    shutil.copyfileobj(stream, file, 1 << 20)
            if not wanted:
                return
    except DAMAGED as error:
        raise UserError(f"the archive {archive} is damaged: {error}") from error
    raise UserError(f"the archive {archive} has no file named {' or '.join(sorted(wanted))}")


def _files_in(archive: str | Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Base name and content of each file; the content must be read before the next is asked for."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir():
                    with zipped.open(entry) as stream:
                        yield PurePosixPath(entry.filename).name, stream
        return
    # "r|*" never seeks back: one pass over the compressed bytes however many members are wanted.
    with tarfile.open(archive, "r|*") as tarred:
        for item in tarred:
            content = tarred.extractfile(item) if item.isfile() else None
            if content:
                yield PurePosixPath(item.name).name, content
