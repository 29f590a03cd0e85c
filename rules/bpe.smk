# Joint byte-pair encoding of both languages, and OpenNMT-py's vocabularies.


rule learn_bpe:
    input:
        expand(f"{CLEAN}/train.{{language}}", language=LANGUAGES),
    output:
        codes=f"{BPE}/codes",
        vocabularies=expand(f"{BPE}/subwords.{{language}}", language=LANGUAGES),
    params:
        merges=CONFIG["bpe"]["merges"],
    threads: 8
    log:
        f"{RESULTS}/logs/learn_bpe.log",
    benchmark:
        f"{RESULTS}/benchmarks/learn_bpe.tsv"
    shell:
        "subword-nmt learn-joint-bpe-and-vocab --input {input:q} --symbols {params.merges} "
        "--output {output.codes:q} --write-vocabulary {output.vocabularies:q} "
        "--num-workers {threads} > {log:q} 2>&1"


rule apply_bpe:
    input:
        text=f"{CLEAN}/{{split}}.{{language}}",
        codes=f"{BPE}/codes",
        vocabulary=f"{BPE}/subwords.{{language}}",
    output:
        f"{BPE}/{{split}}.{{language}}",
    params:
        threshold=CONFIG["bpe"]["vocabulary_threshold"],
    wildcard_constraints:
        split="|".join(RAW_SPLITS),
    threads: 8
    log:
        f"{RESULTS}/logs/apply_bpe_{{split}}.{{language}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/apply_bpe_{{split}}.{{language}}.tsv"
    shell:
        "subword-nmt apply-bpe --codes {input.codes:q} --input {input.text:q} "
        "--vocabulary {input.vocabulary:q} --vocabulary-threshold {params.threshold} "
        "--output {output:q} --num-workers {threads} > {log:q} 2>&1"


rule build_vocabulary:
    input:
        expand(f"{BPE}/train.{{language}}", language=LANGUAGES),
    output:
        expand(f"{BPE}/vocabulary-{{{{sharing}}}}.{{language}}", language=LANGUAGES),
    params:
        program=script("build_vocabulary.py"),
        shared=lambda wildcards: "--shared" if wildcards.sharing == "shared" else "",
    log:
        f"{RESULTS}/logs/build_vocabulary-{{sharing}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/build_vocabulary-{{sharing}}.tsv"
    shell:
        "{params.program} --source {input[0]:q} --target {input[1]:q} "
        "--source-vocabulary {output[0]:q} --target-vocabulary {output[1]:q} "
        "{params.shared} > {log:q} 2>&1"
