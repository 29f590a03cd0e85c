# The companion language models: one training and its perplexities for each run and seed.

LM_RUN = f"{RESULTS}/lm/{{run}}/seed{{seed}}"


rule language_model_config:
    output:
        f"{LM_RUN}/run.yaml",
    log:
        f"{RESULTS}/logs/language_model_config_{{run}}_seed{{seed}}.log",
    params:
        settings=lambda wildcards: json.dumps(
            language_model_settings(CONFIG, wildcards.run, int(wildcards.seed))
        ),
    shell:
        "printf %s {params.settings:q} | python {SCRIPTS:q}/write_settings.py --output {output:q} 2> {log:q}"


rule train_language_model:
    input:
        lambda wildcards: language_model_texts(CONFIG, wildcards.run),
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
