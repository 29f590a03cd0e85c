# Correlation maps of each run's input layers, one seed each, on the CPU.


rule correlation:
    input:
        f"{RESULTS}/{{kind}}/{{run}}/seed{{seed}}/model.pt",
    output:
        f"{RESULTS}/{{kind}}/{{run}}/seed{{seed}}/correlation/correlation.json",
    log:
        f"{RESULTS}/logs/correlation_{{kind}}_{{run}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/correlation_{{kind}}_{{run}}_seed{{seed}}.tsv"
    wildcard_constraints:
        kind="mt|lm",
    params:
        folder=f"{RESULTS}/{{kind}}/{{run}}/seed{{seed}}/correlation",
    shell:
        "onmt_define correlation {input:q} -o {params.folder:q} 2>&1 > {log:q} | tee -a {log:q} >&2"


def expected_correlations():
    """The first seed of every run, where the configuration asks for correlation maps."""
    return [
        f"{RESULTS}/{kind}/{run['name']}/seed{run['seeds'][0]}/correlation/correlation.json"
        for kind, runs in (("mt", TRANSLATION_RUNS), ("lm", LANGUAGE_MODEL_RUNS))
        for run in runs.values()
        if CONFIG["correlation"]
    ]
