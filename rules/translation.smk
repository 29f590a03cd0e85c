# One training for each run and seed, and its translation of each test set.

RUN = f"{RESULTS}/mt/{{run}}/seed{{seed}}"


def training_inputs(wildcards):
    """The encoded text and the vocabulary that the run's options ask for."""
    options = training_options(CONFIG, wildcards.run)
    sharing = "shared" if options.get("share_vocab") else "separate"
    return expand(
        [f"{BPE}/train.{{language}}", f"{BPE}/valid.{{language}}"]
        + [f"{BPE}/vocabulary-{sharing}.{{language}}"],
        language=LANGUAGES,
    )


# Written by its own rule, so that a training runs again when its settings change, and only then.
rule training_config:
    output:
        f"{RUN}/train.yaml",
    log:
        f"{RESULTS}/logs/training_config_{{run}}_seed{{seed}}.log",
    params:
        # Snakemake compares only parameters that don't look at the output.
        settings=lambda wildcards: json.dumps(
            translation_settings(CONFIG, wildcards.run, int(wildcards.seed))
        ),
    shell:
        "printf %s {params.settings:q} | python {SCRIPTS:q}/write_settings.py --output {output:q} 2> {log:q}"


# The checkpoints aren't declared: Snakemake would delete them when a training fails. The training
# takes the shell's place (exec), since a cluster may signal every process of a job: a shell would
# die of what lets the training save.
rule train_translation:
    input:
        training_inputs,
        config=f"{RUN}/train.yaml",
    output:
        model=f"{RUN}/model.pt",
        record=f"{RUN}/record.json",
    log:
        f"{RESULTS}/logs/train_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train_{{run}}_seed{{seed}}.tsv"
    resources:
        gpu=gpus_of(TRANSLATION_RUNS),
    params:
        folder=RUN,
        corpus=CORPUS["name"],
        gpu_log=f"{RESULTS}/benchmarks/train_{{run}}_seed{{seed}}.gpu.tsv",
    shell:
        "exec python {SCRIPTS:q}/train_translation.py --config {input.config:q} --output {params.folder:q} "
        "--corpus {params.corpus:q} --gpus {resources.gpu} --threads {threads} {CPU_OPTION} "
        "--log {log:q} --gpu-log {params.gpu_log:q}"


# The other model beside model.pt, where the configuration asks for it; both are translated with.
rule average_checkpoints:
    input:
        f"{RUN}/model.pt",
    output:
        f"{RUN}/model-averaged.pt",
    log:
        f"{RESULTS}/logs/average_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/average_{{run}}_seed{{seed}}.tsv"
    params:
        checkpoints=f"{RUN}/checkpoints",
        number=CONFIG["translation"]["averaging"],
    shell:
        "python {SCRIPTS:q}/average_checkpoints.py --checkpoints {params.checkpoints:q} "
        "--number {params.number} --output {output:q} 2>&1 | tee {log:q} >&2"


rule decoding_config:
    output:
        f"{RESULTS}/mt/decoding.yaml",
    log:
        f"{RESULTS}/logs/decoding_config.log",
    params:
        settings=json.dumps(CONFIG["translation"]["decoding"]),
    shell:
        "printf %s {params.settings:q} | python {SCRIPTS:q}/write_settings.py --output {output:q} 2> {log:q}"


rule translate:
    input:
        model=f"{RUN}/model{{averaged}}.pt",
        source=f"{BPE}/{{test_set}}.{SOURCE}",
        decoding=f"{RESULTS}/mt/decoding.yaml",
    output:
        f"{RUN}/{{test_set}}{{averaged}}.hyp",
    log:
        f"{RESULTS}/logs/translate_{{run}}_seed{{seed}}_{{test_set}}{{averaged}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/translate_{{run}}_seed{{seed}}_{{test_set}}{{averaged}}.tsv"
    resources:
        gpu=1,
    shell:
        "python {SCRIPTS:q}/translate.py --model {input.model:q} --source {input.source:q} "
        "--language {TARGET} --decoding {input.decoding:q} --output {output:q} "
        "--gpus {resources.gpu} --log {log:q}"
