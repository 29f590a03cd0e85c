# BLEU and chrF of each translation against the untouched reference, and against the baseline's.


def baseline_of(wildcards):
    """Run and seed that this one is compared with; none for the baseline itself."""
    run = TRANSLATION_RUNS[wildcards.run]["baseline"]
    if wildcards.run == run:
        return None
    seeds = TRANSLATION_RUNS[run]["seeds"]
    seed = int(wildcards.seed)
    return run, seed if seed in seeds else seeds[0]


def baseline_hypothesis(wildcards):
    """The baseline's translation by the same kind of model."""
    if not (baseline := baseline_of(wildcards)):
        return []
    run, seed = baseline
    folder = RUN.format(run=run, seed=seed)
    return [f"{folder}/{wildcards.test_set}{wildcards.averaged}.hyp"]


def baseline_options(wildcards, input):
    """What score.py is told of the baseline."""
    if not (baseline := baseline_of(wildcards)):
        return []
    run, seed = baseline
    options = ["--baseline", input.baseline[0], "--baseline-run", run]
    return [*options, "--baseline-seed", str(seed)]


COMET = CONFIG["translation"]["comet"]


rule score:
    input:
        hypothesis=f"{RUN}/{{test_set}}{{averaged}}.hyp",
        reference=f"{RAW}/{{test_set}}.{TARGET}",
        source=f"{RAW}/{{test_set}}.{SOURCE}",
        baseline=baseline_hypothesis,
    output:
        f"{RUN}/{{test_set}}{{averaged}}.score.json",
    log:
        f"{RESULTS}/logs/score_{{run}}_seed{{seed}}_{{test_set}}{{averaged}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score_{{run}}_seed{{seed}}_{{test_set}}{{averaged}}.tsv"
    params:
        baseline=baseline_options,
        comet=["--comet", COMET] if COMET else [],
    shell:
        "python {SCRIPTS:q}/score.py --hypothesis {input.hypothesis:q} --reference {input.reference:q} "
        "--source {input.source:q} --test-set {wildcards.test_set:q} --output {output:q} "
        "{params.baseline:q} {params.comet:q} 2>&1 | tee {log:q} >&2"
