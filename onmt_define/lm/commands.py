"""`onmt_define lm`: the command line of the language models.

What not every installation has is imported where it is used: `onmt_define doctor` runs without.
"""

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.files import require_other_file
from onmt_define.lm.run_settings import complete_run

SPLITS = ("train", "valid", "test")
SPLIT_FILES = "train.txt, valid.txt and test.txt"
LARGEST = 2**31 - 1
MOST_THREADS = 1024

TRAIN = """\
Train a word-level language model with or without DeFINE: an LSTM, an AWD-LSTM or a Transformer-XL.
The same command goes on from the newest checkpoint in --output if it was stopped, and ends with the
weights that it would have had without the stop.

A run is a YAML file (--config), a row of the paper (--paper), or both; then the file changes the
row.
"""

TRAIN_EXAMPLES = """\
examples:
  onmt_define lm train --paper table1a/R3 --texts data/wikitext-103/raw --output r3 --gpus 1
      the paper's LSTM with adaptive layers and DeFINE, 3 maps deep
  onmt_define lm train --paper table1c/awd-lstm-define --texts data/ptb/raw --output awd --gpus 1
      AWD-LSTM with DeFINE on Penn Treebank
  onmt_define lm train --paper table2a/define-128 --config mine.yaml --output xl --gpus 4
      a Transformer-XL with your own changes, for example "train: my.txt" and "epochs: 2"
  onmt_define params --table 2a
      the rows of a table; onmt_define/paper/tables/ has their settings

a run file of your own, all keys of which are described in onmt_define/lm/run.schema.yaml:
  run: mine                     # a name
  seed: 1
  corpus: my-text
  train: my/train.txt           # a sentence a line, tokens separated by spaces
  valid: my/valid.txt
  test: my/test.txt
  min_count: 2                  # rarer words become <unk>
  model: lstm
  hidden_size: 512
  layers: 2
  map: {type: standard, dim: 128}                                            # n = 128
  unit: {output_dim: 256, expand_dim: 512, depth: 3, max_groups: 8}          # m, k, N; or leave out
  dropout: 0.2
  bptt: 70
  batch_size: 32
  optimizer: adam
  learning_rate: 0.002
  gradient_clip: 1.0
  epochs: 10
  save_every: 1000

written to --output: model.pt for `onmt_define lm evaluate`, record.json with perplexities and the
learning curve, metrics/ (CSV), tensorboard/, checkpoints/ and data/ (vocabulary and token ids).
"""

EVALUATE = """\
Measure the perplexity of a text under a trained model: per token, <eos> at the end of each line
counted, nothing left out, the state carried from the first token to the last.
"""

EVALUATE_EXAMPLES = """\
examples:
  onmt_define lm evaluate r3/model.pt my/test.txt --output score.json
  onmt_define lm evaluate xl/model.pt test.txt --output score.json --gpus 1 --memory 1600
      a Transformer-XL that remembers more than in its training
  onmt_define lm evaluate awd/model.pt test.txt --output score.json --cache-size 500
      with a neural cache of the last 500 words (Grave et al., 2017b)
  onmt_define lm evaluate awd/model.pt test.txt --output score.json --dynamic-rate 0.1
      with dynamic evaluation (Krause et al., 2018): the model learns from what it has scored

A cache or dynamic evaluation makes a perplexity better and no longer comparable to those without.
Choose their numbers on a validation text.
"""


def add_commands(subparsers: Any) -> None:
    """Register `lm train` and `lm evaluate` below a command's subparsers."""
    commands = subparsers.add_parser(
        "lm", help="train and evaluate a language model"
    ).add_subparsers(required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    train = commands.add_parser(
        "train",
        help="train the model of a run file or of a row of the paper, or go on with it",
        description=TRAIN,
        epilog=TRAIN_EXAMPLES,
        formatter_class=raw,
    )
    add_run_arguments(train)
    add_train_arguments(train)
    evaluate = commands.add_parser(
        "evaluate",
        help="perplexity of a text under a trained model",
        description=EVALUATE,
        epilog=EVALUATE_EXAMPLES,
        formatter_class=raw,
    )
    add_evaluate_arguments(evaluate)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which run to train; `read_arguments` reads it."""
    parser.add_argument("--config", metavar="FILE", help="run file (YAML)")
    parser.add_argument("--paper", metavar="ROW", help="row of the paper, such as table1a/R3")
    parser.add_argument(
        "--texts", metavar="DIR", help=f"folder with {SPLIT_FILES}; instead of the run's own"
    )
    parser.add_argument("--seed", type=natural, help="instead of the run's own")


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a training and the function that runs it."""
    parser.add_argument("--output", required=True, metavar="DIR", help="folder of this run alone")
    parser.add_argument("--gpus", type=natural, default=0, help="GPUs to use; 0 is the CPU")
    parser.add_argument("--threads", type=thread_count, default=1, help="threads on the CPU")
    parser.add_argument("--log", metavar="FILE", help="log to append to (DIR/training.log)")
    parser.add_argument("--gpu-log", metavar="FILE", help="table to append the GPU's use to")
    parser.set_defaults(function=run_training)


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of an evaluation and the function that runs it."""
    parser.add_argument("model", help="model.pt of a training")
    parser.add_argument("text", help="text to score, tokens separated by spaces")
    parser.add_argument("--output", required=True, metavar="FILE", help="JSON record to write")
    parser.add_argument(
        "--batch-size", type=positive, default=1, help="pieces read side by side; 1 is exact"
    )
    parser.add_argument("--gpus", type=int, choices=(0, 1), default=0, help="GPUs to use")
    parser.add_argument("--threads", type=thread_count, default=1, help="threads on the CPU")
    parser.add_argument(
        "--memory",
        type=natural,
        metavar="TOKENS",
        help="what each layer of a Transformer-XL remembers (the run's own)",
    )
    cache = parser.add_argument_group("neural cache, off by default")
    cache.add_argument("--cache-size", type=positive, metavar="WORDS", help="words remembered")
    cache.add_argument("--cache-weight", type=float, help="the cache's share, lambda (0.1)")
    cache.add_argument("--cache-sharpness", type=float, help="weight of similarity, theta (0.3)")
    dynamic = parser.add_argument_group("dynamic evaluation, off by default")
    dynamic.add_argument("--dynamic-rate", type=float, metavar="RATE", help="learning rate")
    dynamic.add_argument("--dynamic-decay", type=float, help="pull to the trained weights (0)")
    dynamic.add_argument("--dynamic-chunk", type=positive, help="tokens between two steps (5)")
    parser.set_defaults(function=run_evaluation)


def run_training(arguments: argparse.Namespace) -> None:
    """Carry out `lm train`."""
    settings = read_arguments(arguments)
    require_gpus(arguments.gpus)
    if Path(arguments.output).is_file():
        raise UserError(f"--output: {arguments.output} is a file, expected a folder")
    send_messages_to(arguments.log or Path(arguments.output) / "training.log")
    from onmt_define.lm.training import train

    gpu_log = Path(arguments.gpu_log) if arguments.gpu_log else None
    train(settings, arguments.output, arguments.gpus, arguments.threads, gpu_log=gpu_log)


def read_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """The complete settings of the run that the arguments name.

    Raises:
        UserError: neither a run file nor a row, or what these hold can't be used.
    """
    from onmt_define.schema import load_yaml

    if arguments.config is None and arguments.paper is None:
        raise UserError("--config or --paper is missing, expected a run file or a row of the paper")
    settings = {} if arguments.config is None else load_yaml(arguments.config)
    where = arguments.config or f"--paper {arguments.paper}"
    if not isinstance(settings, dict):
        return complete_run(settings, where)  # which says what is wrong with it
    if arguments.paper is not None:
        settings["paper"] = arguments.paper
    if arguments.seed is not None:
        settings["seed"] = arguments.seed
    if arguments.texts is not None:
        settings.update({split: str(Path(arguments.texts) / f"{split}.txt") for split in SPLITS})
    elif arguments.config is None:
        raise UserError(f"--texts is missing, expected a folder with {SPLIT_FILES}")
    return complete_run(settings, where)


def run_evaluation(arguments: argparse.Namespace) -> None:
    """Carry out `lm evaluate`."""
    require_other_file(Path(arguments.output), arguments.model)
    require_other_file(Path(arguments.output), arguments.text, kind="text")
    require_gpus(arguments.gpus)
    import torch

    from onmt_define.lm.dynamic_evaluation import DynamicEvaluation
    from onmt_define.lm.evaluation import evaluate_text, write_record
    from onmt_define.lm.neural_cache import NeuralCache

    torch.set_num_threads(arguments.threads)
    cache = _switched_on(
        arguments, "cache_size", NeuralCache, {"cache_weight": 0.1, "cache_sharpness": 0.3}
    )
    dynamic = _switched_on(
        arguments, "dynamic_rate", DynamicEvaluation, {"dynamic_decay": 0.0, "dynamic_chunk": 5}
    )
    record = evaluate_text(
        arguments.model,
        arguments.text,
        arguments.batch_size,
        "cuda" if arguments.gpus else "cpu",
        memory=arguments.memory,
        cache=cache,
        dynamic=dynamic,
    )
    write_record(arguments.output, record)
    print(f"{record['run']}  {record['tokens']:,} tokens  perplexity {record['perplexity']:.2f}")


def _switched_on(
    arguments: argparse.Namespace, switch: str, kind: Callable[..., Any], defaults: dict[str, Any]
) -> Any:
    """A `kind` of the switch's value and the others', None without the switch."""
    given = {name: getattr(arguments, name) for name in defaults}
    if getattr(arguments, switch) is not None:
        values = (defaults[name] if value is None else value for name, value in given.items())
        return kind(getattr(arguments, switch), *values)
    for name, value in given.items():
        if value is not None:
            raise UserError(
                f"{_option(name)} says nothing without {_option(switch)}, expected both"
            )
    return None


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def natural(text: str) -> int:
    """A whole number of at least 0, for argparse."""
    return _whole_number(text, 0, LARGEST)


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    return _whole_number(text, 1, LARGEST)


def thread_count(text: str) -> int:
    """A number of threads that can be started, for argparse."""
    return _whole_number(text, 1, MOST_THREADS)


def _whole_number(text: str, low: int, high: int) -> int:
    number = int(text)
    if number < low:
        raise argparse.ArgumentTypeError(f"{number} is less than {low}")
    if number > high:
        raise argparse.ArgumentTypeError(f"{number} is more than {high:,}")
    return number


def require_gpus(gpus: int) -> None:
    """Raise `UserError` if more GPUs are asked for than are visible."""
    if not gpus:
        return
    import torch

    visible = torch.cuda.device_count()
    if visible == 0:
        raise UserError(
            f"--gpus {gpus}: no CUDA device is visible, expected one; use --gpus 0 for the CPU"
        )
    if visible < gpus:
        raise UserError(f"--gpus is {gpus}, expected at most {visible}, which are visible")


def send_messages_to(log: str | Path) -> None:
    """Send warnings and what Lightning says to a file instead of the terminal."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("onmt_define").setLevel(logging.INFO)
    logging.captureWarnings(True)
