"""`onmt_train` with `training_loop: packed`: real trainings of a tiny model."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from onmt_define.errors import UserError
from onmt_define.opennmt.checkpoint_files import load
from onmt_define.opennmt.packed_training.token_files import open_token_file
from onmt_define.opennmt.texts import NOT_BLANK

PACKED = ("-training_loop", "packed", "-batch_type", "tokens", "-batch_size", "100")
NO_DROPOUT = ("-dropout", "0", "-attention_dropout", "0")


@pytest.fixture
def train(stock, tmp_path):
    """Run `onmt_train` with the packed loop: what it printed."""

    def run(*options, fails=False):
        model = ("-save_model", tmp_path / "m")
        status, output = stock("train", "-config", "train.yaml", *PACKED, *model, *options)
        assert (status != 0) == fails, output
        return output

    return run


def reports(output):
    """Step, accuracy and perplexity of each report."""
    return re.findall(r"Step +(\d+)/.*?acc: +([\d.]+); ppl: +([\d.]+)", output)


def test_trains_and_translates(train, stock, tmp_path):
    output = train("-train_steps", "60", "-report_every", "20", "-seed", "-1")
    assert "training_loop packed on cpu: fp32, padded attention, not compiled" in output
    first, *_, last = [float(perplexity) for _, _, perplexity in reports(output)]
    assert last < 0.8 * first
    assert "Validation perplexity" in output
    model = ("-model", tmp_path / "m_step_60.pt")
    status, output = stock("translate", *model, "-src", "valid.src", "-output", tmp_path / "hyp")
    assert status == 0, output
    assert len((tmp_path / "hyp").read_text().splitlines()) == 20


def test_goes_on_at_the_same_sentence(train, tmp_path):
    steps = ("-save_checkpoint_steps", "10", "-report_every", "2", *NO_DROPOUT)
    straight = reports(train("-train_steps", "20", *steps))
    resumed = reports(
        train(
            *("-train_steps", "20", *steps, "-train_from", tmp_path / "m_step_10.pt"),
            *("-seed", "99"),
        )
    )
    assert resumed == straight[-len(resumed) :]
    assert len(resumed) == 5


def test_the_place_in_the_text_outlives_override_opts(train, tmp_path):
    steps = ("-train_steps", "20", "-save_checkpoint_steps", "10", "-report_every", "2")
    straight = reports(train(*steps, *NO_DROPOUT))
    resumed = train(
        *(*steps, *NO_DROPOUT, "-train_from", tmp_path / "m_step_10.pt", "--override_opts")
    )
    assert reports(resumed) == straight[-5:]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("-num_kv", "1"), "num_kv"),
        (("-encoder_type", "rnn", "-decoder_type", "rnn"), "encoder_type rnn"),
        (("-max_relative_positions", "4"), "max_relative_positions"),
        (("-self_attn_type", "average"), "self_attn_type average"),
    ],
)
def test_a_model_that_the_packed_loop_cannot_train_is_refused(stock, toy, tmp_path, options, what):
    """With `train_from` the model is as the checkpoint has it, whatever the command says."""
    config = yaml.safe_load((toy / "train.yaml").read_text())
    if what == "max_relative_positions":
        del config["position_encoding"]
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({**config, "train_steps": 1}))
    command = ("train", "-config", tmp_path / "other.yaml", "-save_model", tmp_path / "m")
    status, output = stock(*command, "-save_checkpoint_steps", "1", *options)
    assert status == 0, output
    checkpoint = tmp_path / "m_step_1.pt"
    status, output = stock(*command, *PACKED, "-train_from", checkpoint, "-train_steps", "2")
    sentence = f"error: {what} of {checkpoint} can't be combined with training_loop packed: "
    assert (status, sentence in output) == (2, True), output
    assert not (tmp_path / "m_step_2.pt").exists()


def test_stock_loop_goes_on_from_a_packed_checkpoint(train, tmp_path):
    train("-train_steps", "10")
    train("-train_steps", "20", "-train_from", tmp_path / "m_step_10.pt", "-training_loop", "stock")
    train("-train_steps", "30", "-train_from", tmp_path / "m_step_20.pt")
    assert load(tmp_path / "m_step_30.pt")["optim"]["training_step"] == 31


def test_texts_become_ids_once(train, tmp_path):
    train("-train_steps", "10")
    files = sorted((tmp_path / "token-ids").glob("*/ids"))
    assert len(files) == 2
    times = [file.stat().st_mtime_ns for file in files]
    train("-train_steps", "10", "-seed", "2")
    assert [file.stat().st_mtime_ns for file in files] == times


def test_accumulation_averages_and_dropout_schedule(train):
    output = train(
        *("-train_steps", "10", "-accum_count", "2", "-average_decay", "0.01"),
        *("-dropout", "0.1", "0.2", "-attention_dropout", "0.1", "0.1"),
        *("-dropout_steps", "0", "4", "-max_grad_norm", "1"),
    )
    assert "Updated dropout/attn dropout to 0.2" in output
    assert len(reports(output)) == 2


def test_two_processes_read_different_sentences(train, toy, run_command, tmp_path):
    shim = Path(__file__).parent / "two_cpu_workers"
    steps = ("-train_steps", "10", *NO_DROPOUT, "-report_every", "1")
    alone = reports(train(*steps, "-accum_count", "2"))
    trained = run_command(
        *("onmt_train", "-config", "train.yaml", *PACKED, "-save_model", tmp_path / "two", *steps),
        *("-world_size", "2", "-gpu_ranks", "0", "1", "-gpu_backend", "gloo"),
        *("-master_port", str(20000 + os.getpid() % 20000)),
        cwd=toy,
        env={"PYTHONPATH": str(shim)},
    )
    assert trained.returncode == 0, trained.stderr
    together = reports(trained.stdout + trained.stderr)
    # The same sentences in every step, on two processes or in two halves.
    assert together == alone
    assert len(alone) == 10


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("-encoder_type", "brnn"),
            "encoder_type brnn can't be combined with",
        ),
        (("-model_dtype", "fp16"), "model_dtype fp16 can't be combined with"),
        (("-batch_size", "2"), "fits into batch_size 2 tokens"),
        (("-training_loop", "pakced"), "training_loop is 'pakced', expected one of"),
    ],
)
def test_bad_options_get_a_sentence(train, options, sentence):
    output = train(*options, fails=True)
    assert sentence in output
    assert "Traceback" not in output


@pytest.fixture
def train_on(train, toy, tmp_path):
    """The same with another training text on the source side, which must end in an error."""

    def run(content):
        text = tmp_path / "text"
        text.write_bytes(content)
        options = yaml.safe_load((toy / "train.yaml").read_text())
        options["data"]["train"]["path_src"] = str(text)
        (tmp_path / "bad.yaml").write_text(yaml.safe_dump(options))
        output = train("-config", tmp_path / "bad.yaml", fails=True)
        assert "Traceback" not in output
        return text, output

    return run


@pytest.mark.parametrize(
    ("line", "sentence"),
    [(b"w1 \xff w2", "isn't UTF-8"), ("w1 w2\uffe8x".encode(), "U+FFE8")],
)
def test_bad_text_gets_a_sentence(train_on, tmp_path, line, sentence):
    text, output = train_on(b"w1 w2\n" + line + b"\n")
    assert f"{text}, line 2" in output
    assert sentence in output
    assert not list(tmp_path.glob("token-ids/*/complete"))


def test_sides_of_different_length_get_a_sentence(train_on):
    text, output = train_on(b"w1 w2\n" * 7)
    assert f"{text} has 7 lines and " in output
    assert "line by line they belong together" in output


def test_ids_made_with_blank_lines_are_not_taken_where_those_are_an_error(tmp_path):
    (tmp_path / "text").write_text("a b\n\nb\n")
    vocabulary = SimpleNamespace(ids_to_tokens=["<unk>", "a", "b"], default_id=0)
    opened = "data.x.path_src", tmp_path / "text", vocabulary, tmp_path / "ids", print
    assert open_token_file(*opened).lengths.tolist() == [2, 0, 1]
    with pytest.raises(UserError, match="line 2 is blank, expected"):
        open_token_file(*opened, NOT_BLANK)
    (tmp_path / "text").write_text("a b\nb\n")
    assert open_token_file(*opened, NOT_BLANK).lengths.tolist() == [2, 1]
