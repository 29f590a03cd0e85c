"""What is said about a SLURM cluster; tests/slurm asks a real one."""

import pytest

from onmt_define import slurm
from onmt_define.errors import UserError
from onmt_define.workflow.plan import check_options

# Lines of `scontrol show config`, with the spaces that SLURM prints.
CONFIG = """\
Configuration data as of 2026-01-01T00:00:00
AccountingStorageType   = {accounting}
GresTypes               = {gres}
MinJobAge               = {kept} sec
SelectType              = {select}
SLURM_VERSION           = 23.11.4
"""


def cluster(monkeypatch, accounting="slurmdbd", gres="gpu", kept=300, select="cons_tres"):
    answer = CONFIG.format(
        accounting=f"accounting_storage/{accounting}",
        gres=gres,
        kept=kept,
        select=f"select/{select}",
    )
    monkeypatch.setattr(slurm, "_ask", lambda *command: answer)
    return slurm.this_cluster()


@pytest.mark.parametrize(
    ("accounting", "kept", "advice"),
    [
        ("slurmdbd", 300, "23.11.4 with accounting database: slurm-status-command: squeue;"),
        ("none", 300, "23.11.4 without accounting database: slurm-status-command: squeue;"),
        ("slurmdbd", 60, "23.11.4 with accounting database: slurm-status-command: sacct;"),
        ("none", 60, "forgets jobs after 60 s (MinJobAge), use profiles/cluster-generic;"),
    ],
)
def test_the_status_command(monkeypatch, accounting, kept, advice):
    assert advice in cluster(monkeypatch, accounting=accounting, kept=kept).advice()


@pytest.mark.parametrize(
    ("gres", "select", "advice"),
    [
        ("gpu", "cons_tres", "; GPUs by --gpus, as profiles/slurm does"),
        ("craynetwork,gpu", "cons_tres", "; GPUs by --gpus, as profiles/slurm does"),
        ("gpu", "linear", "; GPUs by --gres only, use profiles/cluster-generic"),
        ("(null)", "cons_tres", "; no GPUs"),
    ],
)
def test_how_gpus_are_asked_for(monkeypatch, gres, select, advice):
    assert cluster(monkeypatch, gres=gres, select=select).advice().endswith(advice)


@pytest.mark.parametrize(
    ("accounting", "kept", "command", "sentence"),
    [
        ("slurmdbd", 300, "sacct", None),
        ("slurmdbd", 300, "squeue", None),
        ("slurmdbd", 60, "squeue", "expected sacct: use"),
        ("none", 300, "sacct", "expected squeue: use --profile profiles/slurm"),
        ("none", 60, "squeue", "use --profile profiles/cluster-generic"),
    ],
)
def test_a_status_command_that_would_wait_for_ever(
    monkeypatch, accounting, kept, command, sentence
):
    here = cluster(monkeypatch, accounting=accounting, kept=kept)
    if sentence is None:
        here.check_status_command(command)
    else:
        with pytest.raises(UserError, match=sentence):
            here.check_status_command(command)


def test_jobs_of_this_folder_alone(monkeypatch, tmp_path):
    lines = [f"7\trule_score_wildcards_a\t{tmp_path}", f"8\trule_score\t{tmp_path}/other"]
    lines += [f"9\t(null)\t{tmp_path}", f"10_[2-3]\trule_all\t{tmp_path}/x/.."]
    monkeypatch.setattr(slurm, "_ask", lambda *command: "\n".join(lines))
    assert slurm.running_jobs(tmp_path) == ["7", "10_[2-3]"]


def test_a_controller_that_does_not_answer(monkeypatch, tmp_path):
    fake = tmp_path / "scontrol"
    fake.write_text("#!/bin/sh\necho 'slurm_load_ctl_conf error: Unable to contact' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(UserError, match="SLURM doesn't answer 'scontrol show config': slurm_load"):
        slurm.this_cluster()


def test_a_limit_below_what_a_training_asks_for():
    config = {"translation": {"runs": [{"name": "small", "gpus": 1}, {"name": "big", "gpus": 2}]}}
    with pytest.raises(UserError, match="run 'big' asks for 2 GPUs, but --resources"):
        check_options(config, "mine.yaml", 1, on_cluster=True)
