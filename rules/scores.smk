# BLEU and chrF of each translation against the untouched reference.


rule score:
    input:
        hypothesis=f"{RUN}/{{test_set}}.hyp",
        reference=f"{RAW}/{{test_set}}.{TARGET}",
    output:
        f"{RUN}/{{test_set}}.score.json",
    log:
        f"{RESULTS}/logs/score_{{run}}_seed{{seed}}_{{test_set}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score_{{run}}_seed{{seed}}_{{test_set}}.tsv"
    shell:
        "python {SCRIPTS:q}/score.py --hypothesis {input.hypothesis:q} --reference {input.reference:q} "
        "--test-set {wildcards.test_set:q} --output {output:q} 2>&1 | tee {log:q} >&2"
