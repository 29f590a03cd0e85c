# What the input layers of each run's first seed have learned, and how small they can be stored.

ANY_RUN = f"{RESULTS}/{{kind}}/{{run}}/seed{{seed}}"


rule correlation:
    input:
        f"{ANY_RUN}/model.pt",
    output:
        f"{ANY_RUN}/correlation/correlation.json",
    log:
        f"{RESULTS}/logs/correlation_{{kind}}_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/correlation_{{kind}}_{{run}}_seed{{seed}}.tsv"
    wildcard_constraints:
        kind="mt|lm",
    params:
        folder=f"{ANY_RUN}/correlation",
    shell:
        "onmt_define correlation {input:q} -o {params.folder:q} 2>&1 > {log:q} | tee -a {log:q} >&2"


def texts_to_score(wildcards):
    """What a compressed model is scored on: the last test set, in the model's own tokens."""
    if wildcards.kind == "lm":
        return language_model_texts(CONFIG, wildcards.run)[-1:]
    return [f"{BPE}/{CONFIG['test_sets'][-1]}.{language}" for language in LANGUAGES]


rule compress:
    input:
        model=f"{ANY_RUN}/model.pt",
        texts=texts_to_score,
    output:
        model=f"{ANY_RUN}/compressed.pt",
        record=f"{ANY_RUN}/compressed.json",
    log:
        f"{RESULTS}/logs/compress_{{kind}}_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/compress_{{kind}}_{{run}}_seed{{seed}}.tsv"
    wildcard_constraints:
        kind="mt|lm",
    resources:
        gpu=1,
    params:
        compression=CONFIG["compression"],
    shell:
        "python {SCRIPTS:q}/compress_model.py --model {input.model:q} --output {output.model:q} "
        "--codebooks {params.compression[codebooks]} --codes {params.compression[codes]} "
        "--steps {params.compression[steps]} --score {input.texts:q} --gpus {resources.gpu} "
        "--log {log:q} 2>&1 | tee {log:q} >&2"


def first_seeds(names=None):
    """The folder of the first seed of every run, or of those that are named."""
    return [
        f"{RESULTS}/{kind}/{run['name']}/seed{run['seeds'][0]}"
        for kind, runs in (("mt", TRANSLATION_RUNS), ("lm", LANGUAGE_MODEL_RUNS))
        for run in runs.values()
        if names is None or run["name"] in names
    ]


def expected_analyses():
    """Records of the correlation maps and compressions that the configuration asks for."""
    expected = []
    if CONFIG["correlation"]:
        expected += [f"{seed}/correlation/correlation.json" for seed in first_seeds()]
    if CONFIG["compression"]:
        runs = CONFIG["compression"].get("runs")
        expected += [f"{seed}/compressed.json" for seed in first_seeds(runs)]
    return expected
