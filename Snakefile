# The whole experiment: corpora, byte-pair encoding, trainings, scores, one report.
#
#   snakemake --cores all --resources gpu=4                  the paper's run (config.yaml)
#   snakemake --cores all --configfile configs/demo.yaml     a small run on the CPU
#   snakemake -n ...                                         what would be done
#
# Targets go first or after `--`: --resources takes every word that follows it.

from snakemake.utils import min_version

min_version("9.10")


# Another --configfile stands for itself: Snakemake would merge it into this one.
if not workflow.configfiles:

    configfile: "config.yaml"


include: "rules/common.smk"
include: "rules/corpora.smk"
include: "rules/bpe.smk"
include: "rules/translation.smk"
include: "rules/scores.smk"
include: "rules/language_models.smk"
include: "rules/analysis.smk"
include: "rules/report.smk"


rule all:
    default_target: True
    input:
        REPORT,


onstart:
    check_before_start()


onsuccess:
    if os.path.exists(REPORT):
        print(f"\nReport: {os.path.abspath(REPORT)}")
