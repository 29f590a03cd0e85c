"""OpenNMT-py checkpoints on disk: read without running anything that is pickled in them.

Since torch 2.6 `torch.load` reads tensors and plain containers only, unless a class is on its
list. A checkpoint of OpenNMT-py 3.x holds one class beside them, the one of its options; every
other object is refused, whatever the environment says.
"""

import argparse
import errno
import io
import pickle
import pickletools
import re
import types
import warnings
import zipfile
from _compat_pickle import IMPORT_MAPPING
from pathlib import Path
from typing import IO, Any

import torch

from onmt_define.errors import UserError
from onmt_define.files import save_by_torch

if hasattr(torch.serialization, "add_safe_globals"):  # else the commands refuse to start
    torch.serialization.add_safe_globals([argparse.Namespace])

STANDARD = "standard"
COMPRESSED = "compressed"
MODEL_TYPE = "text"
# OpenNMT-py checks the option model_type first of all and shows its value, so this is what someone
# without the package reads in place of a list of parameter names.
MODEL_TYPE_ON_DISK = (
    "text with the input layer of the Python package onmt_define, which has to be installed here, "
    "or turn the model into a plain one where it is installed (onmt_define fold)"
)


def load(path: str | Path, *, lazily: bool = False) -> dict[str, Any]:
    """Read a checkpoint to the CPU: `opt`, `vocab`, `optim` and, if it holds them, the weights.

    Raises:
        UserError: a missing, damaged or foreign file, or an object that no checkpoint holds.
    """
    return check(read(path, lazily=lazily), path)


def read(path: str | Path, *, lazily: bool = False) -> Any:
    """Read what `torch.save` wrote to the CPU, of whatever program.

    Args:
        path: the file.
        lazily: leave a tensor on the disk until it is used; the file must not change meanwhile.

    Raises:
        UserError: a missing or damaged file, or an object that no checkpoint holds.
    """
    return _read(Path(path), lazily)


def check(checkpoint: Any, path: str | Path) -> dict[str, Any]:
    """Return what was read from `path`, made ready for use; raise `UserError` if it is foreign."""
    if not isinstance(checkpoint, dict) or not {"opt", "vocab"} <= checkpoint.keys():
        raise UserError(
            f"{path} isn't a checkpoint of OpenNMT-py: it holds {_describe(checkpoint)}, "
            "expected the entries opt, vocab and model"
        )
    options = checkpoint["opt"]
    if not isinstance(options, argparse.Namespace) or not isinstance(checkpoint["vocab"], dict):
        found = _describe(options), _describe(checkpoint["vocab"])
        raise UserError(
            f"{path} isn't a whole checkpoint of OpenNMT-py: opt is {found[0]} and vocab is "
            f"{found[1]}, expected options and vocabularies"
        )
    if not {"src", "tgt"} <= checkpoint["vocab"].keys():
        raise UserError(
            f"{path} isn't a whole checkpoint of OpenNMT-py: vocab holds "
            f"{_describe(checkpoint['vocab'])}, expected src and tgt"
        )
    if getattr(options, "model_type", None) == MODEL_TYPE_ON_DISK:
        options.model_type = MODEL_TYPE
    if embedding_type(checkpoint) == "define" and not hasattr(options, "define_activation"):
        options.define_activation = "gelu"  # the only one before there was this option
    return checkpoint


def save(checkpoint: dict[str, Any], path: str | Path) -> None:
    """Write a checkpoint as OpenNMT-py does; an embedding of ours leaves its hint in it.

    Whatever happens meanwhile, `path` is a whole checkpoint or as it was before.

    Raises:
        UserError: if there is no room on the disk.
    """
    if embedding_type(checkpoint) != STANDARD:
        options = {**vars(checkpoint["opt"]), "model_type": MODEL_TYPE_ON_DISK}
        checkpoint = {**checkpoint, "opt": argparse.Namespace(**options)}
    save_by_torch(checkpoint, path)


def embedding_type(checkpoint: dict[str, Any]) -> str:
    """The embedding type of a checkpoint; one of stock OpenNMT-py is `standard`."""
    return getattr(checkpoint["opt"], "embedding_type", STANDARD)


class TorchForCheckpoints(types.ModuleType):
    """Stands for `torch` in the OpenNMT-py modules that load and save checkpoints."""

    def __init__(self) -> None:
        super().__init__("torch")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(path: str, map_location: Any = None) -> dict[str, Any]:
        """In place of `torch.load`; OpenNMT-py always loads to the CPU."""
        return load(path)

    save = staticmethod(save)


def _read(path: Path, lazily: bool) -> Any:
    try:
        mapped = lazily and zipfile.is_zipfile(path)  # a file of an old torch can't be
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except pickle.UnpicklingError as error:
        raise UserError(_refusal(path, str(error))) from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # torch looked for the end before the file's beginning
            raise UserError(_damaged(path, error)) from None
        raise UserError(f"{path} can't be read: {error.strerror or error}") from None
    except Exception as error:  # torch.load has no closed list of what it raises
        raise UserError(_damaged(path, error)) from None


def _refusal(path: Path, message: str) -> str:
    """What stands in the way, in a sentence: torch's own advises to switch the check off."""
    match = re.search(r"GLOBAL ([\w.]+)", message)
    if found := match[1] if match else _first_class(path):
        module, _, name = found.rpartition(".")
        module = IMPORT_MAPPING.get(module, module) or "builtins"  # pickle writes Python 2's names
        return (
            f"{path} holds an object of {module}.{name}, which no checkpoint of OpenNMT-py 3.x "
            "does; it was not loaded, and nothing in it was run"
        )
    return _damaged(path, message)


def _first_class(path: Path) -> str | None:
    """Of a pickle in a newer protocol than torch reads: what it would import first."""
    strings: list[str] = []
    try:
        with _pickle_of(path) as file:
            for code, argument, _ in pickletools.genops(file):
                if "UNICODE" in code.name:
                    strings.append(argument)
                elif code.name == "STACK_GLOBAL":
                    return ".".join(strings[-2:])
    except (ValueError, zipfile.BadZipFile):  # no pickle
        pass
    return None


def _pickle_of(path: Path) -> IO[bytes]:
    """Not read at once: what is damaged may be gigabytes."""
    if not zipfile.is_zipfile(path):
        return path.open("rb")
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if name.endswith("data.pkl")]
    return archive.open(names[0]) if names else io.BytesIO()


def _damaged(path: Path, error: object) -> str:
    with path.open("rb") as file:
        start = file.read(200)
    if not start:
        return f"{path} is empty, expected a checkpoint of OpenNMT-py"
    if not start.startswith((b"PK", b"\x80")):
        text = start.decode("utf-8", errors="replace").split("\n")[0][:60]
        return f"{path} begins with {text!r}, expected a checkpoint of OpenNMT-py"
    reason = str(error).split("\n")[0].split(". ")[0]
    if "Weights only load failed" in reason or not reason:
        reason = "it holds what no checkpoint does"
    return f"{path} is damaged or cut short ({reason}), expected a whole checkpoint of OpenNMT-py"


def _describe(found: Any) -> str:
    if isinstance(found, dict):
        return "the entries " + (", ".join(map(str, list(found)[:5])) or "of an empty dict")
    return f"a {type(found).__name__}"
