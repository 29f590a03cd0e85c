"""What a SLURM cluster is like: how jobs are watched, how GPUs are asked for, what still runs."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from onmt_define.errors import UserError

# Snakemake's plug-in looks at its jobs every 180 s at least; a finished one must still be there.
SECONDS_BETWEEN_LOOKS = 180
SECONDS_TO_ANSWER = 60


class Cluster(NamedTuple):
    """The parts of a cluster's configuration that decide how it is used."""

    version: str
    has_database: bool  # accounting through slurmdbd, so that sacct answers
    seconds_kept: int  # how long the controller knows a finished job (MinJobAge)
    has_gpus: bool
    knows_gpus_option: bool  # sbatch --gpus; older ways of selecting know --gres alone

    def status_commands(self) -> list[str]:
        """Values of Snakemake's slurm-status-command that work here, the better one first."""
        commands = ["squeue"] if self.seconds_kept > SECONDS_BETWEEN_LOOKS else []
        return commands + (["sacct"] if self.has_database else [])

    def advice(self) -> str:
        """One line: the status command that profiles/slurm needs here, and how to ask for GPUs."""
        commands = self.status_commands()
        status = (
            f"slurm-status-command: {commands[0]}"
            if commands
            else f"{self._no_status_command()}, use profiles/cluster-generic"
        )
        gpus = "no GPUs"
        if self.has_gpus:
            gpus = (
                "GPUs by --gpus, as profiles/slurm does"
                if self.knows_gpus_option
                else "GPUs by --gres only, use profiles/cluster-generic"
            )
        database = "with" if self.has_database else "without"
        return f"SLURM {self.version} {database} accounting database: {status}; {gpus}"

    def check_status_command(self, command: str) -> None:
        """Raise `UserError` if Snakemake would wait for ever with this slurm-status-command."""
        commands = self.status_commands()
        if not commands:
            raise UserError(f"{self._no_status_command()}: use --profile profiles/cluster-generic")
        if command not in commands:
            raise UserError(
                f"slurm-status-command {command} never sees a job end on this cluster, "
                f"expected {' or '.join(commands)}: use --profile profiles/slurm or "
                f"--slurm-status-command {commands[0]}"
            )

    def _no_status_command(self) -> str:
        return (
            "Snakemake's SLURM plug-in can't see a job end on this cluster, which has no "
            f"accounting database and forgets jobs after {self.seconds_kept} s (MinJobAge)"
        )


def is_installed() -> bool:
    """Whether this machine can submit jobs to SLURM."""
    return shutil.which("sbatch") is not None


def this_cluster() -> Cluster:
    """Ask the controller what kind of cluster this is.

    Raises:
        UserError: if it doesn't answer.
    """
    settings = dict(re.findall(r"^(\w+)\s*= ?(.*)$", _ask("scontrol", "show", "config"), re.M))
    kept = re.match(r"\d+", settings.get("MinJobAge", ""))
    return Cluster(
        version=settings.get("SLURM_VERSION", "").strip(),
        has_database="slurmdbd" in settings.get("AccountingStorageType", ""),
        seconds_kept=int(kept[0]) if kept else 0,
        has_gpus="gpu" in settings.get("GresTypes", "").split(","),
        knows_gpus_option="cons_tres" in settings.get("SelectType", ""),
    )


def running_jobs(folder: Path) -> list[str]:
    """Ids of the user's jobs, running or waiting, that Snakemake submitted from this folder.

    Raises:
        UserError: if the controller doesn't answer.
    """
    lines = _ask("squeue", "--me", "--noheader", "--format=%i\t%k\t%Z").splitlines()
    jobs = (line.split("\t", 2) for line in lines)
    return [
        job
        for job, comment, submitted_from in jobs
        if comment.startswith("rule_") and Path(submitted_from).resolve() == folder.resolve()
    ]


def check_before_jobs(status_command: str, folder: Path) -> None:
    """Stop a Snakemake that would never end, or whose jobs would meet those of an earlier one.

    Args:
        status_command: Snakemake's slurm-status-command.
        folder: the working folder, from which the jobs are submitted.

    Raises:
        UserError: with what to do instead.
    """
    this_cluster().check_status_command(status_command)
    if jobs := running_jobs(folder):
        raise UserError(
            f"SLURM jobs of an earlier run in this folder aren't over: {' '.join(jobs)}; wait for "
            f"them or end them (scancel {' '.join(jobs)}), then give the same command again"
        )


def _ask(*command: str) -> str:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER, check=True
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"SLURM doesn't answer {' '.join(command)!r}: {last}") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"SLURM doesn't answer {' '.join(command)!r} within {SECONDS_TO_ANSWER} s"
        ) from error
    return answer.stdout
