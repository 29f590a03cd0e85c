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


def downloaded_corpora():
    """Provenance of each corpus of this configuration that was downloaded."""
    names = [CORPUS["name"]] if "download" in CORPUS else []
    names += [
        run["corpus"]["download"]
        for run in LANGUAGE_MODEL_RUNS.values()
        if "download" in run["corpus"]
    ]
    return [f"data/{name}/raw/provenance.json" for name in dict.fromkeys(names)]


PROVENANCE = [f"{RESULTS}/provenance.json"] if downloaded_corpora() else []


rule provenance:
    input:
        downloaded_corpora(),
    output:
        f"{RESULTS}/provenance.json",
    log:
        f"{RESULTS}/logs/provenance.log",
    shell:
        "python {SCRIPTS:q}/collect_provenance.py --input {input:q} --output {output:q} 2> {log:q}"


def expected_results():
    """The records and scores of every run and seed."""
    results = [
        f"{RESULTS}/mt/{run['name']}/seed{seed}/{result}"
        for run in TRANSLATION_RUNS.values()
        for seed in run["seeds"]
        for result in [
            "record.json",
            *(
                f"{name}{model}.score.json"
                for name in CONFIG["test_sets"]
                for model in MODELS
            ),
        ]
    ]
    results += [
        f"{RESULTS}/lm/{run['name']}/seed{seed}/record.json"
        for run in LANGUAGE_MODEL_RUNS.values()
        for seed in run["seeds"]
    ]
    return results


def data_files():
    """Every text that a training or a score reads: as it came, encoded, and the vocabularies."""
    files = expand(
        f"{RAW}/{{split}}.{{language}}", split=RAW_SPLITS, language=LANGUAGES
    )
    for name in TRANSLATION_RUNS:
        files += training_inputs(SimpleNamespace(run=name))
    for name in LANGUAGE_MODEL_RUNS:
        files += language_model_texts(CONFIG, name)
    return list(dict.fromkeys(files))


rule data_hashes:
    input:
        data_files(),
    output:
        f"{RESULTS}/data_hashes.json",
    log:
        f"{RESULTS}/logs/data_hashes.log",
    benchmark:
        f"{RESULTS}/benchmarks/data_hashes.tsv"
    shell:
        "python {SCRIPTS:q}/hash_data.py --output {output:q} {input:q} 2>&1 | tee {log:q} >&2"


rule report:
    input:
        expected_results(),
        expected_analyses(),
        config=f"{RESULTS}/config.yaml",
        provenance=PROVENANCE,
        hashes=f"{RESULTS}/data_hashes.json",
        counts=expand(f"{CLEAN}/{{split}}.counts.json", split=["train", "valid"]),
    output:
        page=report(REPORT, category="Report", caption="captions/report.rst"),
        tables=report(
            directory(f"{RESULTS}/report/tables"),
            patterns=["{table}.csv"],
            category="Tables",
            labels={"table": "{table}"},
            caption="captions/table.rst",
        ),
        figures=report(
            directory(f"{RESULTS}/report/figures"),
            patterns=["{figure}.svg"],
            category="Figures",
            labels={"figure": "{figure}"},
            caption="captions/figure.rst",
        ),
    log:
        f"{RESULTS}/logs/report.log",
    benchmark:
        f"{RESULTS}/benchmarks/report.tsv"
    params:
        results=RESULTS,
        folder=f"{RESULTS}/report",
    shell:
        "python {SCRIPTS:q}/make_report.py --config {input.config:q} --results {params.results:q} "
        "--output {params.folder:q} --provenance {input.provenance:q} {input.counts:q} {input.hashes:q} "
        "> {log:q} 2>&1"
