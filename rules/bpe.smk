# Joint byte-pair encoding of both languages, and OpenNMT-py's vocabularies.


rule learn_bpe:
    input:
        expand(f"{CLEAN}/train.{{language}}", language=LANGUAGES),
    output:
        codes=f"{BPE}/codes",
        vocabularies=expand(f"{BPE}/subwords.{{language}}", language=LANGUAGES),
    log:
        f"{RESULTS}/logs/learn_bpe.log",
    benchmark:
        f"{RESULTS}/benchmarks/learn_bpe.tsv"
    params:
        merges=CONFIG["bpe"]["merges"],
    shell:
        "TQDM_MININTERVAL=10 python {SCRIPTS:q}/learn_bpe.py --input {input:q} --merges {params.merges} "
        "--codes {output.codes:q} --vocabularies {output.vocabularies:q} 2>&1 | tee {log:q} >&2"


rule apply_bpe:
    input:
        text=f"{CLEAN}/{{split}}.{{language}}",
        codes=f"{BPE}/codes",
        vocabulary=f"{BPE}/subwords.{{language}}",
    output:
        f"{BPE}/{{split}}.{{language}}",
    log:
        f"{RESULTS}/logs/apply_bpe_{{split}}.{{language}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/apply_bpe_{{split}}.{{language}}.tsv"
    wildcard_constraints:
        split="|".join(RAW_SPLITS),
    threads: 8
    params:
        threshold=CONFIG["bpe"]["vocabulary_threshold"],
    shell:
        "python {SCRIPTS:q}/apply_bpe.py --codes {input.codes:q} --input {input.text:q} "
        "--vocabulary {input.vocabulary:q} --vocabulary-threshold {params.threshold} "
        "--output {output:q} --num-workers {threads} 2>&1 | tee {log:q} >&2"


rule build_vocabulary:
    input:
        expand(f"{BPE}/train.{{language}}", language=LANGUAGES),
    output:
        expand(f"{BPE}/vocabulary-{{{{sharing}}}}.{{language}}", language=LANGUAGES),
    log:
        f"{RESULTS}/logs/build_vocabulary-{{sharing}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/build_vocabulary-{{sharing}}.tsv"
    params:
        shared=lambda wildcards: "--shared" if wildcards.sharing == "shared" else "",
    shell:
        "python {SCRIPTS:q}/build_vocabulary.py --source {input[0]:q} --target {input[1]:q} "
        "--source-vocabulary {output[0]:q} --target-vocabulary {output[1]:q} "
        "{params.shared} > {log:q} 2>&1"
