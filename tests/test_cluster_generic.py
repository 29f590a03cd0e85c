"""The lines for LSF and PBS in docs/clusters.md, with stand-ins for the systems' commands.

They run the job at once in the background and print what the manuals show; a real SLURM is in
tests/slurm.
"""

import os
import re
import subprocess

import pytest
import yaml
from paths import BIN, NO_JOBS, ROOT, SPACE_IN_PATH

pytestmark = [pytest.mark.slow, pytest.mark.skipif(SPACE_IN_PATH, reason=NO_JOBS)]

SNAKEFILE = """
rule all:
    input:
        "gpu",
        "cpu",

rule train_translation:
    output:
        "gpu",
    resources:
        gpu=2,
    shell:
        "touch {output}"

rule score:
    output:
        "cpu",
    shell:
        "touch {output}"

rule fail:
    output:
        "never",
    shell:
        "exit 3"
"""

# Each job gets a folder: its script runs there and leaves its status behind.
RUN = """
id=$(($(ls -d {jobs}/* 2> /dev/null | wc -l) + 100))
mkdir -p {jobs}/$id
echo "$@" > {jobs}/$id/asked
for script; do :; done
(sh "$script" > /dev/null 2>&1; echo $? > {jobs}/$id/status) > /dev/null 2>&1 &
"""
STANDINS = {
    "lsf": {
        "bsub": RUN + 'echo "Job <$id> is submitted to default queue <normal>."\n',
        "bjobs": "for id; do :; done\nstatus=$(cat {jobs}/$id/status 2> /dev/null)\n"
        'case $status in 0) echo DONE ;; "") echo RUN ;; *) echo EXIT ;; esac\n',
    },
    "pbs": {
        "qsub": RUN + 'echo "$id.server"\n',
        "qstat": "for id; do :; done\nid=${{id%.server}}\n"
        'echo "Job Id: $id.server"\nstatus=$(cat {jobs}/$id/status 2> /dev/null)\n'
        'if [ -z "$status" ]; then echo "    job_state = R"\n'
        'else printf "    job_state = F\\n    Exit_status = %s\\n" "$status"; fi\n',
    },
}
ASKED = {
    "lsf": ["-gpu num=2", "-W 1440", "-M 32000"],
    "pbs": ["ngpus=2", "walltime=86400", "mem=32000mb"],
}
NOT_ASKED = {"lsf": "-gpu", "pbs": "ngpus=2"}


def documented_lines(system):
    text = (ROOT / "docs" / "clusters.md").read_text("utf-8")
    blocks = re.findall(r"```yaml\n(cluster-generic-submit-cmd.*?)```", text, re.S)
    return next(yaml.safe_load(block) for block in blocks if f"status-{system}.sh" in block)


@pytest.mark.parametrize("system", ["lsf", "pbs"])
def test_documented_lines(tmp_path, system):
    jobs, commands, profile = (tmp_path / name for name in ("jobs", "bin", "profile"))
    commands.mkdir()
    for name, script in STANDINS[system].items():
        (commands / name).write_text("#!/bin/sh\n" + script.format(jobs=jobs))
        (commands / name).chmod(0o755)
    shipped = ROOT / "profiles" / "cluster-generic"
    config = yaml.safe_load((shipped / "config.yaml").read_text("utf-8"))
    config |= documented_lines(system)
    # Only for the rules of this little workflow.
    config["set-resources"] = {"train_translation": config["set-resources"]["train_translation"]}
    profile.mkdir()
    (profile / "config.yaml").write_text(yaml.safe_dump(config))
    status = profile / f"status-{system}.sh"
    status.write_bytes((shipped / status.name).read_bytes())
    status.chmod(0o755)
    (tmp_path / "Snakefile").write_text(SNAKEFILE)

    command = [BIN / "snakemake", "--profile", "profile", "--keep-going", "--retries", "0"]
    command += ["--seconds-between-status-checks", "1", "--latency-wait", "5", "all", "never"]
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180
    )
    # One of the three jobs fails, and that is seen.
    assert result.returncode == 1, result.stderr
    assert "2 of 4 steps" in result.stderr
    assert sorted(path.name for path in tmp_path.glob("*pu")) == ["cpu", "gpu"]
    asked = [(job / "asked").read_text() for job in jobs.iterdir()]
    with_gpus = [line for line in asked if all(part in line for part in ASKED[system])]
    without = [line for line in asked if NOT_ASKED[system] not in line]
    assert (len(with_gpus), len(without)) == (1, 2)
