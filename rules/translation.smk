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
    params:
        options=lambda wildcards: training_options(CONFIG, wildcards.run),
    run:
        from onmt_define.workflow.training_config import resolve_training, write_training_config

        resolved = resolve_training(
            params.options,
            bpe_dir=BPE,
            output_dir=Path(output[0]).parent,
            source_language=SOURCE,
            target_language=TARGET,
            seed=int(wildcards.seed),
        )
        write_training_config(resolved, output[0])


# The checkpoints aren't declared: Snakemake would delete them when a training fails.
rule train_translation:
    input:
        training_inputs,
        config=f"{RUN}/train.yaml",
    output:
        model=f"{RUN}/model.pt",
        record=f"{RUN}/record.json",
    params:
        program=script("train_translation.py"),
        folder=RUN,
        corpus=CORPUS["name"],
        cpu="--allow-cpu" if CONFIG["allow_cpu"] else "",
    resources:
        gpu=gpus_of(TRANSLATION_RUNS),
    log:
        f"{RESULTS}/logs/train_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train_{{run}}_seed{{seed}}.tsv"
    shell:
        "{params.program} --config {input.config:q} --output {params.folder:q} "
        "--corpus {params.corpus:q} --gpus {resources.gpu} --threads {threads} {params.cpu} "
        "--log {log:q}"


rule decoding_config:
    output:
        f"{RESULTS}/mt/decoding.yaml",
    params:
        options=CONFIG["translation"]["decoding"],
    run:
        from onmt_define.workflow.training_config import write_training_config

        write_training_config(params.options, output[0])


rule translate:
    input:
        model=f"{RUN}/model.pt",
        source=f"{BPE}/{{test_set}}.{SOURCE}",
        decoding=f"{RESULTS}/mt/decoding.yaml",
    output:
        f"{RUN}/{{test_set}}.hyp",
    params:
        program=script("translate.py"),
    resources:
        gpu=1,
    log:
        f"{RESULTS}/logs/translate_{{run}}_seed{{seed}}_{{test_set}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/translate_{{run}}_seed{{seed}}_{{test_set}}.tsv"
    shell:
        "{params.program} --model {input.model:q} --source {input.source:q} "
        "--language {TARGET} --decoding {input.decoding:q} --output {output:q} "
        "--gpus {resources.gpu} --log {log:q}"
