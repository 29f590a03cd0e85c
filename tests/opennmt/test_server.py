"""`onmt_server` with a DeFINE model: a request over HTTP, and a bad file that it only names."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from paths import BIN

pytestmark = pytest.mark.slow


@pytest.fixture
def server(trained, tmp_path):
    """Address of a running server of the toy model; ends with the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"beam_size": 1, "max_length": 8, "gpu": -1}
    models = [{"id": 7, "model": "model_step_20.pt", "load": True, "opt": options}]
    config = tmp_path / "server.json"
    config.write_text(json.dumps({"models_root": str(trained[0]), "models": models}))
    process = subprocess.Popen(
        [BIN / "onmt_server", "--ip", "127.0.0.1", "--port", str(port), "--model_config", config],
        cwd=trained[0],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield f"http://127.0.0.1:{port}/translator"
    finally:
        process.kill()
        process.communicate()


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
    for _ in range(120):
        try:
            assert request(f"{server}/health") == {"status": "ok"}
            break
        except urllib.error.URLError:
            time.sleep(0.5)
    answer = request(f"{server}/translate", [{"id": 7, "src": line} for line in lines])
    served = [translation["tgt"] for translation in answer[0]]
    assert served == (tmp_path / "hyp").read_text("utf-8").splitlines()
