# The companion language models: one training and its perplexities for each run and seed.

LM_RUN = f"{RESULTS}/lm/{{run}}/seed{{seed}}"


def language_model_texts(wildcards):
    """Training, validation and test text: a download, files, or a side of the parallel text."""
    corpus = LANGUAGE_MODEL_RUNS[wildcards.run]["corpus"]
    if "download" in corpus:
        return [
            f"data/{corpus['download']}/raw/{split}.txt"
            for split in ("train", "valid", "test")
        ]
    if "files" in corpus:
        return [corpus["files"][split] for split in ("train", "valid", "test")]
    splits = ("train", "valid", CONFIG["test_sets"][0])
    return [f"{CLEAN}/{split}.{corpus['language']}" for split in splits]


rule language_model_config:
    output:
        f"{LM_RUN}/run.yaml",
    log:
        f"{RESULTS}/logs/language_model_config_{{run}}_seed{{seed}}.log",
    params:
        settings=lambda wildcards: json.dumps(
            language_model_settings(
                CONFIG,
                wildcards.run,
                int(wildcards.seed),
                language_model_texts(wildcards),
            )
        ),
    shell:
        "printf %s {params.settings:q} | python {SCRIPTS:q}/write_settings.py --output {output:q} 2> {log:q}"


rule train_language_model:
    input:
        language_model_texts,
        config=f"{LM_RUN}/run.yaml",
    output:
        model=f"{LM_RUN}/model.pt",
        record=f"{LM_RUN}/record.json",
    log:
        f"{RESULTS}/logs/train_lm_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train_lm_{{run}}_seed{{seed}}.tsv"
    resources:
        gpu=gpus_of(LANGUAGE_MODEL_RUNS),
    params:
        folder=LM_RUN,
        gpu_log=f"{RESULTS}/benchmarks/train_lm_{{run}}_seed{{seed}}.gpu.tsv",
    shell:
        "exec python {SCRIPTS:q}/train_language_model.py --config {input.config:q} --output {params.folder:q} "
        "--gpus {resources.gpu} --threads {threads} {CPU_OPTION} --log {log:q} "
        "--gpu-log {params.gpu_log:q}"
