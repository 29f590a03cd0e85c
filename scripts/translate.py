"""Translate one test set with a trained model.

Example:
    python scripts/translate.py --model results/demo/mt/define/seed1/model.pt \\
        --source data/demo/bpe-1a2b3c4d/test.en --language de --decoding decoding.yaml \\
        --output results/demo/mt/define/seed1/test.hyp --log translate.log

Inputs: a model, a byte-pair encoded source file, OpenNMT-py translation options as YAML.
Output: one detokenised translation for each source line.
"""

import argparse

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and translate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="OpenNMT-py checkpoint")
    parser.add_argument("--source", required=True, help="byte-pair encoded source text")
    parser.add_argument("--language", required=True, help="code of the target language")
    parser.add_argument("--decoding", required=True, help="YAML of translation options")
    parser.add_argument("--output", required=True, help="file for the translations")
    parser.add_argument("--gpus", type=int, default=0, help="1 to use a GPU (default: 0)")
    parser.add_argument("--log", required=True, help="file for OpenNMT-py's output")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.workflow.translating import translate

        translate(
            arguments.model,
            arguments.source,
            arguments.output,
            language=arguments.language,
            decoding_path=arguments.decoding,
            gpus=arguments.gpus,
            log_path=arguments.log,
        )


if __name__ == "__main__":
    main()
