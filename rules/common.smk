# Names that the other rules share: the checked configuration, folders, and what is to be run.

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

from snakemake.exceptions import WorkflowError

from onmt_define import slurm
from onmt_define.errors import UserError
from onmt_define.schema import load_yaml
from onmt_define.workflow.config import (
    complete_config,
    corpus_folders,
    corpus_splits,
    languages,
)
from onmt_define.workflow.costs import check_disk
from onmt_define.workflow.plan import (
    check_options,
    check_user_files,
    language_model_settings,
    language_model_texts,
    training_options,
    translation_settings,
    user_files,
)

CONFIG_FILE = str((workflow.configfiles or ["the command line"])[-1])

# subword-nmt and the scripts run with the Python that runs Snakemake, activated or not.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

try:
    for path in workflow.configfiles:
        load_yaml(path)  # Snakemake itself takes a key that is given twice
    CONFIG = complete_config(config, CONFIG_FILE)
except UserError as error:
    raise WorkflowError(str(error))

# A cluster sends this to every process of a job whose time is nearly over. It is for the training,
# which takes it over to save and end; Snakemake and the shell must live to see that.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)

# profiles/default allows no GPU where nobody says how many. A cluster's scheduler knows how many
# there are, and with that limit it would be asked for none.
ON_CLUSTER = workflow.nodes is not None
if ON_CLUSTER and workflow.global_resources.get("gpu").value == 0:
    workflow.global_resources["gpu"] = None

# Not parameters of rules: a change of machine must not run anything again.
SCRIPTS = os.path.join(workflow.basedir, "scripts")
MIRROR_OPTION = f"--mirror {shlex.quote(CONFIG['mirror'])}" if CONFIG["mirror"] else ""
CPU_OPTION = "--allow-cpu" if CONFIG["allow_cpu"] else ""
CORPUS = CONFIG["corpus"]
RAW_SPLITS = corpus_splits(CONFIG)
LANGUAGES = languages(CONFIG)
SOURCE, TARGET = LANGUAGES

RAW, CLEAN, BPE = corpus_folders(CONFIG)
RESULTS = f"results/{CONFIG['name']}"
REPORT = f"{RESULTS}/report/index.html"

TRANSLATION_RUNS = {run["name"]: run for run in CONFIG["translation"]["runs"]}
LANGUAGE_MODEL_RUNS = {
    run["name"]: run for run in CONFIG.get("language_models", {"runs": []})["runs"]
}
ALL_RUNS = [*TRANSLATION_RUNS.values(), *LANGUAGE_MODEL_RUNS.values()]

# What the names of translations and scores end in, one for each model of a run.
MODELS = ["", "-averaged"] if CONFIG["translation"]["averaging"] else [""]


wildcard_constraints:
    seed=r"\d+",
    run=r"[^/]+",
    split=r"[^/]+",
    language="[a-z]{2,3}",
    test_set="|".join(CONFIG["test_sets"]),
    averaged="|-averaged",
    sharing="separate|shared",


localrules:
    all,
    resolved_config,
    provenance,
    training_config,
    language_model_config,
    decoding_config,


def gpus_of(runs):
    """A resource function: the GPUs that the configuration asks for this run."""
    return lambda wildcards: runs[wildcards.run]["gpus"]


TRAININGS = {"train_translation", "train_language_model"}


def check_before_start():
    """Stop with one sentence before the first job; not called in a dry run."""
    jobs = list(workflow.dag.needrun_jobs())
    trains = any(job.rule.name in TRAININGS for job in jobs)
    # Text can also be prepared, and reports made, where there is no GPU.
    gpus_given = workflow.global_resources.get("gpu").value if trains else None
    try:
        check_options(CONFIG, CONFIG_FILE, gpus_given, on_cluster=ON_CLUSTER)
        check_disk(CONFIG, CONFIG_FILE, [path for job in jobs for path in job.output])
        if workflow.executor_plugin.name == "slurm":
            status_command = workflow.executor_settings.status_command
            slurm.check_before_jobs(status_command, Path.cwd())
    except UserError as error:
        raise WorkflowError(str(error))
