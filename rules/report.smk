# One page, its tables and its pictures, out of everything that was run.


rule resolved_config:
    output:
        f"{RESULTS}/config.yaml",
    log:
        f"{RESULTS}/logs/resolved_config.log",
    params:
        settings=json.dumps(CONFIG),
    shell:
        "printf %s {params.settings:q} | python {SCRIPTS:q}/write_settings.py --output {output:q} 2> {log:q}"


def expected_results():
    """The records and scores of every run and seed."""
    results = [
        f"{RESULTS}/mt/{run['name']}/seed{seed}/{result}"
        for run in TRANSLATION_RUNS.values()
        for seed in run["seeds"]
        for result in [
            "record.json",
            *(f"{name}.score.json" for name in CONFIG["test_sets"]),
        ]
    ]
    results += [
        f"{RESULTS}/lm/{run['name']}/seed{seed}/record.json"
        for run in LANGUAGE_MODEL_RUNS.values()
        for seed in run["seeds"]
    ]
    return results


rule report:
    input:
        expected_results(),
        expected_analyses(),
        config=f"{RESULTS}/config.yaml",
        provenance=[f"{RAW}/provenance.json"] if "download" in CORPUS else [],
        counts=expand(f"{CLEAN}/{{split}}.counts.json", split=["train", "valid"]),
    output:
        report(REPORT, category="Report", caption="captions/report.rst"),
    log:
        f"{RESULTS}/logs/report.log",
    benchmark:
        f"{RESULTS}/benchmarks/report.tsv"
    params:
        results=RESULTS,
        folder=f"{RESULTS}/report",
    shell:
        "python {SCRIPTS:q}/make_report.py --config {input.config:q} --results {params.results:q} "
        "--output {params.folder:q} --provenance {input.provenance:q} {input.counts:q} "
        "> {log:q} 2>&1"
