"""`rankwright serve` as a process: it starts, answers, reloads and ends; and its mistakes of one line."""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from tests.serving.served import linear

import rankwright
from rankwright.cli import serve
from rankwright.cli.main import main
from rankwright.serving.http import bind

PROGRAM = "import sys; from rankwright.cli.main import program; sys.exit(program())"
SOURCE = str(Path(rankwright.__file__).parents[1])


@pytest.fixture
def started(folder):
    """A function that starts the service; what it started ends with the test."""
    processes = []

    def start(*options):
        words = [sys.executable, "-c", PROGRAM, "serve", *map(str, options), "--port", "0"]
        environment = os.environ | {"PYTHONPATH": SOURCE}
        pipe = subprocess.PIPE
        process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=environment)
        processes.append(process)
        with selectors.DefaultSelector() as selector:  # select.select refuses what is opened after 1,024 files
            selector.register(process.stdout, selectors.EVENT_READ)
            ready = selector.select(120)
        line = process.stdout.readline() if ready else ""
        assert line.startswith("listening at http://"), process.stderr.read() if process.poll() is not None else line
        return process, line.split()[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def without_compiling(said):
    """The lines of a service, whether or not it was the first one on this machine."""
    return [line for line in said.splitlines() if not line.startswith("compiling ")]


def until(condition):
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_day_of_the_service(started, folder):
    process, address = started("docs.index", "--model", "linear.rkw", "--model", "trees.rkw", "--reload", "1")
    assert address.startswith("http://127.0.0.1:")
    with httpx.Client(base_url=address) as http:
        assert http.get("/health").json()["status"] == "ok"
        assert len(http.get("/search", params={"q": "wing", "k": 3}).json()["results"]) == 3
        assert http.get("/", headers={"host": "evil.example"}).status_code == 421
        row = {"features": {"rows": [[1, 0, 0]]}, "ranker": "linear"}
        assert http.post("/rank", json=row).json()["scores"] == [1.0]
        linear(folder / "linear.rkw", [4.0, 0.0, 0.0])
        assert until(lambda: http.post("/rank", json=row).json()["scores"] == [4.0])
        (folder / "linear.rkw").write_bytes(b"broken")
        process.send_signal(signal.SIGHUP)
        assert until(lambda: http.get("/health").json()["status"] == "stale")
        assert http.post("/rank", json=row).json()["scores"] == [4.0]
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    first, *lines, last = without_compiling(said)
    assert first.startswith("ready after ")
    assert first.endswith("linear, trees, bm25")
    assert last == "ended"
    events = [json.loads(line) for line in lines]
    assert {"loaded", "not loaded"} <= {event.get("event") for event in events}
    assert sum(event.get("event") == "not loaded" for event in events) <= 2  # the new file, and the signal
    asked = [event for event in events if "path" in event]
    assert {"time", "method", "path", "status", "ms"} <= set(asked[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_requests_under_way_are_finished(started, folder, number):
    process, address = started("--model", "linear.rkw", "--quiet", "--reload", "0")
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    body = json.dumps({"features": {"rows": [[1, 0, 0]]}}).encode()
    head = (
        f"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    with socket.create_connection((host, int(port))) as line:
        line.sendall(head.encode() + b"\r\n" + body[:5])
        time.sleep(0.3)  # it has begun
        process.send_signal(number)
        time.sleep(0.3)
        line.sendall(body[5:])
        line.settimeout(30)
        answer = b""
        while piece := line.recv(4096):
            answer += piece
    assert b"200 OK" in answer
    assert b'"scores":[1.0]' in answer
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert without_compiling(said)[1:] == ["ended"]


def test_a_body_that_is_too_long(started):
    _, address = started("--model", "linear.rkw", "--most-bytes", "1000", "--reload", "0")
    for body in (b" " * 5_000_000, iter([b" " * 600] * 5)):  # announced, and in pieces
        try:
            response = httpx.post(address + "rank", content=body, headers={"content-type": "application/json"})
        except httpx.WriteError:  # the service closed the connection while the rest was on its way
            continue
        assert response.status_code == 413
    assert httpx.get(address + "health").json()["status"] == "ok"


def test_malformed_http(started):
    process, address = started("--model", "linear.rkw")
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    for sent in (b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nHost: a\r\nBad Header\r\n\r\n"):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(sent)
            line.settimeout(30)
            assert line.recv(4096).startswith(b"HTTP/1.1 4")
    assert httpx.get(address + "health").status_code == 200
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    for text in without_compiling(said)[1:-1]:
        json.loads(text)


def test_trying(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["serve", "docs.index", "--model", "trees.rkw", "--function", "jm", "--port", "0", "--try"]) == 0
    assert capsys.readouterr().err.endswith("s: trees, jm\n")
    assert main(["serve", "--model", "trees.rkw", "--host", "0.0.0.0", "--port", "0", "--try"]) == 0
    assert "it asks for no password" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to serve; expected INDEX, --model, or both"),
        (["--model", "nothing.rkw"], "nothing.rkw"),
        (["--model", "docs.index"], "docs.index: not a Rankwright model"),
        (["linear.rkw"], "linear.rkw: not a Rankwright index"),
        (["--model", "linear.rkw", "--function", "bm25"], "expected INDEX"),
        (["docs.index", "--function", "bm26"], "unknown retrieval function 'bm26'"),
        (["docs.index", "--analyzer", "nothing"], "unknown analyser 'nothing'"),
        (["docs.index", "--seconds", "-1"], "--seconds is '-1'; expected a number above 0"),
        (["docs.index", "--port", "99999"], "--port"),
        (["docs.index", "--host", "no.such.host.invalid"], "--host is 'no.such.host.invalid'"),
    ],
)
def test_mistakes(folder, monkeypatch, capsys, words, said):
    monkeypatch.chdir(folder)
    assert main(["serve", *words, "--try"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_port_in_use(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert main(["serve", "--model", "linear.rkw", "--port", str(other.getsockname()[1]), "--try"]) == 2
    assert "Address already in use; another --port may be free" in capsys.readouterr().err


def test_answers_are_sent_at_once():
    with bind("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP  # otherwise asyncio leaves Nagle's algorithm on


def test_without_the_extra(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(serve, "_NEEDED", ("starlette", "no_such_package"))
    assert main(["serve", "docs.index"]) == 2
    assert "serve needs no_such_package; expected: pip install 'rankwright[serve]'" in capsys.readouterr().err
