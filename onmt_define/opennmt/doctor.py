"""`onmt_define doctor`: what is installed, what the stock commands see, and what to mend.

Looks at installed packages without importing them, so that it also runs where one is broken.
"""

import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import onmt_define
from onmt_define import slurm
from onmt_define.errors import UserError

PYTHON = ((3, 11), (3, 12))
TORCH = ((2, 6), (2, 14))
OPENNMT = "3.5.1"
NEEDED_BY_OPENNMT = ("configargparse", "flask", "numpy", "pyonmttok", "pyyaml", "sacrebleu", "six")
NEEDED_BY_OPENNMT += ("tensorboard", "waitress")
OPTIONAL = {
    "ctranslate2": "converts folded models",
    "safetensors": "save_format safetensors",
    "snakemake": "the workflow",
    "snakemake-executor-plugin-slurm": "the workflow with profiles/slurm",
    "snakemake-executor-plugin-cluster-generic": "the workflow with profiles/cluster-generic",
    "lightning": "language models",
}
START_UP_FILE = "onmt_define.pth"
COMMANDS = ("build_vocab", "train", "translate", "average_models", "release_model", "server")
SEES_PLUGIN = "import sys; print('onmt_define.opennmt.startup' in sys.modules)"


class Finding(NamedTuple):
    """One line of the report; `broken` ones make the command fail."""

    state: str  # ok, note or broken
    text: str


def findings() -> Iterator[Finding]:
    """All lines of the report, each with what to do about it."""
    yield Finding("ok", f"onmt_define {onmt_define.__version__} in {Path(onmt_define.__path__[0])}")
    yield _in_range("python", platform.python_version(), PYTHON, "use another Python")
    yield from _torch()
    yield from _opennmt()
    for name, purpose in OPTIONAL.items():
        found = _version(name)
        yield (
            Finding("ok", f"{name} {found}")
            if found
            else Finding("note", f"{name} isn't installed; only needed for: {purpose}")
        )
    yield from _start_up()
    yield from _slurm()
    yield from _gpus()


def _torch() -> Iterator[Finding]:
    found = _version("torch")
    if found is None:
        yield Finding("broken", "torch isn't installed: pip install 'torch>=2.6,<2.15'")
        return
    yield _in_range("torch", found, TORCH, "pip install 'torch>=2.6,<2.15'")
    if os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        yield Finding(
            "note",
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set: the commands here load checkpoints safely "
            "nevertheless, other programs don't; unset it",
        )


def _opennmt() -> Iterator[Finding]:
    found = _version("OpenNMT-py")
    install = f"pip install --no-deps OpenNMT-py=={OPENNMT}"
    if found is None:
        yield Finding("broken", f"OpenNMT-py isn't installed: {install}")
    elif found != OPENNMT:
        yield Finding("broken", f"OpenNMT-py {found}, only {OPENNMT} is supported: {install}")
    else:
        yield Finding("ok", f"OpenNMT-py {found} (supported: this one)")
    missing = [name for name in NEEDED_BY_OPENNMT if _version(name) is None]
    if missing:
        yield Finding(
            "broken",
            f"OpenNMT-py needs {', '.join(missing)}: pip install 'onmt_define[opennmt]'",
        )


def _start_up() -> Iterator[Finding]:
    """Whether a new Python, and the one of each stock command, loads the plug-in by itself."""
    if not _sees_plugin(sys.executable):
        yield Finding(
            "broken",
            f"Python doesn't load the plug-in when it starts: the file {START_UP_FILE} has to lie "
            "in this Python's own site-packages, and isn't read from PYTHONPATH, from a folder of "
            "pip --target or with python -S; install onmt_define into a virtual environment",
        )
    for command in (f"onmt_{name}" for name in COMMANDS):
        path = _script(command)
        if path is None:
            yield Finding("broken", f"{command} isn't beside {sys.executable} nor on PATH")
            continue
        python = _python_of(path)
        if _sees_plugin(*python):
            yield Finding("ok", f"{command} sees the plug-in, by {START_UP_FILE} ({path})")
        else:
            yield Finding(
                "broken",
                f"{command} doesn't see the plug-in: {path} runs {' '.join(python)}, without it",
            )


def _slurm() -> Iterator[Finding]:
    """Nothing on a machine that isn't part of a cluster."""
    if not slurm.is_installed():
        return
    try:
        yield Finding("ok", slurm.this_cluster().advice())
    except UserError as error:
        yield Finding("note", str(error))


def _gpus() -> Iterator[Finding]:
    try:
        import torch

        count = torch.cuda.device_count()
        kinds = sorted({torch.cuda.get_device_name(index) for index in range(count)})
    except Exception as error:  # a broken driver or installation has many ways to fail
        yield Finding("broken", f"torch can't be used: {str(error).splitlines()[0]}")
        return
    names = f": {', '.join(kinds)}" if kinds else ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    limit = "" if visible is None else f", CUDA_VISIBLE_DEVICES is {visible!r}"
    yield Finding("ok" if count else "note", f"{count} GPU{'s' * (count != 1)}{names}{limit}")


def _in_range(name: str, found: str, supported: tuple, advice: str) -> Finding:
    lowest, highest = (".".join(map(str, bound)) for bound in supported)
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if supported[0] <= numbers <= supported[1]:
        return Finding("ok", f"{name} {found} (supported: {lowest} to {highest})")
    return Finding("broken", f"{name} {found}, supported are {lowest} to {highest}: {advice}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _script(command: str) -> str | None:
    beside = Path(sys.executable).with_name(command)
    return str(beside) if beside.exists() else shutil.which(command)


def _python_of(script: str) -> list[str]:
    """The interpreter that a console script names in its first line, with its arguments."""
    with open(script, "rb") as file:
        first, second = (file.readline().decode("utf-8", errors="replace") for _ in range(2))
    if not first.startswith("#!"):
        return [sys.executable]
    command = first.removeprefix("#!").split()
    if command == ["/bin/sh"] and "exec" in second:
        # pip's way for a path with a space: '''exec' "/a path/python" "$0" "$@"
        return shlex.split(second)[1:2]
    return command


@functools.cache
def _sees_plugin(*python: str) -> bool:
    try:
        printed = subprocess.run([*python, "-c", SEES_PLUGIN], capture_output=True, text=True)
    except OSError:  # there is no such Python any more
        return False
    return printed.stdout.strip() == "True"
