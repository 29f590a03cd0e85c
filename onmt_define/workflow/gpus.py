"""Which GPUs there are, and which of them this process may use."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from onmt_define.errors import UserError


class Gpu(NamedTuple):
    """A GPU, or a part of one where it is divided (MIG).

    `id` is what CUDA_VISIBLE_DEVICES takes and what no other GPU has: the UUID, unless nvidia-smi
    can't be asked. `index` is nvidia-smi's number; it and `name` are empty if unknown.
    """

    id: str
    index: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.index} ({self.id})" if self.index else self.id


def visible_gpus() -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, each once, in its order; all where it isn't set.

    Indices count as nvidia-smi's do. As CUDA does, all after an unknown one are left out.
    """
    on_machine, visible = _ask_nvidia_smi(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [part for parts in on_machine for part in parts]
    spelled = [gpu.strip() for gpu in visible.split(",") if gpu.strip()]
    found: dict[str, Gpu] = {}
    for gpu in map(lambda one: _resolve(one, on_machine), spelled):
        if gpu is None:
            break
        found.setdefault(gpu.id, gpu)
    return list(found.values())


def _resolve(spelling: str, on_machine: Sequence[Sequence[Gpu]]) -> Gpu | None:
    """The GPU meant by an index or by the beginning of a UUID; of a divided one its first part."""
    if spelling == "-1":
        return None
    if not on_machine:
        return Gpu(spelling)
    for parts in on_machine:
        for part in parts:
            if part.index == spelling or part.id.startswith(spelling):
                return part
        if parts[0].index.split(":")[0] == spelling:
            return parts[0]
    return None


def _ask_nvidia_smi() -> list[list[Gpu]]:
    """For each GPU of the machine itself alone, or the parts it is divided into."""
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    gpus: list[list[Gpu]] = []
    for line in listing.splitlines():
        if match := re.match(r"GPU (\d+): (.*) \(UUID: (\S+)\)", line):
            whole = Gpu(match[3], match[1], match[2])
            gpus.append([whole])
        elif gpus and (match := re.match(r"\s+MIG (.*?)\s+Device\s+(\d+): \(UUID: (\S+)\)", line)):
            parts = [gpu for gpu in gpus[-1] if gpu is not whole]
            name = f"{whole.name} MIG {match[1]}"
            gpus[-1] = [*parts, Gpu(match[3], f"{whole.index}:{match[2]}", name)]
    return gpus


def describe(gpus: Sequence[Gpu]) -> str:
    """The hardware in words, such as '2 x NVIDIA H100 80GB HBM3'."""
    return " + ".join(
        f"{count} x {name or 'GPU'}" for name, count in Counter(gpu.name for gpu in gpus).items()
    )


def require_gpus(wanted: int, visible: int, allow_cpu: bool, what: str) -> None:
    """Raise `UserError` if `what` asks for GPUs that aren't there and may not use the CPU.

    No GPU at all is fine with `allow_cpu`; fewer than wanted never is.
    """
    if visible >= wanted > 0 or (allow_cpu and 0 in (wanted, visible)):
        return
    if wanted == 0:
        raise UserError(
            f"{what} was given no GPU: start Snakemake with --resources gpu=N, or set "
            "allow_cpu: true in the configuration"
        )
    raise UserError(
        f"{what} asks for {wanted} GPU{'s' if wanted > 1 else ''}, but {visible or 'none'} "
        f"{'are' if visible > 1 else 'is'} visible (see nvidia-smi and CUDA_VISIBLE_DEVICES); "
        "set allow_cpu: true in the configuration to train on the CPU"
    )


def usable_gpus(wanted: int, allow_cpu: bool, what: str) -> int:
    """How many GPUs `what` gets: those it wants, or none where it may use the CPU and must.

    Raises:
        UserError: see `require_gpus`.
    """
    visible = len(visible_gpus())
    require_gpus(wanted, visible, allow_cpu, what)
    return min(wanted, visible)
