# Raw text of all splits, from a download, a generator or the user's files; then cleaning.

if "download" in CORPUS:

    rule fetch_corpus:
        output:
            expand(
                f"{RAW}/{{split}}.{{language}}", split=RAW_SPLITS, language=LANGUAGES
            ),
            f"{RAW}/provenance.json",
        log:
            f"{RESULTS}/logs/fetch_corpus.log",
        benchmark:
            f"{RESULTS}/benchmarks/fetch_corpus.tsv"
        params:
            name=CORPUS["download"],
            folder=RAW,
            test_sets=RAW_SPLITS[2:],
        shell:
            "python {SCRIPTS:q}/fetch_corpus.py --name {params.name:q} --output {params.folder:q} "
            "--test-sets {params.test_sets:q} {MIRROR_OPTION} 2>&1 | tee {log:q} >&2"

elif "generate" in CORPUS:

    rule generate_corpus:
        output:
            expand(
                f"{RAW}/{{split}}.{{language}}", split=RAW_SPLITS, language=LANGUAGES
            ),
        log:
            f"{RESULTS}/logs/generate_corpus.log",
        benchmark:
            f"{RESULTS}/benchmarks/generate_corpus.tsv"
        params:
            folder=RAW,
            size=CORPUS["generate"],
        shell:
            "python {SCRIPTS:q}/generate_demo_corpus.py --output {params.folder:q} --pairs {params.size[pairs]} "
            "--valid {params.size[valid]} --test {params.size[test]} "
            "--seed {params.size[seed]} 2>&1 | tee {log:q} >&2"

else:

    # Files that were taken in already may have gone since.
    if not all(
        os.path.exists(f"{RAW}/{split}.{language}")
        for split in RAW_SPLITS
        for language in LANGUAGES
    ):
        try:
            check_user_files(CORPUS["files"], CONFIG_FILE)
        except UserError as error:
            raise WorkflowError(str(error))

    rule import_corpus:
        input:
            user_files(CORPUS["files"]),
        output:
            expand(
                f"{RAW}/{{split}}.{{language}}", split=RAW_SPLITS, language=LANGUAGES
            ),
        log:
            f"{RESULTS}/logs/import_corpus.log",
        benchmark:
            f"{RESULTS}/benchmarks/import_corpus.tsv"
        params:
            folder=RAW,
            files=json.dumps(CORPUS["files"], ensure_ascii=False),
        shell:
            "printf %s {params.files:q} | python {SCRIPTS:q}/import_corpus.py --files /dev/stdin "
            "--source-language {SOURCE} --target-language {TARGET} "
            "--output {params.folder:q} 2>&1 | tee {log:q} >&2"


rule fetch_language_modelling_corpus:
    output:
        expand("data/{{corpus}}/raw/{split}.txt", split=["train", "valid", "test"]),
        "data/{corpus}/raw/provenance.json",
    log:
        f"{RESULTS}/logs/fetch_{{corpus}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fetch_{{corpus}}.tsv"
    wildcard_constraints:
        corpus="|".join(
            {
                run["corpus"].get("download", "-")
                for run in LANGUAGE_MODEL_RUNS.values()
            }
        )
        or "-",
    params:
        folder=lambda wildcards: f"data/{wildcards.corpus}/raw",
    shell:
        "python {SCRIPTS:q}/fetch_corpus.py --name {wildcards.corpus:q} --output {params.folder:q} "
        "{MIRROR_OPTION} 2>&1 | tee {log:q} >&2"


rule clean_corpus:
    input:
        expand(f"{RAW}/{{{{split}}}}.{{language}}", language=LANGUAGES),
    output:
        expand(f"{CLEAN}/{{{{split}}}}.{{language}}", language=LANGUAGES),
        f"{CLEAN}/{{split}}.counts.json",
    log:
        f"{RESULTS}/logs/clean_{{split}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/clean_{{split}}.tsv"
    threads: 8
    params:
        raw=RAW,
        clean=CLEAN,
        cleaning=CONFIG["cleaning"],
        dashes="--aggressive-dashes" if CONFIG["cleaning"]["aggressive_dashes"] else "",
    shell:
        "python {SCRIPTS:q}/clean_corpus.py --input {params.raw:q} --output {params.clean:q} "
        "--source-language {SOURCE} --target-language {TARGET} --splits {wildcards.split:q} "
        "--max-tokens {params.cleaning[max_tokens]} "
        "--max-length-ratio {params.cleaning[max_length_ratio]} {params.dashes} "
        "--threads {threads} 2>&1 | tee {log:q} >&2"
