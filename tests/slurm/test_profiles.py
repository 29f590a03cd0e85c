"""The demo through profiles/slurm and profiles/cluster-generic, on a real SLURM.

The GPUs are simulated: SLURM hands them out, and the trainings use the CPU. One run of the demo
goes through all that can happen to it, since each of its jobs takes seconds to start.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from one_machine import FOLDER_PREFIX, GPUS, clear_leftovers, wait_for, why_not
from paths import NO_JOBS, ROOT, SPACE_IN_PATH

from onmt_define import slurm as slurm_advice

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.skipif(SPACE_IN_PATH, reason=NO_JOBS),
]

SEED_OF_DEFINE = Path("results/demo/mt/define/seed1")
SEED_OF_LSTM = Path("results/demo/lm/lstm-define/seed1")
# SLURM warns a translation model before its time is over, as the profile says, but not this one.
UNWARNED = "train_language_model:slurm_extra=''"
# Only so that nothing hangs for ever: other programs may keep the machine busy.
SECONDS_FOR_THE_DEMO = 1200
SECONDS_TO_CHECKPOINT = 600


def small_demo():
    """configs/demo.yaml with one run of each kind, little text and small models."""
    config = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text("utf-8"))
    config["corpus"]["generate"] = {"pairs": 400, "valid": 20, "test": 20, "seed": 1}
    config["bpe"]["merges"] = 100
    config["correlation"] = False
    config["compression"] = None
    config["translation"]["training"] |= {
        **{"layers": 1, "hidden_size": 16, "word_vec_size": 16, "transformer_ff": 32, "heads": 2},
        **{"batch_size": 256, "train_steps": 1200, "valid_steps": 400},
        **{"save_checkpoint_steps": 20, "report_every": 20},
    }
    _, define = config["translation"]["runs"]
    config["translation"]["runs"] = [define]
    define["options"] |= {"define_map_dim": 8, "define_expand_dim": 32}
    config["language_models"]["runs"][0]["options"] |= {
        **{"map": {"dim": 16}, "classifier": {"cutoffs": [20, 60]}},
        "unit": {"input_dim": 16, "output_dim": 16, "expand_dim": 32, "max_groups": 2},
        **{"hidden_size": 16, "save_every": 50, "epochs": 12, "batch_size": 8},
    }
    return config


class Driver:
    """A `snakemake` that submits jobs, with all that it prints in a file."""

    def __init__(self, slurm, folder, *arguments, profile="slurm"):
        self.output_file = folder / f"driver-{time.time_ns()}.txt"
        with open(self.output_file, "w") as output:
            self.process = subprocess.Popen(
                [
                    # Should the test be killed, so is the driver.
                    *("setpriv", "--pdeathsig", "KILL", sys.executable),
                    *(ROOT / "tests" / "slurm" / "quick_snakemake.py", "--latency-wait", "10"),
                    *("--snakefile", ROOT / "Snakefile", "--profile", ROOT / "profiles" / profile),
                    *arguments,
                ],
                cwd=folder,
                env=slurm.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self):
        return self.output_file.read_text("utf-8")

    def wait(self, seconds=SECONDS_FOR_THE_DEMO):
        return self.process.wait(seconds)

    def wait_for(self, condition, seconds, what):
        """Wait until `condition()` is true, but no longer than the driver lives."""

        def is_met():
            ended = self.process.poll()  # before the condition, which its last deed may have met
            met = condition()
            assert met or ended is None, f"the driver ended ({ended}) before {what}: {self.output}"
            return met

        wait_for(is_met, seconds, what)

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextmanager
def killed_in_the_end(slurm):
    """A function that starts drivers, none of which outlives the block."""
    with ExitStack() as stack:

        def start(*arguments, **options):
            driver = Driver(slurm, *arguments, **options)
            stack.callback(driver.kill)
            return driver

        yield start


@pytest.fixture
def start_driver(slurm):
    with killed_in_the_end(slurm) as start:
        yield start


def make_project(folder):
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(small_demo()), "utf-8")
    return folder


def jobs_of(slurm, folder, rule=""):
    return [
        job
        for job in slurm.jobs()
        if job.get("WorkDir") == str(folder) and job["Comment"].startswith(f"rule_{rule}")
    ]


def processes_of(folder):
    """Ids of the processes that train in a run's folder, which they name in their commands."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, workdir = (process / "cmdline").read_bytes(), (process / "cwd").readlink()
        except OSError:
            continue
        if not folder.is_relative_to(workdir) or workdir == Path("/"):
            continue
        is_python = b"python" in command.split(b"\0")[0] and b"snakemake" not in command
        if is_python and str(folder.relative_to(workdir)).encode() in command:
            found.append(int(process.name))
    return found


def checkpoints_of(folder):
    whole = (folder / "checkpoints").glob("[!.]*")
    return {path for path in whole if path.suffix in (".pt", ".ckpt")}


def pause(driver, *folders):
    """Stop the processes of trainings at the next checkpoint of each; returns their ids by folder.

    All trainings that run at the same time go into one call: none of them waits for another.
    """
    known = {folder: checkpoints_of(folder) for folder in folders}
    stopped = {}

    def all_stopped():
        for folder in known.keys() - stopped.keys():
            if checkpoints_of(folder) - known[folder]:
                stopped[folder] = processes_of(folder)
                for process in stopped[folder]:
                    os.kill(process, signal.SIGSTOP)
        return len(stopped) == len(folders)

    driver.wait_for(all_stopped, SECONDS_TO_CHECKPOINT, f"a checkpoint in {folders}")
    assert all(stopped.values()), stopped
    return stopped


def limit_time(slurm, job, minutes):
    """Let a job's time be over so many minutes after its current one; at least one."""
    running = datetime.now().timestamp() - seconds(job["StartTime"])
    limit = int(running // 60) + minutes
    slurm.run("scontrol", "update", f"JobId={job['JobId']}", f"TimeLimit={limit}")


def was_sent(process, number):
    """Whether a signal waits for a stopped process, or has woken and ended it."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return True
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd"))
    return bool(int(pending.split()[1], 16) >> (number - 1) & 1)


def seconds(when):
    return datetime.fromisoformat(when).timestamp()


@pytest.fixture(scope="module")
def orphaned(slurm, tmp_path_factory):
    """A project whose driver was killed while SLURM trained a language model: what was said then.

    All that the translation model needs is done; another orphaned job made the last of it.
    """
    folder = make_project(tmp_path_factory.mktemp("slurm") / "demo")
    targets = (str(SEED_OF_LSTM / "model.pt"), str(SEED_OF_DEFINE / "model.pt"))
    again = ("--set-resources", UNWARNED)
    with killed_in_the_end(slurm) as start:
        driver = start(folder, "--", *targets)
        pause(driver, folder / SEED_OF_LSTM)
        last = "build_vocabulary"
        driver.wait_for(lambda: jobs_of(slurm, folder, last), SECONDS_FOR_THE_DEMO, last)
        driver.kill()

        with train_alone(folder) as second:
            locked = start(folder, *again)
            assert locked.wait() != 0
            assert start(folder, "--unlock").wait() == 0
            _, complaint = second.communicate(timeout=SECONDS_TO_CHECKPOINT)
        wait_for(lambda: len(active_jobs(slurm)) == 1, SECONDS_FOR_THE_DEMO, "the other jobs")
        (orphan,) = active_jobs(slurm)
        refused = start(folder, *again)
        assert refused.wait() != 0

        slurm.run("scancel", orphan)
        wait_for(lambda: not active_jobs(slurm), 60, "the orphan's end")
    return SimpleNamespace(
        **{"folder": folder, "again": again, "orphan": orphan},
        **{"locked": locked.output, "refused": refused.output},
        **{"second_status": second.returncode, "second_complaint": complaint},
    )


@pytest.fixture(scope="module")
def demo(slurm, orphaned):
    """The folder of the demo, gone on with and finished; both kinds of training ran out of time."""
    folder = orphaned.folder
    with killed_in_the_end(slurm) as start:
        driver = start(folder, *orphaned.again)
        stopped = pause(driver, folder / SEED_OF_LSTM, folder / SEED_OF_DEFINE)
        warned = stopped[folder / SEED_OF_DEFINE]
        limit_time(slurm, jobs_of(slurm, folder, "train_language_model")[-1], minutes=1)
        (job,) = jobs_of(slurm, folder, "train_translation")
        limit_time(slurm, job, minutes=2)
        driver.wait_for(
            lambda: all(was_sent(process, signal.SIGUSR1) for process in warned),
            *(150, "SIGUSR1 before the time limit"),
        )
        # How long a busy machine takes to save and to end is not what is tested.
        limit_time(slurm, job, minutes=60)
        for process in warned:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        assert driver.wait() == 0, driver.output
    return folder


def active_jobs(slurm):
    return slurm.run("squeue", "--noheader", "--format=%i").split()


def train_alone(folder):
    """Start the training of the language model by hand, beside the one of the orphaned job."""
    seed = folder / SEED_OF_LSTM
    command = [sys.executable, ROOT / "scripts/train_language_model.py", "--allow-cpu"]
    command += ["--config", seed / "run.yaml", "--output", seed, "--log", folder / "by-hand.log"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_after_a_killed_driver_the_same_command_says_what_to_do(orphaned):
    assert "--unlock" in orphaned.locked
    sentence = "SLURM jobs of an earlier run in this folder aren't over: "
    assert f"{sentence}{orphaned.orphan};" in orphaned.refused
    assert "Traceback" not in orphaned.refused
    # Whatever else may start a second training, it doesn't write.
    assert orphaned.second_status == 2
    assert "another process is training in" in orphaned.second_complaint


def test_after_scancel_the_same_command_goes_on(slurm, orphaned, demo):
    first, *_, last = jobs_of(slurm, demo, "train_language_model")
    assert first["JobId"] == orphaned.orphan
    assert first["JobState"] == "CANCELLED"
    assert last["JobState"] == "COMPLETED"
    tries = json.loads((demo / SEED_OF_LSTM / "record.json").read_text())["tries"]
    assert tries[0]["from_step"] == 0
    assert tries[1]["from_step"] >= 20
    # What was finished isn't done again, nor what an orphan has finished since.
    assert len(jobs_of(slurm, demo, "clean_corpus")) == 3
    assert len(jobs_of(slurm, demo, "build_vocabulary")) == 1


def test_the_whole_demo_ends_in_a_report(demo):
    assert "lstm-define" in (demo / "results/demo/report/index.html").read_text("utf-8")


def test_jobs_get_the_gpus_that_they_ask_for_and_others_none(slurm, demo):
    jobs, given = jobs_of(slurm, demo), slurm.given_gpus()
    rules = {}
    for job in jobs:
        rule = job["Comment"].removeprefix("rule_").split("_wildcards")[0]
        rules.setdefault(rule, []).append((job.get("TresPerJob"), given[job["JobId"]]))
    for rule in ("train_translation", "train_language_model", "translate"):
        assert len(rules[rule]) >= 1
        for asked, got in rules.pop(rule):
            assert asked == "gres:gpu:1"
            assert int(got) in range(GPUS)
    assert {"clean_corpus", "learn_bpe", "apply_bpe", "score", "report"} <= rules.keys()
    assert {pair for pairs in rules.values() for pair in pairs} == {(None, "")}


def test_jobs_at_the_same_time_have_different_gpus(slurm, demo):
    given = slurm.given_gpus()
    jobs = [job for job in jobs_of(slurm, demo) if given[job["JobId"]]]
    at_once = [
        (one, other)
        for one in jobs
        for other in jobs
        if one is not other
        and seconds(one["StartTime"]) <= seconds(other["StartTime"]) < seconds(one["EndTime"])
    ]
    assert at_once
    for one, other in at_once:
        assert given[one["JobId"]] != given[other["JobId"]]


def test_a_training_that_was_warned_saves_and_is_submitted_again(slurm, demo):
    first, last = jobs_of(slurm, demo, "train_translation")
    assert first["JobState"] == "FAILED"
    assert last["JobState"] == "COMPLETED"
    record = json.loads((demo / SEED_OF_DEFINE / "record.json").read_text())
    assert record["steps"] == 1200
    first, second = (attempt["from_step"] for attempt in record["tries"])
    assert first == 0
    assert second >= 20


def test_a_training_that_ran_out_of_time_is_submitted_again_and_goes_on(slurm, demo):
    _, unwarned, last = jobs_of(slurm, demo, "train_language_model")
    assert unwarned["JobState"] == "TIMEOUT"
    assert last["JobState"] == "COMPLETED"
    tries = json.loads((demo / SEED_OF_LSTM / "record.json").read_text())["tries"]
    _, second, third = (attempt["from_step"] for attempt in tries)
    assert second >= 40
    assert third > second


def test_a_status_command_that_waits_for_ever_is_refused(slurm, start_driver, tmp_path):
    folder = make_project(tmp_path / "demo")
    driver = start_driver(folder, "--slurm-status-command", "sacct")
    assert driver.wait() != 0
    assert "slurm-status-command sacct never sees a job end on this cluster" in driver.output
    assert "Traceback" not in driver.output
    assert not jobs_of(slurm, folder)


def test_doctor_says_what_the_cluster_needs(slurm, monkeypatch, run_command, tmp_path):
    result = run_command("onmt_define", "doctor", cwd=tmp_path, env=slurm.environment)
    lines = [line for line in result.stdout.splitlines() if "SLURM" in line]
    version = slurm.run("sinfo", "--version").split()[1]
    assert lines == [
        f"ok      SLURM {version} without accounting database: slurm-status-command: squeue; "
        "GPUs by --gpus, as profiles/slurm does"
    ]
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    assert slurm_advice.running_jobs(tmp_path) == []


LEASES = (
    "import time; from onmt_define.workflow.leases import lease\n"
    "with lease(2, 'job') as ids: print(*(gpu.id for gpu in ids)); time.sleep(3)"
)


def test_a_lease_is_what_slurm_gave(slurm):
    command = ["srun", "--ntasks=1", "--gpus=2", "sh", "-c"]
    command += [f'CUDA_VISIBLE_DEVICES=$GIVEN_GPUS exec "{sys.executable}" -c "$0"', LEASES]
    jobs = [
        subprocess.Popen(command, env=slurm.environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ids = [job.communicate(timeout=60)[0].split() for job in jobs]
    assert sorted(ids) == [["0", "1"], ["2", "3"]]


@pytest.fixture
def half_done(demo, tmp_path):
    """A copy of the demo, to train the language model once more."""
    folder = tmp_path / "demo"
    shutil.copytree(demo, folder, ignore=shutil.ignore_patterns("driver-*", ".snakemake"))
    for name in ("checkpoints", "metrics"):
        shutil.rmtree(folder / SEED_OF_LSTM / name)
    for name in ("model.pt", "record.json"):
        (folder / SEED_OF_LSTM / name).unlink()
    return folder


def test_the_generic_profile_tries_again_until_an_earlier_runs_job_is_gone(
    slurm, start_driver, half_done
):
    score = next((half_done / SEED_OF_DEFINE).rglob("*.score.json"))
    score.unlink()
    targets = (str(SEED_OF_LSTM / "model.pt"), str(score.relative_to(half_done)))
    before = len(slurm.jobs())

    def jobs_named(name):
        return [job for job in slurm.jobs()[before:] if job["JobName"] == name]

    def start(*arguments):
        return start_driver(half_done, *arguments, profile="cluster-generic")

    driver = start(*targets)
    pause(driver, half_done / SEED_OF_LSTM)
    driver.kill()
    assert start("--unlock").wait() == 0
    driver = start(*targets)
    driver.wait_for(
        lambda: "Trying to restart" in driver.output, 300, "a second training to be refused"
    )
    first, second, *_ = jobs_named("train_language_model")
    refused = half_done / ".snakemake" / f"train_language_model-{second['JobId']}.log"
    assert "error: another process is training in" in refused.read_text("utf-8")
    slurm.run("scancel", first["JobId"])
    assert driver.wait() == 0, driver.output
    record = json.loads((half_done / SEED_OF_LSTM / "record.json").read_text())
    assert record["tries"][1]["from_step"] >= 40
    given = slurm.given_gpus()
    trainings, (score_job,) = jobs_named("train_language_model"), jobs_named("score")
    assert {job["TresPerNode"] for job in trainings} == {"gres:gpu:1"}
    assert all(given[job["JobId"]] for job in trainings)
    states = [job["JobState"] for job in trainings]
    assert (states[0], states[1], states[-1]) == ("CANCELLED", "FAILED", "COMPLETED")
    assert score_job["JobState"] == "COMPLETED"
    assert score_job["TresPerNode"] == "gres:gpu:0"
    assert given[score_job["JobId"]] == ""


def test_there_is_no_second_slurm(slurm):
    assert re.fullmatch(r"process \d+ has started one here that still runs", why_not())


def test_what_a_killed_slurm_left_is_cleared_away(slurm, capsys):
    ended = subprocess.Popen(["true"])
    ended.wait()
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{ended.pid}-", dir="/tmp"))
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with subprocess.Popen(["sleep", "100"], env=environment) as daemon:
        # A process that has only just become another program has no environment for a moment.
        readable = Path(f"/proc/{daemon.pid}/environ")
        wait_for(lambda: str(folder) in readable.read_text(), 20, "the process to start")
        clear_leftovers()
        assert daemon.wait(10) == -signal.SIGKILL
    assert not folder.exists()
    assert capsys.readouterr().err.count("cleared away") == 1
    assert slurm.run("sinfo", "--noheader")
