"""What a training ran on and with, for its record."""

import platform
from importlib.metadata import version

import torch

from onmt_define import __version__


def describe_device(gpus: int, threads: int) -> str:
    """The hardware in words, such as '2 x NVIDIA H100 80GB HBM3' or 'CPU, 1 thread'."""
    if gpus:
        return f"{gpus} x {torch.cuda.get_device_name()}"
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"


def versions(library: str) -> dict[str, str]:
    """Versions of what decides a result: Python, torch, the training library and this package."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        library: version(library),
        "onmt_define": __version__,
    }
