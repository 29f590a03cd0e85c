"""A real SLURM on this machine alone: controller, one node, four simulated GPUs, no database.

Everything lives in one folder and listens on the loopback interface. It needs the programs of
Debian's munge, slurmctld, slurmd and slurm-client, but no systemd, and tells SLURM of more CPUs and
memory than there may be.

    python tests/slurm/one_machine.py     starts it, prints how to use it, stops at Ctrl-D

This command is also what the tests start: it sees the end of its input when they end, in whatever
way, and takes everything down. What it leaves when it is killed itself, the next one clears away.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = (
    *("munged", "mungekey", "slurmctld", "slurmd"),
    *("sbatch", "srun", "scontrol", "squeue", "scancel", "sinfo", "setpriv"),
)
USER = "root"
GPUS = 4
CPUS = 64
MEGABYTES = 512_000
SECONDS_TO_START = 60
# Of the folder below /tmp; the process that keeps it follows.
FOLDER_PREFIX = "onmt-define-slurm-"
# Where SLURM looks when SLURM_CONF isn't set: Snakemake's plug-in hides that variable from srun.
DEFAULT_CONFIGURATION = Path("/etc/slurm/slurm.conf")
# Time between SIGTERM and SIGKILL at the end of a job.
KILL_WAIT = 10
SECONDS_TO_STOP = 120
# Debian's place for daemons isn't on every user's search path.
SEARCH_PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"


def why_not() -> str | None:
    """The reason why no SLURM can be started here, or None."""
    if os.geteuid() != 0:
        return "only root can start a SLURM of its own"
    missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCH_PATH) is None]
    if missing:
        return (
            f"{', '.join(missing)} not found: apt-get install munge slurmctld slurmd slurm-client"
        )
    if not DEFAULT_CONFIGURATION.exists():
        return None
    if not _is_ours(DEFAULT_CONFIGURATION):
        return f"this machine belongs to a cluster already: {DEFAULT_CONFIGURATION}"
    if owner := _owner(DEFAULT_CONFIGURATION.resolve().parent):
        return f"process {owner} has started one here that still runs"
    return None


class OneMachine:
    """A running SLURM; its folder, and the environment in which its commands work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not _is_slurms(name)},
            "SLURM_CONF": str(folder / "slurm.conf"),
        }

    def run(self, *command: str | Path) -> str:
        """What one of SLURM's commands prints."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def jobs(self) -> list[dict[str, str]]:
        """What the controller knows of all jobs, finished ones too, oldest first."""
        blocks = self.run("scontrol", "show", "job").split("\n\n")
        jobs = [dict(re.findall(r"(\w+)=(\S*)", block)) for block in blocks if "JobId=" in block]
        return sorted(jobs, key=lambda job: int(job["JobId"]))

    def given_gpus(self) -> dict[str, str]:
        """CUDA_VISIBLE_DEVICES as SLURM set it, by job; '' for a job that was given none."""
        lines = (self.folder / "given-gpus").read_text().splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def cancel_all(self) -> None:
        """End every job and wait until none is left."""
        self.run("scancel", "--user", USER)
        wait_for(lambda: not self.run("squeue", "--noheader"), 60, "jobs to end")


def wait_for(condition, seconds: float, what: str) -> None:
    """Wait until `condition()` is true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.05)


@contextmanager
def one_machine() -> Iterator[OneMachine]:
    """A SLURM that runs beside this process and never outlives it."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for us; our end is the end of its input
    ) as keeper:
        started = keeper.stdout.readline()
        assert started, "SLURM didn't start"
        yield OneMachine(Path(started.strip().split("=")[1]).parent)
        keeper.stdin.close()
        assert keeper.wait(SECONDS_TO_STOP) == 0, "SLURM didn't stop in order"


@contextmanager
def _started() -> Iterator[OneMachine]:
    """Start a SLURM, and stop it and all its jobs at the end."""
    clear_leftovers()
    with ExitStack() as stack:
        # Short, because the path of a socket may have 108 characters at most.
        folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir="/tmp"))
        stack.callback(_clear, folder)
        slurm = OneMachine(folder)
        _write_configuration(folder)
        DEFAULT_CONFIGURATION.parent.mkdir(exist_ok=True)
        DEFAULT_CONFIGURATION.unlink(missing_ok=True)  # a link that leads nowhere, see why_not
        DEFAULT_CONFIGURATION.symlink_to(folder / "slurm.conf")
        key, munge = folder / "munge.key", folder / "munge"
        munge.mkdir(mode=0o755)
        _run("mungekey", "--create", f"--keyfile={key}")
        munged = [f"--{name}-file={munge / name}" for name in ("pid", "log", "seed")]
        munged += [f"--key-file={key}", f"--socket={munge}/socket", "--foreground", "--force"]
        _daemon(stack, slurm, "munged", *munged)
        wait_for((munge / "socket").exists, SECONDS_TO_START, "munged")
        _daemon(stack, slurm, "slurmctld", "-D", "-i")
        _daemon(stack, slurm, "slurmd", "-D")
        wait_for(lambda: _is_idle(slurm), SECONDS_TO_START, f"the node to be idle, see {folder}")
        stack.callback(slurm.cancel_all)
        yield slurm


def _is_ours(configuration: Path) -> bool:
    return configuration.is_symlink() and configuration.readlink().parent.name.startswith(
        FOLDER_PREFIX
    )


def _owner(folder: Path) -> str | None:
    """The process that keeps the SLURM of a folder, or None if that was killed."""
    owner = folder.name.removeprefix(FOLDER_PREFIX).split("-")[0]
    try:
        command = Path(f"/proc/{owner}/cmdline").read_text()
    except FileNotFoundError:
        return None
    return owner if Path(__file__).name in command else None


def clear_leftovers() -> None:
    """Take down what a killed one left: its processes, its folder, its link."""
    for folder in Path("/tmp").glob(f"{FOLDER_PREFIX}*"):
        if _owner(folder) is None:
            print(f"cleared away: a SLURM that a killed test left in {folder}", file=sys.stderr)
            _clear(folder)


def _clear(folder: Path) -> None:
    """End all processes of a SLURM, its jobs and who submitted them, and remove its files."""
    configuration = folder / "slurm.conf"
    wait_for(lambda: not _kill(configuration), 20, f"the processes of {configuration} to die")
    if DEFAULT_CONFIGURATION.is_symlink() and DEFAULT_CONFIGURATION.readlink() == configuration:
        DEFAULT_CONFIGURATION.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _kill(configuration: Path) -> list[int]:
    """Kill the processes whose environment names this configuration; returns their ids."""
    killed = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"SLURM_CONF={configuration}".encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
        except OSError:
            continue  # has ended
    return killed


def _is_slurms(variable: str) -> bool:
    return variable.startswith(("SLURM_", "SBATCH_", "SRUN_"))


def _is_idle(slurm: OneMachine) -> bool:
    listed = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"],
        env=slurm.environment,
        capture_output=True,
        text=True,
    )
    return listed.stdout.strip() == "idle"


def _run(name: str, *arguments: str) -> None:
    subprocess.run([_program(name), *arguments], check=True, capture_output=True, timeout=60)


def _program(name: str) -> str:
    program = shutil.which(name, path=SEARCH_PATH)
    assert program is not None
    return program


def _daemon(stack: ExitStack, slurm: OneMachine, name: str, *arguments: str) -> None:
    """Start a daemon in the foreground of a process of ours, stopped with the stack."""
    with open(slurm.folder / f"{name}.out", "wb") as output:
        process = subprocess.Popen(
            [_program(name), *arguments],
            env=slurm.environment,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for us; we stop it in order
        )
    stack.callback(_stop, process)


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _write_configuration(folder: Path) -> None:
    host = socket.gethostname().split(".")[0]
    controller_port, node_port = _free_ports(2)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    # SLURM takes a GPU's number from the name of its device, which has to be a character device.
    for gpu in range(GPUS):
        (folder / f"gpu{gpu}").symlink_to("/dev/null")
    (folder / "gres.conf").write_text(
        f"NodeName={host} Name=gpu File={folder}/gpu[0-{GPUS - 1}] AutoDetect=off\n"
    )
    # No cgroups are used, but slurmd looks for some unless it is told which.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
    prolog = folder / "task-prolog"
    prolog.write_text(
        "#!/bin/sh\n"
        "# Notes the GPUs that SLURM gives, and hides them: there are none behind the ids.\n"
        f'echo "$SLURM_JOB_ID $CUDA_VISIBLE_DEVICES" >> {folder}/given-gpus\n'
        'echo "export GIVEN_GPUS=$CUDA_VISIBLE_DEVICES"\n'
        "echo export CUDA_VISIBLE_DEVICES=-1\n"
    )
    prolog.chmod(0o755)
    (folder / "given-gpus").touch(mode=0o666)
    (folder / "slurm.conf").write_text(
        f"""\
ClusterName=onemachine
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={USER}
SlurmdUser={USER}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
TaskProlog={prolog}
MpiDefault=none
ReturnToService=2
MinJobAge=3600
KillWait={KILL_WAIT}
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory={MEGABYTES} Gres=gpu:{GPUS} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE DefMemPerCPU=100 State=UP
"""
    )


if __name__ == "__main__":
    if reason := why_not():
        raise SystemExit(f"error: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _started() as machine:
        print(f"export SLURM_CONF={machine.environment['SLURM_CONF']}", flush=True)
        sys.stdin.read()
