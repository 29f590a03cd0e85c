"""Downloads against a real server on 127.0.0.1 that misbehaves in all the ways real ones do."""

import gzip
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from onmt_define.errors import UserError
from onmt_define.workflow import downloads, progress
from onmt_define.workflow.downloads import Mirror, at_mirror, fetch

CONTENT = bytes(range(256)) * 2000
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
HALF = len(CONTENT) // 2


class Server(ThreadingHTTPServer):
    """Answers each path with the behaviour set for it and remembers the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviours: dict[str, Callable[[Handler], None]] = {}
        self.requests: Counter[str] = Counter()
        self.ranges: list[str | None] = []

    def at(self, path: str, behaviour: Callable[["Handler"], None]) -> str:
        """Set the behaviour of a path and return its URL."""
        self.behaviours[path] = behaviour
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests[self.path] += 1
        self.server.ranges.append(self.headers.get("Range"))
        self.server.behaviours.get(self.path, missing)(self)

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def missing(handler: Handler) -> None:
    handler.answer(404)


def whole(handler: Handler) -> None:
    handler.answer(200, CONTENT)


def ranged(handler: Handler) -> None:
    requested = handler.headers.get("Range")
    if requested is None:
        whole(handler)
        return
    start = int(requested.removeprefix("bytes=").removesuffix("-"))
    content_range = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
    handler.answer(206, CONTENT[start:], Content_Range=content_range)


def wrong_byte(handler: Handler) -> None:
    handler.answer(200, CONTENT[:-1] + b"?")


def cut_short(then: Callable[[Handler], None] | None) -> Callable[[Handler], None]:
    """Close the connection half-way, every time or only the first."""

    def behaviour(handler: Handler) -> None:
        if then and handler.server.requests[handler.path] > 1:
            then(handler)
        else:
            handler.answer(200, CONTENT[:HALF], Content_Length=str(len(CONTENT)))

    return behaviour


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(downloads, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "füße und text" / "file.bin"


def only_file_in_its_folder(path: Path) -> bool:
    """Whether nothing but the file, its lock and its origin is there: no `.part` left over."""
    beside = {f".{path.name}.lock", f".{path.name}.origin"}
    return {each.name for each in path.parent.iterdir()} <= {path.name, *beside}


def test_fetches_checks_and_says_where_from(server: Server, destination: Path) -> None:
    url = server.at("/file.bin", whole)
    assert fetch([Mirror(url, SHA256, len(CONTENT))], destination) == url
    assert destination.read_bytes() == CONTENT
    assert only_file_in_its_folder(destination)


def test_right_file_is_not_fetched_again_but_a_wrong_one_is(
    server: Server, destination: Path
) -> None:
    mirror = Mirror(server.at("/file.bin", whole), SHA256)
    destination.parent.mkdir()
    destination.write_bytes(b"left by something else")
    fetch([mirror], destination)
    assert destination.read_bytes() == CONTENT
    fetch([mirror], destination)
    assert server.requests["/file.bin"] == 1


def test_identifies_itself(server: Server, destination: Path) -> None:
    def only_for_us(handler: Handler) -> None:
        agent = handler.headers["User-Agent"]
        friendly = agent.startswith("Mozilla/5.0") and "onmt_define/" in agent
        handler.answer(200, CONTENT) if friendly else handler.answer(403)

    url = server.at("/file.bin", only_for_us)
    assert httpx.get(url).status_code == 403
    fetch([Mirror(url, SHA256)], destination)
    assert destination.read_bytes() == CONTENT


def test_follows_redirects(server: Server, destination: Path) -> None:
    server.at("/real", whole)
    url = server.at("/file.bin", lambda handler: handler.answer(302, Location="/real"))
    fetch([Mirror(url, SHA256)], destination)
    assert destination.read_bytes() == CONTENT


def test_tries_again_after_a_server_error(server: Server, destination: Path) -> None:
    def fails_twice(handler: Handler) -> None:
        handler.answer(500) if server.requests[handler.path] <= 2 else whole(handler)

    fetch([Mirror(server.at("/file.bin", fails_twice), SHA256)], destination)
    assert server.requests["/file.bin"] == 3


def test_does_not_insist_on_a_missing_file(server: Server, destination: Path) -> None:
    url = server.at("/file.bin", missing)
    with pytest.raises(UserError, match=r"could not get file\.bin \(http.*: HTTP 404 Not Found\)"):
        fetch([Mirror(url)], destination)
    assert server.requests["/file.bin"] == 1
    assert not destination.exists()


def test_cut_connection_is_resumed_where_the_server_can(server: Server, destination: Path) -> None:
    fetch([Mirror(server.at("/file.bin", cut_short(ranged)), SHA256)], destination)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={HALF}-"]


def test_server_that_ignores_the_range_starts_over(server: Server, destination: Path) -> None:
    fetch([Mirror(server.at("/file.bin", cut_short(whole)), SHA256)], destination)
    assert destination.read_bytes() == CONTENT


def test_server_that_refuses_the_range_starts_over(server: Server, destination: Path) -> None:
    def refuses_ranges(handler: Handler) -> None:
        handler.answer(416) if handler.headers.get("Range") else whole(handler)

    fetch([Mirror(server.at("/file.bin", cut_short(refuses_ranges)), SHA256)], destination)
    assert destination.read_bytes() == CONTENT


def test_gives_up_on_a_server_that_never_finishes(server: Server, destination: Path) -> None:
    with pytest.raises(UserError, match="5 tries"):
        fetch([Mirror(server.at("/file.bin", cut_short(None)), SHA256)], destination)
    assert not destination.exists()


def test_stalled_server_is_left_for_the_next(
    server: Server, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "TIMEOUT", httpx.Timeout(0.05))
    stop = threading.Event()
    stalled = Mirror(server.at("/stalled", lambda _: stop.wait(10)))
    good = Mirror(server.at("/good", whole), SHA256)
    assert fetch([stalled, good], destination) == good.location
    stop.set()
    assert server.requests["/stalled"] == downloads.TRIES_WITHOUT_PROGRESS


def test_stall_in_the_middle_is_resumed(
    server: Server, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "TIMEOUT", httpx.Timeout(0.3))
    stop = threading.Event()

    def stalls_once(handler: Handler) -> None:
        if handler.headers.get("Range"):
            ranged(handler)
        else:
            handler.answer(200, CONTENT[:HALF], Content_Length=str(len(CONTENT)))
            stop.wait(10)

    fetch([Mirror(server.at("/file.bin", stalls_once), SHA256)], destination)
    stop.set()
    assert destination.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={HALF}-"]


def start(mirrors: list[Mirror], destination: Path, before: str = "") -> subprocess.Popen[str]:
    """A process of its own that fetches, after some statements; it prints a refusal alone."""
    program = (
        "import pathlib, resource, signal\n"
        "from onmt_define.errors import exit_on_user_error\n"
        "from onmt_define.workflow import downloads\n"
        f"from onmt_define.workflow.downloads import Mirror\n{before}\n"
        f"path = pathlib.Path({str(destination)!r})\n"
        f"with exit_on_user_error(): downloads.fetch({mirrors!r}, path)"
    )
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)


def test_goes_on_after_being_killed_half_way(server: Server, destination: Path) -> None:
    half_sent, killed = threading.Event(), threading.Event()

    def waits_at_half(handler: Handler) -> None:
        if handler.headers.get("Range"):
            ranged(handler)
        else:
            handler.answer(200, CONTENT[:HALF], Content_Length=str(len(CONTENT)))
            half_sent.set()
            killed.wait(30)

    mirror = Mirror(server.at("/file.bin", waits_at_half), SHA256, len(CONTENT))
    process = start([mirror], destination)
    assert half_sent.wait(60)
    part = downloads._part_of(destination, mirror)
    while not part.exists() or not part.stat().st_size:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    killed.set()
    assert not destination.exists()
    kept = part.stat().st_size
    assert fetch([mirror], destination) == mirror.location
    assert destination.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={kept}-"]
    assert only_file_in_its_folder(destination)


def test_full_disk_is_one_sentence(server: Server, destination: Path) -> None:
    """No file may become larger than half of this one: a write fails as on a full disk."""
    mirror = Mirror(server.at("/file.bin", ranged), SHA256)
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({HALF}, {HALF}))"
    process = start([mirror], destination, limit)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 2
    assert messages.startswith("error: cannot write ")
    assert messages.endswith(": File too large\n")
    assert messages.count("\n") == 1
    assert not destination.exists()
    fetch([mirror], destination)
    assert destination.read_bytes() == CONTENT


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a disk of its own")
def test_really_full_disk(server: Server, tmp_path: Path) -> None:
    url = server.at("/file.bin", whole)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk])
    if mounted.returncode != 0:
        pytest.skip("mounting isn't allowed here")
    try:
        with pytest.raises(UserError, match=r"cannot write .*: No space left on device"):
            fetch([Mirror(url, SHA256)], disk / "file.bin")
        assert not (disk / "file.bin").exists()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_mirror_with_another_archive(server: Server, destination: Path) -> None:
    """Packed anew it passes by its own checksum; with the original's it is refused."""
    packed = gzip.compress(CONTENT)
    repacked = server.at("/repacked", lambda handler: handler.answer(200, packed))
    gone = Mirror(server.at("/gone", missing), SHA256, len(CONTENT))
    with pytest.raises(UserError, match=r"gone: HTTP 404.*repacked: wrong sha256"):
        fetch([gone, Mirror(repacked, SHA256)], destination)
    assert not destination.exists()
    own = f"sha256:{hashlib.sha256(packed).hexdigest()}"
    assert fetch([gone, Mirror(repacked, own, len(packed))], destination) == repacked
    assert destination.read_bytes() == packed


def test_part_that_nothing_could_check_is_not_continued(server: Server, destination: Path) -> None:
    mirror = Mirror(server.at("/file.bin", ranged))
    part = downloads._part_of(destination, mirror)
    part.parent.mkdir()
    part.write_bytes(b"x" * 1000)
    fetch([mirror], destination)
    assert destination.read_bytes() == CONTENT


def test_log_gets_a_line_now_and_then(
    server: Server,
    destination: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mirror = Mirror(server.at("/file.bin", whole), SHA256)
    fetch([mirror], destination)
    assert capsys.readouterr().err == ""
    destination.unlink()
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    fetch([mirror], destination)
    assert "downloading file.bin: 1 of 1 MB" in capsys.readouterr().err


def test_part_of_an_earlier_run_is_continued(server: Server, destination: Path) -> None:
    mirror = Mirror(server.at("/file.bin", ranged), SHA256)
    part = downloads._part_of(destination, mirror)
    part.parent.mkdir()
    part.write_bytes(CONTENT[:1000])
    fetch([mirror], destination)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-"]
    assert only_file_in_its_folder(destination)


def test_part_of_an_older_version_is_thrown_away(server: Server, destination: Path) -> None:
    mirror = Mirror(server.at("/file.bin", ranged), SHA256)
    part = downloads._part_of(destination, mirror)
    part.parent.mkdir()
    part.write_bytes(b"x" * 1000)
    fetch([mirror], destination)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-", None]


def test_part_of_one_mirror_is_not_continued_from_another(
    server: Server, destination: Path
) -> None:
    first = Mirror(server.at("/a/file.bin", missing), SHA256)
    second = Mirror(server.at("/b/file.bin", ranged), SHA256)
    part = downloads._part_of(destination, first)
    part.parent.mkdir()
    part.write_bytes(CONTENT[:1000])
    assert fetch([first, second], destination) == second.location
    assert server.ranges == ["bytes=1000-", None]
    assert only_file_in_its_folder(destination)


def test_a_file_that_is_there_keeps_its_origin(server: Server, destination: Path) -> None:
    first = Mirror(server.at("/a/file.bin", missing), SHA256)
    second = Mirror(server.at("/b/file.bin", whole), SHA256)
    for mirrors in ([first, second], [first, second], [second]):
        assert fetch(mirrors, destination) == second.location
    assert fetch([first], destination) == first.location


@pytest.mark.parametrize("bad", [missing, wrong_byte])
def test_second_mirror_helps_out(
    server: Server, destination: Path, bad: Callable[[Handler], None]
) -> None:
    first = Mirror(server.at("/a/file.bin", bad), SHA256)
    second = Mirror(server.at("/b/file.bin", whole), SHA256)
    assert fetch([first, second], destination) == second.location
    assert destination.read_bytes() == CONTENT


def test_every_mirror_and_its_failure_is_named(server: Server, destination: Path) -> None:
    mirrors = [
        Mirror(server.at("/a/file.bin", wrong_byte), SHA256),
        Mirror(server.at("/b/file.bin", missing), SHA256),
        Mirror(server.at("/c/file.bin", whole), SHA256, size=12),
    ]
    with pytest.raises(UserError) as error:
        fetch(mirrors, destination)
    message = str(error.value)
    assert f"{mirrors[0].location}: wrong sha256" in message
    assert f"{mirrors[1].location}: HTTP 404" in message
    assert f"{mirrors[2].location}: 512,000 bytes instead of 12" in message
    assert "`mirror:`" in message
    assert not destination.exists()
    assert only_file_in_its_folder(destination)


def test_unreachable_host_is_a_plain_sentence(server: Server, destination: Path) -> None:
    with pytest.raises(UserError, match="5 tries"):
        fetch([Mirror("http://127.0.0.1:1/file.bin", SHA256)], destination)


def test_content_counts_where_packing_varies(server: Server, destination: Path) -> None:
    """A .gz of the same text passes however it was packed; even when declared as an encoding."""

    def gzipped(handler: Handler) -> None:
        handler.answer(200, gzip.compress(CONTENT, 1), Content_Encoding="gzip")

    fetch([Mirror(server.at("/file.bin", gzipped))], destination, content_checksum=SHA256)
    assert gzip.decompress(destination.read_bytes()) == CONTENT


def test_wrong_or_damaged_content_is_refused(server: Server, destination: Path) -> None:
    packed = gzip.compress(CONTENT)
    wrong = server.at("/wrong", lambda handler: handler.answer(200, gzip.compress(b"else")))
    damaged = server.at("/damaged", lambda handler: handler.answer(200, packed[:-20]))
    with pytest.raises(UserError, match=r"wrong: wrong sha256.*damaged: damaged"):
        fetch([Mirror(wrong), Mirror(damaged)], destination, content_checksum=SHA256)
    assert not destination.exists()


def test_two_processes_fetch_once(server: Server, destination: Path) -> None:
    mirror = Mirror(server.at("/file.bin", whole), SHA256)
    processes = [start([mirror], destination) for _ in range(2)]
    for process in processes:
        _, messages = process.communicate(timeout=60)
        assert process.returncode == 0, messages
    assert destination.read_bytes() == CONTENT
    assert server.requests["/file.bin"] == 1


class TestMirrorKey:
    """The rule of the config's `mirror:`."""

    ORIGINAL = Mirror("https://example.org/wmt14/test%20set.tgz", SHA256, len(CONTENT))

    @pytest.mark.parametrize("place", ["corpus/test set.tgz", "wmt14/test set.tgz", "test set.tgz"])
    def test_local_folder(self, tmp_path: Path, destination: Path, place: str) -> None:
        path = tmp_path / "mirror" / place
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT)
        mirrors = at_mirror([self.ORIGINAL], str(tmp_path / "mirror"), "corpus")
        assert fetch(mirrors, destination) == str(path)
        assert destination.read_bytes() == CONTENT

    def test_server(self, server: Server, destination: Path) -> None:
        base = server.at("/files", missing)
        server.at("/files/test%20set.tgz", whole)
        fetch(at_mirror([self.ORIGINAL], f"{base}/"), destination)
        assert destination.read_bytes() == CONTENT

    def test_checksum_still_holds(self, tmp_path: Path, destination: Path) -> None:
        (tmp_path / "test set.tgz").write_bytes(CONTENT[:-1] + b"?")
        with pytest.raises(UserError, match="wrong sha256"):
            fetch(at_mirror([self.ORIGINAL], str(tmp_path)), destination)
        assert not destination.exists()

    def test_nothing_else_is_asked(self, server: Server, tmp_path: Path, destination: Path) -> None:
        original = Mirror(server.at("/file.bin", whole), SHA256)
        with pytest.raises(UserError, match="not there"):
            fetch(at_mirror([original], str(tmp_path)), destination)
        assert not server.requests

    def test_text_may_be_packed_otherwise(self) -> None:
        original = Mirror("https://example.org/raw/a.en.gz", SHA256)
        mirrors = at_mirror([original], "http://m", "corpus", any_compression=True)
        assert [mirror.location for mirror in mirrors] == [
            "http://m/corpus/a.en.gz",
            "http://m/corpus/a.en",
            "http://m/corpus/a.en.xz",
            "http://m/raw/a.en.gz",
            "http://m/raw/a.en",
            "http://m/raw/a.en.xz",
            "http://m/a.en.gz",
            "http://m/a.en",
            "http://m/a.en.xz",
        ]
        assert all(mirror.checksum is None for mirror in mirrors)

    @pytest.mark.parametrize("place", ["ftp://example.org", "/no/such/folder"])
    def test_wrong_place_is_a_plain_sentence(self, place: str) -> None:
        with pytest.raises(UserError, match="mirror: "):
            at_mirror([self.ORIGINAL], place)
