"""Perplexity of a whole split, the state carried from its first token to its last.

The definition: every token of the split, `<eos>` included, is predicted once, from all tokens
before it; the first is predicted from `<eos>`. That is batch size 1. A larger batch cuts the
stream into contiguous pieces; each but the first then reads the `WARM_UP` tokens in front of its
piece before its losses count. What is lost is only what a model remembers from further back: a
tenth of a per mille of the perplexity or less on 70,000 tokens in 10 pieces (55.718 for 55.720).
"""

import json
import math
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from onmt_define.embeddings import CompressedEmbedding
from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent, save_by_torch
from onmt_define.lm.data import EOS, Corpus, Vocabulary, encode
from onmt_define.lm.dynamic_evaluation import DynamicEvaluation
from onmt_define.lm.model import LanguageModel, build_model
from onmt_define.lm.neural_cache import NeuralCache

WARM_UP = 512
CHUNK = 128


def perplexity(
    model: LanguageModel,
    ids: np.ndarray,
    eos: int,
    batch_size: int = 1,
    warm_up: int = WARM_UP,
    *,
    memory: int | None = None,
    cache: NeuralCache | None = None,
    dynamic: DynamicEvaluation | None = None,
) -> float:
    """Perplexity per token of the stream `ids` (int, one dimension) with dropout off.

    Args:
        model: on whatever device it is; left as it was.
        ids: token ids of the whole split.
        eos: id of `<eos>`, the context of the first token.
        batch_size: most pieces to read side by side; 1 is exact. A piece is never shorter than
            10 warm-ups, so a short text is read in one.
        warm_up: tokens that each piece but the first reads before it is scored.
        memory: tokens that each layer of a Transformer-XL remembers; None is as in training.
        cache: a neural cache to mix in.
        dynamic: go on learning from each chunk once it is scored.
    """
    device = next(model.parameters()).device
    pieces = max(1, min(batch_size, len(ids) // max(10 * warm_up, 1)))
    overlap = warm_up if pieces > 1 else 0
    stride = math.ceil((len(ids) - overlap) / pieces)

    def windows(stream: np.ndarray) -> torch.Tensor:
        """Overlapping windows (time, pieces); what is missing at the end is filled with zeros."""
        padded = torch.zeros(pieces * stride + overlap, dtype=torch.int64)
        padded[: len(stream)] = torch.from_numpy(stream.astype(np.int64))
        return padded.unfold(0, stride + overlap, stride).t()

    tokens, targets = windows(np.append(eos, ids[:-1])), windows(ids)
    scored = windows(np.ones(len(ids))).clone()
    scored[:overlap, 1:] = 0

    chunk = dynamic.chunk if dynamic else CHUNK
    state, total = None, 0.0
    with _ready_to_read(model, memory, dynamic):
        for start in range(0, len(tokens), chunk):
            part = slice(start, start + chunk)
            targets_here = targets[part].to(device)
            reading = model(tokens[part].to(device), targets_here, state)
            state, losses = reading.state, reading.losses.detach()
            if cache:
                losses = cache.mix(losses, reading.hidden.detach(), targets_here)
            total += (losses.double().cpu() * scored[part]).sum().item()
            # What is read a second time, to begin a piece with, is neither scored nor learned.
            if dynamic and (counted := scored[part].sum()):
                counts = scored[part].to(reading.losses)
                state = dynamic.learn(model, (reading.losses * counts).sum() / counted, state)
    return math.exp(total / len(ids)) if total / len(ids) < 700 else math.inf


@contextmanager
def _ready_to_read(
    model: LanguageModel, memory: int | None, dynamic: DynamicEvaluation | None
) -> Iterator[None]:
    """Dropout off, gradients and another memory only where asked for; all as before afterwards."""
    was_training, own_memory = model.training, getattr(model.context, "memory", None)
    model.eval()
    if memory is not None and own_memory is not None:
        model.context.memory = memory
    try:
        with dynamic.learning(model) if dynamic else torch.no_grad():
            yield
    finally:
        if own_memory is not None:
            model.context.memory = own_memory
        model.train(was_training)


def split_perplexity(
    model: LanguageModel,
    corpus: Corpus,
    split: str,
    settings: dict[str, Any],
    batch_size: int = 1,
) -> float:
    """Perplexity of a split of a corpus, with the memory that the run's settings name.

    Raises:
        UserError: it is not finite.
    """
    memory = settings.get("evaluation_memory")
    ids, eos = corpus.ids[split], corpus.vocabulary.ids[EOS]
    value = perplexity(model, ids, eos, batch_size, memory=memory)
    if not math.isfinite(value):
        raise UserError(
            f"the perplexity of the {split} text is {value}, expected a finite number; lower "
            "learning_rate or gradient_clip and start anew"
        )
    return value


def save_model(
    path: str | Path, model: LanguageModel, settings: dict[str, Any], vocabulary: Vocabulary
) -> None:
    """Write a trained model, moved to the CPU, with its settings and vocabulary."""
    saved = {
        "settings": settings,
        "vocabulary": vocabulary.tokens,
        "weights": model.cpu().state_dict(),
    }
    save_by_torch(saved, path)


def load_model(path: str | Path) -> tuple[LanguageModel, dict[str, Any], Vocabulary]:
    """Read what `save_model` wrote: the model in eval mode, the settings, the vocabulary.

    Raises:
        UserError: a file that can't be read as such a model.
    """
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        settings, vocabulary = saved["settings"], Vocabulary(saved["vocabulary"])
        model = build_model(settings, len(vocabulary))
        if "compression" in saved:  # by onmt_define compress
            model.input_layer = CompressedEmbedding(**saved["compression"])
        model.load_state_dict(saved["weights"])
        for key in ("run", "seed", "model"):
            settings[key]  # what a record says of a model
        vocabulary.ids[EOS]
    except OSError:
        raise  # says itself what the matter is
    except Exception as error:  # torch.load has no closed list of what it raises
        reason = str(error).split("\n")[0] or type(error).__name__
        if isinstance(error, (pickle.UnpicklingError, KeyError)):
            reason = "it holds something else"
        raise UserError(f"{path}: not readable ({reason}), expected a trained model.pt") from None
    return model.eval(), settings, vocabulary


def evaluate_text(
    model_path: str | Path,
    text: str | Path,
    batch_size: int = 1,
    device: str = "cpu",
    *,
    memory: int | None = None,
    cache: NeuralCache | None = None,
    dynamic: DynamicEvaluation | None = None,
) -> dict[str, Any]:
    """Score one text with a trained model: its run, tokens and perplexity.

    Args:
        model_path: what `save_model` wrote.
        text: tokens separated by spaces.
        device: where to compute.
        batch_size, memory, cache, dynamic: see `perplexity`.

    Raises:
        UserError: see `load_model` and `onmt_define.lm.data.encode`; a memory for a model without;
            a perplexity that is no finite number.
    """
    model, settings, vocabulary = load_model(model_path)
    if memory is None:
        memory = settings.get("evaluation_memory")
    elif settings["model"] != "transformer-xl":
        raise UserError(
            f"--memory is {memory}, but {model_path} is an {settings['model']}, expected a "
            "transformer-xl"
        )
    ids = encode(text, vocabulary)
    value = perplexity(
        model.to(device),
        ids,
        vocabulary.ids[EOS],
        batch_size,
        memory=memory,
        cache=cache,
        dynamic=dynamic,
    )
    if not math.isfinite(value):
        blame = "a lower --dynamic-rate" if dynamic else "a model without broken weights"
        raise UserError(
            f"the perplexity of {text} under {model_path} is {value}, expected a finite number, "
            f"from {blame}"
        )
    return {
        "kind": "language model evaluation",
        "run": settings["run"],
        "seed": settings["seed"],
        "text": str(text),
        "tokens": len(ids),
        "perplexity": value,
        "batch_size": batch_size,
        "memory": memory,
        "neural_cache": cache and cache.settings,
        "dynamic_evaluation": dynamic and dynamic.settings,
    }


def write_record(path: str | Path, record: dict[str, Any]) -> None:
    """Write a record as JSON, complete or not at all."""
    with complete_or_absent(path) as temporary:
        temporary.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", "utf-8")
