"""Where it may listen, who may ask, what a body may not be, and how it ends."""

import signal
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

from gpuyard.launch.errors import ConfigError
from gpuyard.serving.app import Patient
from tests.serving.conftest import CLUSTER, ROOT, Service, environment, served

SECRET = "a-token-of-many-letters"


def refused(*words: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "scripts/serve.py", *words], cwd=ROOT, env=environment(**env),
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_others_need_a_token(tmp_path: Path):
    run = f"hydra.run.dir={tmp_path}"
    told = refused("address=0.0.0.0", "port=0", run)
    assert "address is '0.0.0.0'" in told and "GPUYARD_TOKEN" in told


def test_a_short_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from gpuyard.serving.serve import token_of

    path = tmp_path / "token"
    path.write_text("short\n")
    monkeypatch.delenv("GPUYARD_TOKEN", raising=False)
    with pytest.raises(ConfigError, match=r"token_file=.*: the token has 5 letters"):
        token_of({"token_file": str(path), "address": "127.0.0.1"})
    monkeypatch.setenv("GPUYARD_TOKEN", SECRET)
    assert token_of({"token_file": None, "address": "127.0.0.1"}) == SECRET
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        token_of({"token_file": str(path), "address": "127.0.0.1"})


def test_a_port_that_is_taken_is_named_before_anything_is_built(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refused(f"port={port}", f"hydra.run.dir={tmp_path}")
    assert f"address=127.0.0.1 port={port}: Address already in use" in told


def test_with_a_token_requests_bear_it_and_ctrl_c_ends_it(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    words = (*CLUSTER, f"token_file={path}", "address=0.0.0.0")
    with served(tmp_path, *words) as service:
        service.url = service.url.replace("0.0.0.0", "127.0.0.1")
        assert service.ask("GET", "/healthz") == {"status": "ok"}
        for given in ("", f"Bearer {SECRET}x", SECRET, f"Basic {SECRET}", f"Bearer{SECRET}"):
            service.headers = {"Authorization": given} if given else {}
            for path_asked in ("/cluster", "/openapi.json", "/nowhere"):
                told = service.ask("GET", path_asked)
                assert service.status == 401 and "Authorization: Bearer" in told["error"]
        for scheme in ("Bearer", "bearer", "BEARER "):
            service.headers = {"Authorization": f"{scheme} {SECRET}"}
            assert service.ask("GET", "/cluster")["gpus"] == 64
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(timeout=20) == 0
    told = (tmp_path / "err.txt").read_text()
    assert "stopped" in told and "Traceback" not in told
    assert SECRET not in (tmp_path / "config.yaml").read_text() + told


def test_as_many_connections_as_allowed_are_answered_and_no_more(tmp_path: Path):
    with served(tmp_path, *CLUSTER, "max_requests=1") as service:
        parts = urlsplit(service.url)
        one, two = (HTTPConnection(str(parts.hostname), parts.port, timeout=60) for _ in range(2))
        for http, status in ((one, 200), (two, 503)):
            http.request("GET", "/healthz")
            reply = http.getresponse()
            assert reply.status == status
            reply.read()
        one.close()
        two.close()


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.7", False), ("gpu-master", False)],
)  # fmt: skip
def test_loopback(address: str, own: bool):
    from gpuyard.serving.serve import is_loopback

    assert is_loopback(address) is own


async def answers(scope: Any, receive: Any, send: Any) -> None:
    del scope, receive
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body"})


def test_who_goes_on_asking_is_not_hung_up_on_but_who_stops_amid_a_request(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("gpuyard.serving.app.SILENT_S", 0.2)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(answers, http=Patient, lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        http = HTTPConnection(*listening.getsockname(), timeout=10)
        until_s = time.monotonic() + 0.6
        while time.monotonic() < until_s:
            http.request("GET", "/")
            assert http.getresponse().read() == b""
            time.sleep(0.01)
        assert http.sock is not None
        http.sock.sendall(b"GET /he")
        assert http.sock.recv(1) == b""
    finally:
        server.should_exit = True
        thread.join(timeout=20)
    assert not thread.is_alive()


@pytest.mark.slow
def test_who_says_nothing_or_half_of_it_keeps_nobody_out(tmp_path: Path):
    with served(tmp_path, *CLUSTER, "max_requests=2") as service:
        address = ("127.0.0.1", urlsplit(service.url).port)
        silent = [socket.create_connection(address, timeout=30) for _ in range(2)]
        silent[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: us\r\n\r\nGET /he")
        told = b""
        while not told.endswith(b'{"status":"ok"}'):
            told += silent[0].recv(999)
        silent[1].sendall(b"POST /decide HTTP/1.1\r\nHost: us\r\nContent-Length: 9\r\n\r\n{")
        assert silent[0].recv(1) == b""
        assert silent[1].recv(99).startswith(b"HTTP/1.1 408 ")
        assert service.ask("GET", "/healthz") == {"status": "ok"}


@pytest.mark.parametrize(("body", "words"), [
    ('{"time_s": 1, "time_s": 2}', "time_s: the key is given twice; send it once"),
    ('{"time_s": 1, "queue": [{"id": "a", "gpus": 1, "gpus": 2, "submitted_s": 0}]}',
     "gpus (job a): the key is given twice; send it once"),
    # Colons and escapes in strings are no keys.
    ('{"time_s": 1, "queue": [{"id": "a:\\u003ab", "user": "x", "user": ":"}]}',
     "user (job a::b): the key is given twice; send it once"),
    ('{"time_s": NaN, "time_s": 2}', "time_s: the key is given twice; send it once"),
])  # fmt: skip
def test_a_key_that_is_given_twice_is_refused(service: Service, body: str, words: str):
    for method, path in (("POST", "/decide"), ("PUT", "/state")):
        assert service.refusal(path, body, method=method) == words


def test_colons_in_names_are_no_second_keys(service: Service):
    waits = {"id": "a:b::", "user": "c:", "gpus": 1, "submitted_s": 0, "estimate_s": 60}
    runs = {"id": ":", "servers": {"0": 1}, "started_s": 0, "estimate_s": 60}
    answer = service.ask("POST", "/decide", {"time_s": 1, "queue": [waits], "running": [runs]})
    assert [order["job"] for order in answer["decisions"]] == ["a:b::"]
