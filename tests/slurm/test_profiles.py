"""The demo through profiles/slurm and profiles/cluster-generic, on a real SLURM.

The GPUs are simulated: SLURM hands them out, and the trainings use the CPU.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from one_machine import GPUS, wait_for
from paths import BIN, NO_JOBS, ROOT, SPACE_IN_PATH

from onmt_define import slurm as slurm_advice

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.skipif(SPACE_IN_PATH, reason=NO_JOBS),
]

# Jobs are looked at sooner than in real life.
QUICK = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10")
SEED_OF_DEFINE = Path("results/demo/mt/define/seed1")
SEED_OF_LSTM = Path("results/demo/lm/lstm-define/seed1")
SEED_OF_UNWARNED = Path("results/demo/lm/unwarned/seed1")
# The first try of one language model gets SLURM's smallest time limit, a minute. The other one gets
# two, and is warned at any time from 60 to 90 s after its start.
SHORT = (
    "train_language_model:runtime=60 if attempt > 1 else 1 if wildcards.run == 'unwarned' else 2",
    "train_language_model:slurm_extra="
    "'--signal=USR1@30' if attempt == 1 and wildcards.run != 'unwarned' else ''",
)
SECONDS_FOR_THE_DEMO = 600


def small_demo():
    """configs/demo.yaml with little text and small models."""
    config = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text("utf-8"))
    config["corpus"]["generate"] = {"pairs": 400, "valid": 20, "test": 20, "seed": 1}
    config["bpe"]["merges"] = 100
    config["compression"] = None
    config["translation"]["training"] |= {
        **{"layers": 1, "hidden_size": 16, "word_vec_size": 16, "transformer_ff": 32, "heads": 2},
        **{"batch_size": 256, "train_steps": 200, "valid_steps": 100},
        **{"save_checkpoint_steps": 20, "report_every": 20},
    }
    standard, define = config["translation"]["runs"]
    standard["options"] |= {"train_steps": 40, "valid_steps": 20}
    define["options"] |= {"define_map_dim": 8, "define_expand_dim": 32}
    config["language_models"]["runs"][0]["options"] |= {
        **{"map": {"dim": 16}, "classifier": {"cutoffs": [20, 60]}},
        "unit": {"input_dim": 16, "output_dim": 16, "expand_dim": 32, "max_groups": 2},
        **{"hidden_size": 16, "save_every": 50, "epochs": 8, "batch_size": 8},
    }
    (lstm,) = config["language_models"]["runs"]
    config["language_models"]["runs"].append({**lstm, "name": "unwarned"})
    return config


class Driver:
    """A `snakemake` that submits jobs, with all that it prints in a file."""

    def __init__(self, slurm, folder, *arguments, profile="slurm", quick=QUICK):
        self.output_file = folder / f"driver-{time.time_ns()}.txt"
        with open(self.output_file, "w") as output:
            self.process = subprocess.Popen(
                [
                    *(BIN / "snakemake", "--snakefile", ROOT / "Snakefile"),
                    *("--profile", ROOT / "profiles" / profile, *quick, *arguments),
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
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()


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
    return list((folder / "checkpoints").glob("*"))


def pause(folder, seconds=200):
    """Wait for a training's first checkpoint, stop its processes there, and return their ids."""
    wait_for(lambda: checkpoints_of(folder), seconds, f"a checkpoint in {folder}")
    processes = processes_of(folder)
    assert processes
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    return processes


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
def demo(slurm, tmp_path_factory):
    """The folder of a finished demo, whose language models ran out of time once."""
    folder = make_project(tmp_path_factory.mktemp("slurm") / "demo")
    driver = Driver(slurm, folder, "--set-resources", *SHORT)
    try:
        pause(folder / SEED_OF_UNWARNED)
        (warned,) = pause(folder / SEED_OF_LSTM)
        wait_for(lambda: was_sent(warned, signal.SIGUSR1), 120, "SIGUSR1 before the time limit")
        with suppress(ProcessLookupError):
            os.kill(warned, signal.SIGCONT)
        assert driver.wait() == 0, driver.output
    finally:
        driver.process.kill()
    return folder


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


@pytest.mark.parametrize(
    ("seed", "state"),
    [(SEED_OF_LSTM, "FAILED"), (SEED_OF_UNWARNED, "TIMEOUT")],
    ids=["warned, so it saved and left", "unwarned"],
)
def test_a_training_that_ran_out_of_time_is_submitted_again_and_goes_on(slurm, demo, seed, state):
    run = seed.parent.name
    first, *_, last = jobs_of(slurm, demo, f"train_language_model_wildcards_{run}_")
    assert first["JobState"] == state
    assert last["JobState"] == "COMPLETED"
    tries = json.loads((demo / seed / "record.json").read_text())["tries"]
    assert tries[0]["from_step"] == 0
    assert tries[1]["from_step"] >= 40


@pytest.fixture
def half_done(demo, tmp_path):
    """A copy of the demo, to train the DeFINE run and the language model once more."""
    folder = tmp_path / "demo"
    shutil.copytree(demo, folder, ignore=shutil.ignore_patterns("driver-*", ".snakemake"))
    for run in (SEED_OF_DEFINE, SEED_OF_LSTM):
        for name in ("checkpoints", "metrics"):
            shutil.rmtree(folder / run / name, ignore_errors=True)
        for name in ("model.pt", "record.json", "learning_curve.json"):
            (folder / run / name).unlink(missing_ok=True)
    return folder


def train_alone(folder):
    """Start the training of the DeFINE run by hand, as a job without a driver would go on."""
    seed = folder / SEED_OF_DEFINE
    command = [sys.executable, ROOT / "scripts/train_translation.py", "--allow-cpu"]
    command += ["--config", seed / "train.yaml", "--output", seed, "--corpus", "demo"]
    command += ["--log", folder / "by-hand.log"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_after_a_killed_driver_and_scancel_the_same_command_goes_on(slurm, half_done):
    target = str(SEED_OF_DEFINE / "model.pt")
    driver = Driver(slurm, half_done, target)
    pause(half_done / SEED_OF_DEFINE)
    (orphan,) = (job["JobId"] for job in jobs_of(slurm, half_done))
    driver.process.kill()
    driver.process.wait()

    # The same command says what to do: first about the lock, then about the job.
    again = Driver(slurm, half_done, target)
    assert again.wait() != 0
    assert "--unlock" in again.output
    assert Driver(slurm, half_done, "--unlock").wait() == 0
    again = Driver(slurm, half_done, target)
    assert again.wait() != 0
    assert f"SLURM jobs of an earlier run in this folder aren't over: {orphan};" in again.output
    assert "Traceback" not in again.output
    # Whatever else may start a second training, it doesn't write.
    second = train_alone(half_done)
    assert second.returncode == 2
    assert "another process is training in" in second.stderr

    slurm.run("scancel", orphan)
    wait_for(lambda: orphan not in slurm.run("squeue", "--noheader"), 60, "the orphan's end")
    again = Driver(slurm, half_done, target)
    assert again.wait() == 0, again.output
    record = json.loads((half_done / SEED_OF_DEFINE / "record.json").read_text())
    assert record["steps"] == 200
    first, second = (attempt["from_step"] for attempt in record["tries"])
    assert first == 0
    assert second >= 20


def test_a_status_command_that_waits_for_ever_is_refused(slurm, half_done):
    target = str(SEED_OF_DEFINE / "model.pt")
    driver = Driver(slurm, half_done, target, "--slurm-status-command", "sacct")
    assert driver.wait(60) != 0
    assert "slurm-status-command sacct never sees a job end on this cluster" in driver.output
    assert "Traceback" not in driver.output
    assert not jobs_of(slurm, half_done)


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


def test_the_generic_profile_tries_again_until_an_earlier_runs_job_is_gone(slurm, half_done):
    score = next((half_done / "results/demo/mt/standard").rglob("*.score.json"))
    score.unlink()
    targets = (str(SEED_OF_LSTM / "model.pt"), str(score.relative_to(half_done)))
    quick = ("--seconds-between-status-checks", "1", "--latency-wait", "10")
    before = len(slurm.jobs())

    def jobs_named(name):
        return [job for job in slurm.jobs()[before:] if job["JobName"] == name]

    def start(*arguments):
        return Driver(slurm, half_done, *arguments, profile="cluster-generic", quick=quick)

    driver = start(*targets)
    pause(half_done / SEED_OF_LSTM)
    driver.process.kill()
    driver.process.wait()
    assert start("--unlock").wait() == 0
    driver = start(*targets)
    wait_for(lambda: "Trying to restart" in driver.output, 100, "a second training to be refused")
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
