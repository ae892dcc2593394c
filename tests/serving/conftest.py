"""A real service in a process of its own, on a free port."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection
from json import dumps, loads
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpuyard.evaluation.experiment import composition_of, experiment_of
from gpuyard.launch.build import resolve
from gpuyard.serving.board import Board
from gpuyard.serving.decider import Decider
from gpuyard.serving.forms import AnswerForm, Pod, StateForm, read
from gpuyard.serving.instants import Defaults

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ("topology=small_leaf_spine", "scheduler=sjf")
NODES = [str(server) for server in range(8)]


def pod(name: str, gpus: object = 1, containers: Any = None, **annotations: str) -> dict[str, Any]:
    told = {f"gpuyard.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    own = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    return {
        "metadata": {"name": name, "annotations": {"gpuyard.dev/estimate-s": "60"} | told},
        "spec": {"containers": own if containers is None else containers},
    }


@dataclass
class Service:
    """Where it answers, and how it is asked; `status` is of the last answer."""

    url: str
    process: "subprocess.Popen[str]"
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return loads(self.text(path, method, body, **headers))

    def text(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> str:
        raw = body is None or isinstance(body, str | Iterator)
        text = body if raw else dumps(body)
        parts = urlsplit(self.url)
        http = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        given = {"Content-Type": "application/json"} | self.headers | headers
        http.request(method, path, text, given)
        reply = http.getresponse()
        self.status, told = reply.status, reply.read()
        http.close()
        return told.decode(errors="replace")

    def refusal(self, path: str, body: Any, status: int = 422, method: str = "POST") -> str:
        told = self.ask(method, path, body)
        assert self.status == status, told
        return told["error"]


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"DEBUG", "GPUYARD_TOKEN"}}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | more


@contextmanager
def served(folder: Path, *words: str, **env: str) -> Iterator[Service]:
    command = [sys.executable, "scripts/serve.py", "port=0", f"hydra.run.dir={folder}", *words]
    with (folder / "err.txt").open("w") as err:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(**env), stdout=subprocess.PIPE, stderr=err, text=True
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert "answering at" in line, (folder / "err.txt").read_text()
        yield Service(line.split()[2], process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        process.stdout.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """SJF on 64 GPUs; one for all tests, which leave no state behind that others read."""
    folder = tmp_path_factory.mktemp("serve")
    with served(folder, *CLUSTER, "max_body_bytes=20000") as service:
        yield service


@pytest.fixture
def fresh(service: Service) -> Service:
    """The service, told that the cluster is empty and that what it answered is over."""
    service.ask("PUT", "/state", {"time_s": 1e9})  # by another clock than the next
    service.ask("PUT", "/state", {"time_s": 0})
    told = service.ask("GET", "/state")
    over = [
        {"id": job["id"], "placement": [at], "started_s": 0, "estimate_s": 0}
        for at, job in enumerate(told["running"] + told["queue"])
    ]
    service.ask("PUT", "/state", {"time_s": 0, "running": over})  # which confirms the answers
    service.ask("PUT", "/state", {"time_s": 0})
    told = service.ask("GET", "/state")
    assert (told["running"], told["queue"]) == ([], [])
    return service


@pytest.fixture(scope="session")
def configured() -> Callable[..., dict[str, Any]]:
    """The resolved configuration of `simulate`, as `gpuyard` would make it."""
    from hydra import compose, initialize_config_dir

    @cache
    def composed(*words: str) -> dict[str, Any]:
        with initialize_config_dir(str(ROOT / "conf"), version_base=None):
            return resolve(compose("simulate", overrides=list(words)))

    return lambda *words: deepcopy(composed(*words))


class Talk:
    """A board on 64 GPUs, whose answers hold 50 s, told states and asked for pods at `now_s`."""

    def __init__(self, config: dict[str, Any], now_s: float) -> None:
        scheduler, experiment = composition_of(config, 1), experiment_of(config)
        defaults = Defaults(None, None, experiment.setting.also)
        self.decider = Decider(experiment.world, scheduler, defaults, 0)
        self.now_s = now_s
        self.board = Board(self.decider, hold_s=50.0, clock=lambda: self.now_s)

    def decide(self, state: dict[str, Any]) -> AnswerForm:
        return self.decider.decide(StateForm.model_validate(state))

    def tell(self, *running: dict[str, Any], time_s: float = 100.0, **more: Any) -> AnswerForm:
        told = {"time_s": time_s, "running": list(running)} | more
        return self.board.tell(StateForm.model_validate(told))

    def ask(self, name: str, gpus: int, nodes: list[str] = NODES, **more: str) -> Any:
        return self.board.ask(read(Pod.model_validate(pod(name, gpus, **more))), nodes)

    def servers(self, *names: str, gpus: int = 8, **more: str) -> list[str | None]:
        return [self.ask(name, gpus, **more).server for name in names]

    def held(self) -> dict[str, int]:
        """GPUs of each job that runs."""
        return {job.id: len(job.placement) for job in self.board.state().running}


def job(name: str, servers: Any, **more: float) -> dict[str, Any]:
    """One that runs: GPUs by server, or servers that it has whole."""
    held = servers if isinstance(servers, dict) else dict.fromkeys(servers, 8)
    return {"id": name, "servers": held, "started_s": 0.0, "estimate_s": 60.0} | more


@pytest.fixture
def talk(configured: Callable[..., Any]) -> Callable[..., Talk]:
    def begun(*words: str, scheduler: str = "sjf", now_s: float = 100.0) -> Talk:
        config = configured("topology=small_leaf_spine", f"scheduler={scheduler}", *words)
        return Talk(config, now_s)

    return begun
