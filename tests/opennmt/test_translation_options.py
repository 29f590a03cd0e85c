"""Every option of `onmt_translate` with DeFINE models: it works, or it is refused.

docs/opennmt.md has a row for each of them, as for the features of training.
"""

import pytest
import yaml

from onmt_define.opennmt.checkpoint_files import load, save

pytestmark = pytest.mark.slow

ALIGNED = {"lambda_align": 0.05, "alignment_layer": 0, "alignment_heads": 1}
RNN = {"encoder_type": "rnn", "decoder_type": "rnn", "position_encoding": False}
CNN = {"encoder_type": "cnn", "decoder_type": "cnn", "position_encoding": False}
# Of each option: what the model is trained with, and what the command gets.
WORKING = {
    "-with_score": ({}, ("-with_score",)),
    "-with_score, sampling": ({}, ("-with_score", "-random_sampling_topk", "3")),
    "-precision fp16": ({}, ("-precision", "fp16")),
    "-profile": ({}, ("-profile",)),
    "-attn_debug": ({}, ("-attn_debug",)),
    "-tgt_file_prefix": ({}, ("-tgt", "valid.tgt", "-tgt_file_prefix")),
    "-replace_unk -phrase_table": ({}, ("-replace_unk", "-phrase_table", "phrases")),
    "-report_align": (ALIGNED, ("-report_align",)),
    "-report_align -align_debug": (ALIGNED, ("-report_align", "-align_debug")),
    "-gold_align": (ALIGNED, ("-report_align", "-gold_align", "-tgt", "valid.tgt")),
    "-coverage_penalty": ({}, ("-coverage_penalty", "wu", "-beta", "0.1")),
    "-coverage_penalty, RNN": (RNN, ("-coverage_penalty", "wu", "-beta", "0.1")),
    "-replace_unk, RNN": (RNN, ("-replace_unk",)),
    "-replace_unk, CNN": (CNN, ("-replace_unk",)),
}
REFUSED = {
    "-precision int8": ({}, ("-precision", "int8")),
    "-gpu above the GPUs": ({}, ("-gpu", "7")),
    "-report_align without an alignment_layer": ({}, ("-report_align",)),
    "-report_align, RNN": (RNN, ("-report_align",)),
    "-align_debug without -report_align": ({}, ("-align_debug",)),
    "-dump_beam": ({}, ("-dump_beam", "beams")),
    "-n_best above -beam_size": ({}, ("-n_best", "3", "-beam_size", "2")),
    "-tgt_file_prefix without -tgt": ({}, ("-tgt_file_prefix",)),
    "-phrase_table without -replace_unk": ({}, ("-phrase_table", "phrases")),
    "-self_attn_type average, another model": ({}, ("-self_attn_type", "average")),
    "-quant_type awq_gemm without its package": (
        *({}, ("-quant_type", "awq_gemm", "-quant_layers", "linear_query")),
    ),
    "-gpu_ranks above the GPUs": ({}, ("-world_size", "2", "-gpu_ranks", "7", "8")),
    "-transforms filtertoolong": ({}, ("-transforms", "filtertoolong")),
    "copy_attn in an ensemble": ({"copy_attn": True}, ("-model", "m.pt", "m.pt")),
}


@pytest.fixture(scope="module")
def made(toy):
    """The models that were trained, by their options."""
    (toy / "phrases").write_text("w1|||w2\n")
    for split in ("train", "valid"):
        lengths = [len(line.split()) for line in (toy / f"{split}.src").read_text().splitlines()]
        pairs = [" ".join(f"{n}-{size - 1 - n}" for n in range(size)) for size in lengths]
        (toy / f"{split}.align").write_text("".join(f"{line}\n" for line in pairs))
    return {}


@pytest.fixture
def models(made, toy, stock, tmp_path_factory):
    """Path of the toy model with given options, trained once."""

    def path_of(change):
        key = yaml.safe_dump(change)
        if key not in made:
            folder = tmp_path_factory.mktemp("model")
            options = yaml.safe_load((toy / "train.yaml").read_text())
            for split in options["data"] if "lambda_align" in change else ():
                options["data"][split]["path_align"] = f"{split}.align"
            steps = {"train_steps": 2, "save_checkpoint_steps": 2, "valid_steps": 2}
            options |= {**steps, "save_model": str(folder / "m"), **change}
            (folder / "m.yaml").write_text(yaml.safe_dump(options))
            status, printed = stock("train", "-config", folder / "m.yaml")
            assert status == 0, printed
            made[key] = folder / "m_step_2.pt"
        return made[key]

    return path_of


@pytest.fixture
def translate(models, stock, tmp_path):
    """Translate the toy validation text: (status, printed, lines or None)."""

    def run(change, settings):
        model = models(change)
        settings = [model if word == "m.pt" else word for word in settings]
        source = ("-model", model, "-src", "valid.src", "-output", tmp_path / "hyp")
        status, printed = stock("translate", *source, "-max_length", "8", *settings)
        written = (tmp_path / "hyp").exists()
        return status, printed, (tmp_path / "hyp").read_text().splitlines() if written else None

    return run


@pytest.mark.parametrize("option", WORKING)
def test_an_option_works(translate, option):
    status, printed, lines = translate(*WORKING[option])
    assert status == 0, printed
    assert len(lines) == 20
    if "align" in option:
        assert all(" ||| " in line for line in lines)


@pytest.mark.parametrize("option", REFUSED)
def test_a_refused_option_gets_one_sentence(translate, option):
    from test_features import refusal

    status, printed, lines = translate(*REFUSED[option])
    assert status == 2, printed
    assert refusal(option) in printed
    assert "Traceback" not in printed
    assert lines is None


def test_scores_are_those_of_the_search(translate):
    plain, scored = (translate({}, settings)[2] for settings in ((), ("-with_score",)))
    texts, scores = zip(*(line.split("\t") for line in scored), strict=True)
    assert list(texts) == plain
    assert all(-10 < float(score) < 0 for score in scores)


@pytest.mark.parametrize("change", [{}, RNN], ids=["Transformer", "RNN"])
def test_unknown_words_become_those_attended_to_alone_and_in_a_batch(
    models, stock, toy, tmp_path, change
):
    """Stock OpenNMT-py cuts the attention of a sentence to the length of another."""
    checkpoint = load(models(change))
    unknown = checkpoint["vocab"]["tgt"].index("<unk>")
    checkpoint["generator"]["bias"][unknown] += 100
    save(checkpoint, tmp_path / "unknown.pt")
    outputs = []
    for size in (1, 20):
        output = tmp_path / f"hyp{size}"
        arguments = ("-model", tmp_path / "unknown.pt", "-output", output, "-batch_size", size)
        settings = ("-replace_unk", "-max_length", "3", "-src", "valid.src")
        status, printed = stock("translate", *arguments, *settings)
        assert status == 0, printed
        outputs.append(output.read_text().splitlines())
    assert outputs[0] == outputs[1]
    sources = (toy / "valid.src").read_text().splitlines()
    for line, source in zip(outputs[0], sources, strict=True):
        assert line
        assert set(line.split()) <= set(source.split())
