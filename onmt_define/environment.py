"""What a training ran on and with, for its record."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

from onmt_define import __version__


def describe_device(gpus: int, threads: int) -> str:
    """The hardware in words, such as '2 x NVIDIA H100 80GB HBM3' or 'CPU, 1 thread'."""
    if gpus:
        return f"{gpus} x {torch.cuda.get_device_name()}"
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"


def versions(library: str) -> dict[str, str]:
    """Versions of what decides a result: Python, torch, the training library and this package.

    With a GPU also CUDA's; where this package is a checkout of its repository, the commit.
    """
    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        library: version(library),
        "onmt_define": __version__,
    }
    if torch.cuda.is_available():
        found["cuda"] = torch.version.cuda
    if commit := _commit():
        found["commit"] = commit
    return found


def _commit() -> str | None:
    """The commit that is checked out, with -dirty where the package was changed since."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # not another repository's commit
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
