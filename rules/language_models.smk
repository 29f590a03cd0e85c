# The companion language models: one training and its perplexities for each run and seed.

LM_RUN = f"{RESULTS}/lm/{{run}}/seed{{seed}}"


def language_model_texts(wildcards):
    """Training, validation and test text of a run: a download, or a side of the parallel text."""
    corpus = LANGUAGE_MODEL_RUNS[wildcards.run]["corpus"]
    if "download" in corpus:
        return [f"data/{corpus['download']}/raw/{split}.txt" for split in ("train", "valid", "test")]
    splits = ("train", "valid", CONFIG["test_sets"][0])
    return [f"{CLEAN}/{split}.{corpus['language']}" for split in splits]


rule language_model_config:
    output:
        f"{LM_RUN}/run.yaml",
    params:
        settings=lambda wildcards: language_model_settings(
            CONFIG, wildcards.run, int(wildcards.seed), language_model_texts(wildcards)
        ),
    run:
        from onmt_define.workflow.training_config import write_training_config

        write_training_config(params.settings, output[0])


rule train_language_model:
    input:
        language_model_texts,
        config=f"{LM_RUN}/run.yaml",
    output:
        model=f"{LM_RUN}/model.pt",
        record=f"{LM_RUN}/record.json",
    params:
        program=script("train_language_model.py"),
        folder=LM_RUN,
        cpu="--allow-cpu" if CONFIG["allow_cpu"] else "",
    resources:
        gpu=gpus_of(LANGUAGE_MODEL_RUNS),
    log:
        f"{RESULTS}/logs/train_lm_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train_lm_{{run}}_seed{{seed}}.tsv"
    shell:
        "{params.program} --config {input.config:q} --output {params.folder:q} "
        "--gpus {resources.gpu} --threads {threads} {params.cpu} --log {log:q}"
