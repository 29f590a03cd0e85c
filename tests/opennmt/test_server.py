"""`onmt_server` with a DeFINE model: a request over HTTP, and a bad file that it only names."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from paths import BIN

pytestmark = pytest.mark.slow

OPTIONS = {
    **{"beam_size": 1, "max_length": 8, "gpu": -1},
    **{"replace_unk": False, "ignore_when_blocking": ["w1", "w2"]},
}


@contextmanager
def running(folder, config):
    """Address of a running server of the toy model; ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    models = [{"id": 7, "model": "model_step_20.pt", "load": True, "opt": {**OPTIONS}}]
    config.write_text(json.dumps({"models_root": str(folder), "models": models}))
    process = subprocess.Popen(
        [BIN / "onmt_server", "--ip", "127.0.0.1", "--port", str(port), "--model_config", config],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/translator")
        yield f"http://127.0.0.1:{port}/translator"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def server(trained, tmp_path_factory):
    """Address of a server whose models stay as they are."""
    with running(trained[0], tmp_path_factory.mktemp("server") / "server.json") as address:
        yield address


@pytest.fixture
def own_server(trained, tmp_path):
    """Address of a server of this test's own."""
    with running(trained[0], tmp_path / "server.json") as address:
        yield address


def wait_for(address):
    for _ in range(120):
        try:
            assert request(f"{address}/health") == {"status": "ok"}
            return
        except urllib.error.URLError:
            time.sleep(0.5)


def request(address, data=None):
    body = None if data is None else json.dumps(data).encode()
    with urllib.request.urlopen(address, body, timeout=30) as answer:
        return json.load(answer)


def test_a_request_gets_the_translation_of_onmt_translate(trained, server, stock, tmp_path):
    lines = (trained[0] / "valid.src").read_text("utf-8").splitlines()[:3]
    (tmp_path / "src").write_text("".join(f"{line}\n" for line in lines))
    status, printed = stock(
        *("translate", "-model", "model_step_20.pt", "-src", tmp_path / "src"),
        *("-output", tmp_path / "hyp", "-beam_size", "1", "-max_length", "8"),
    )
    assert status == 0, printed
    answer = request(f"{server}/translate", [{"id": 7, "src": line} for line in lines])
    served = [translation["tgt"] for translation in answer[0]]
    assert served == (tmp_path / "hyp").read_text("utf-8").splitlines()


def answer(address, body=None):
    """Status and JSON of whatever the server answers."""
    try:
        with urllib.request.urlopen(address, body, timeout=30) as good:
            return good.status, json.load(good)
    except urllib.error.HTTPError as bad:
        return bad.code, json.load(bad)


def test_a_bad_request_is_answered_and_the_server_goes_on(server):
    good = json.dumps([{"id": 7, "src": "w1 w2"}]).encode()
    before = answer(f"{server}/translate", good)
    assert before[0] == 200
    for body, status, sentence in (
        (b"{bad", 400, "the request isn't JSON"),
        (b"", 400, "the request isn't JSON"),
        (b"{}", 400, 'the request is {}, expected [{"id": 0, "src": "..."}]'),
        (b"[]", 400, 'the request is [], expected [{"id": 0, "src": "..."}]'),
        (b"[1]", 400, "sentence 0 is 1, expected id and src in it"),
        (b'[{"id": 9, "src": "w1"}]', 404, "there is no model 9, expected one of [7]"),
        (b'[{"id": "7", "src": "w1"}]', 400, 'sentence 0: id is "7", expected a whole number'),
        (b'[{"id": 7}]', 400, "sentence 0: src is null, expected text"),
        (b'[{"id": 7, "src": 5}]', 400, "sentence 0: src is 5, expected text"),
        (b'[{"id": 7, "src": "w1", "ref": 5}]', 400, "sentence 0: ref is 5, expected text"),
        (b'[{"id": 7, "src": "a", "to": "b"}]', 400, "sentence 0 has the unknown key 'to'"),
        (b'[{"id": 7, "src": "a"}, {"id": 8, "src": "a"}]', 400, "the sentences have several ids"),
        ('[{"id": 7, "src": "w1\uffe8x"}]'.encode(), 400, "Found 1 features in the data but 0"),
    ):
        got, error = answer(f"{server}/translate", body)
        assert (got, error["status"]) == (status, "error")
        assert sentence in error["error"]
    assert answer(f"{server}/translate", b'[{"id": 7, "src": ""}]')[1][0][0]["tgt"] == ""
    assert answer(f"{server}/translate", good) == before


def test_models_are_cloned_moved_and_unloaded(own_server):
    good = [{"src": "w1 w2"}]
    expected = answer(f"{own_server}/translate", json.dumps([{**good[0], "id": 7}]).encode())[1]
    status, clone = answer(f"{own_server}/clone_model/7", b"{}")
    assert (status, clone["status"], clone["model_id"]) == (200, "ok", 0)
    assert answer(f"{own_server}/translate", json.dumps(good).encode())[1] == expected
    for path, body, status, sentence in (
        ("clone_model/7", b"[]", 400, 'the request is [], expected {"opt": {...}}'),
        ("clone_model/7", b'{"opt": {"beem_size": 2}}', 400, "opt: unknown option '-beem_size'"),
        ("clone_model/7", b'{"timeout": "x"}', 400, 'timeout is "x", expected seconds'),
        ("clone_model/9", b"{}", 404, "there is no model 9, expected one of [0, 7]"),
        ("to_cpu/9", None, 404, "there is no model 9"),
        ("to_gpu/7", None, 400, "model 7 has gpu -1, expected a GPU"),
        ("unload_model/9", None, 400, "No such model '9'"),
        ("nowhere", None, 404, "not found"),
    ):
        got, error = answer(f"{own_server}/{path}", body)
        assert (got, error["status"]) == (status, "error"), path
        assert sentence in error["error"]
    assert answer(f"{own_server}/unload_model/7") == (200, {"model_id": 7, "status": "ok"})
    assert answer(f"{own_server}/unload_model/7")[1]["error"] == "model 7 isn't loaded"
    assert answer(f"{own_server}/to_cpu/7") == (
        *(400, {"error": "model 7 isn't loaded", "status": "error"}),
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": "nowhere.pt"}, "models[0]: there is no file"),
        ({"model": None}, "expected model or models in it"),
        ({"model": "train.src"}, "train.src begins with"),
        ({"model": "train.src", "load": False}, "train.src begins with"),
        ({"opt": None}, "models[0]: opt is None, expected options and their values"),
        ({"opt": {"beem_size": 1}}, "opt: unknown option '-beem_size', did you mean 'beam_size'?"),
        ({"opt": {"beam_size": "x"}}, "opt: beam_size is 'x', expected a whole number"),
        ({"opt": {"gpu": 0}}, "gpu is 0, but 0 GPUs are visible here"),
        ({"opt": {"report_align": True}}, "report_align can't be used with onmt_server"),
        ({"opt": {"self_attn_type": "average"}}, "self_attn_type is average, but"),
        ({"id": "x"}, "models[0]: id is 'x', expected a whole number"),
        ({"tokeniser": {}}, "models[0] has the unknown key 'tokeniser', expected id, model"),
        ({"tokenizer": {"type": "x"}}, "Invalid value for tokenizer type"),
        ({"preprocess": ["nowhere.function"]}, "No module named 'nowhere'"),
    ],
)
def test_a_bad_config_ends_the_server_at_once(trained, stock, tmp_path, change, sentence):
    model = {"id": 7, "model": "model_step_20.pt", "load": True, "opt": {**OPTIONS}, **change}
    model = {key: value for key, value in model.items() if value is not None}
    config = tmp_path / "server.json"
    config.write_text(json.dumps({"models_root": str(trained[0]), "models": [model]}))
    status, printed = stock("server", "--model_config", config)
    assert status == 2, printed
    assert sentence in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"models": [', "server.json isn't JSON"),
        ("[]", "server.json has no list of models"),
        ("{}", "server.json has no list of models"),
        ('{"models": [3]}', "models[0] is 3, expected model or models in it"),
        ('{"models": [], "root": "."}', "has the unknown key 'root', expected models_root, models"),
    ],
)
def test_a_config_that_is_none(stock, tmp_path, text, sentence):
    (tmp_path / "server.json").write_text(text)
    status, printed = stock("server", "--model_config", tmp_path / "server.json")
    assert status == 2, printed
    assert sentence in printed


def test_a_port_in_use_is_named(stock, tmp_path):
    (tmp_path / "server.json").write_text('{"models": []}')
    arguments = ("--model_config", tmp_path / "server.json", "--ip", "127.0.0.1", "--port")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, printed = stock("server", *arguments, port)
    assert status == 2, printed
    assert f"ip 127.0.0.1 and port {port} can't be listened on" in printed
    assert "port is 99999, expected 1 to 65535" in stock("server", *arguments, 99999)[1]


def serve_here(model, tmp_path, load=True):
    """A server of one model, number 1, in this process."""
    from onmt.translate import TranslationServer

    models = [{"id": 1, "model": model.name, "load": load, "opt": {**OPTIONS}}]
    config = tmp_path / "server.json"
    config.write_text(json.dumps({"models_root": str(model.parent), "models": models}))
    server = TranslationServer()
    server.start(config)
    return server


def test_a_model_that_fails_is_loaded_anew(trained, stock, tmp_path, monkeypatch):
    from onmt_define.opennmt.serving import TranslationFailed, answer_error

    server = serve_here(trained[0] / "model_step_20.pt", tmp_path)
    expected = server.run([{"id": 1, "src": "w1"}])[0]
    monkeypatch.setattr(server.models[1].translator, "_translate", lambda batches: 1 / 0)
    with pytest.raises(TranslationFailed) as failure:
        server.run([{"id": 1, "src": "w1"}])
    answer = {"error": "Error: division by zero", "status": "error"}
    assert answer_error(failure.value) == (answer, 500)
    assert server.run([{"id": 1, "src": "w1"}])[0] == expected


def test_a_sentence_that_is_too_long_is_the_request_s_mistake(trained, stock, tmp_path):
    from onmt_define.opennmt.server_checks import RequestError

    server = serve_here(trained[0] / "model_step_20.pt", tmp_path)
    translator = server.models[1].translator
    with pytest.raises(RequestError, match="a text has 6000 tokens, expected at most") as error:
        server.run([{"id": 1, "src": "w1 " * 6000}])
    assert error.value.status == 400
    server.run([{"id": 1, "src": "w1"}])
    assert server.models[1].translator is translator  # not loaded anew


def test_a_model_that_copies_is_served_and_names_its_own_words(toy, stock, tmp_path):
    """Stock OpenNMT-py doesn't prepare its batches for copying."""
    steps = ("-train_steps", "2", "-save_checkpoint_steps", "2", "-save_model", tmp_path / "m")
    status, printed = stock("train", "-config", "train.yaml", "-copy_attn", *steps)
    assert status == 0, printed
    server = serve_here(tmp_path / "m_step_2.pt", tmp_path)
    lines = (toy / "valid.src").read_text("utf-8").splitlines()[:3]
    served = server.run([{"id": 1, "src": line} for line in lines])[0]
    (tmp_path / "src").write_text("".join(f"{line}\n" for line in lines))
    settings = ("-beam_size", "1", "-max_length", "8", "-output", tmp_path / "hyp")
    status, printed = stock(
        *("translate", "-model", tmp_path / "m_step_2.pt", "-src", tmp_path / "src", *settings)
    )
    assert status == 0, printed
    assert served == (tmp_path / "hyp").read_text("utf-8").splitlines()


def test_a_model_that_could_not_be_loaded_can_be_later(trained, stock, tmp_path):
    from onmt_define.errors import UserError

    model, good = tmp_path / "m.pt", (trained[0] / "model_step_20.pt").read_bytes()
    model.write_bytes(good)
    server = serve_here(model, tmp_path, load=False)
    model.write_text("junk")
    for _ in range(2):
        with pytest.raises(UserError, match="begins with 'junk'"):
            server.run([{"id": 1, "src": "w1"}])
    model.write_bytes(good)
    assert server.run([{"id": 1, "src": "w1"}])[0]
