"""Answer over HTTP: `python scripts/serve.py topology=medium_leaf_spine scheduler=sjf`.

And a scheduler whose decisions come from there: `simulate scheduler=served`.
"""

import gc
import json
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from omegaconf import DictConfig

from gpuyard.evaluation.experiment import composition_of, experiment_of
from gpuyard.evaluation.jobs import MIB_PER_GIB, MILLI, warm_up
from gpuyard.evaluation.physics import ASKED
from gpuyard.launch.build import Rules, check_checkpoint, check_plain
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from sim.decision import Decision, Forward, Start
from sim.errors import GpuYardError
from sim.jobs import ANY_TYPE, Ask, ask_of
from sim.report.run_tables import server_names
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import Topology
from sim.view import ClusterView, Signal, state_of

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server


log = logging.getLogger(__name__)


SHORTEST_TOKEN = 16  # letters
MOST_PORT = 65535
SERVING: Rules = {
    "port": (True, 0),
    "max_body_bytes": (True, 1),
    "max_requests": (True, 1),
    "hold_s": (False, 0),
}


@program("serve")
def main(cfg: DictConfig) -> None:
    """Compose, warm up, answer until Ctrl-C."""
    launch = start(cfg)
    config = launch.config
    _check(config)
    token = token_of(config)
    listening = _listen(config["address"], config["port"])
    app = _app(config)
    launch.begin()
    server = _server(app, config, token)
    gc.freeze()  # what is here stays: collections pass it by, so they are short and come often
    host, port = listening.getsockname()[:2]
    where = f"[{host}]" if ":" in host else host
    listening.listen()  # who asks from now on waits no longer than the first answer takes
    print(f"answering at http://{where}:{port} (schema: /docs); Ctrl-C ends it", flush=True)
    server.run(sockets=[listening])
    log.info("stopped")


def _app(config: Mapping[str, Any]) -> "FastAPI":
    from gpuyard.serving.app import make_app
    from gpuyard.serving.board import Board
    from gpuyard.serving.decider import Decider
    from gpuyard.serving.instants import Defaults

    experiment = experiment_of(config)
    world = replace(experiment.world, outages=NO_OUTAGES)  # requests say who is away
    scheduler = composition_of(config, world.partitions)
    log.info("decides: %s", scheduler.name)
    defaults = Defaults(config["default_estimate_s"], config["default_profile"])
    decider = Decider(world, scheduler, defaults, experiment.seed)
    warm_up(world, scheduler, compiled=False)
    return make_app(decider, Board(decider, config["hold_s"]))


def _check(config: Mapping[str, Any]) -> None:
    """Refuse what would fail only at the first request.

    Raises:
        ConfigError: naming key, value and rule.
    """
    check_plain(config, SERVING)
    if config["reference_gpu"] == ASKED:
        raise ConfigError(
            f"reference_gpu is {ASKED!r}, for files of jobs: requests estimate as on one type"
        )
    if config["port"] > MOST_PORT:
        raise ConfigError(
            f"port is {config['port']}; the largest is {MOST_PORT}, 0 takes a free one"
        )
    check_checkpoint(config)
    if config["default_estimate_s"] is not None:
        check_plain(config, {"default_estimate_s": (False, 0)})
    if not isinstance(config["default_profile"], str | None):
        raise ConfigError(f"default_profile is {config['default_profile']!r}; it must be a name")


def token_of(config: Mapping[str, Any]) -> str | None:
    """What requests have to bear; None: nothing.

    Raises:
        ConfigError: others than this machine can ask, and there is none; or it is too short.
    """
    token, where = read_token(config["token_file"])
    if token is not None and not (len(token) >= SHORTEST_TOKEN and token.isascii()):
        raise ConfigError(
            f"{where}: the token has {len(token)} letters; it needs {SHORTEST_TOKEN} or more, of "
            "ASCII (openssl rand -hex 32 makes one)"
        )
    if token is None and not is_loopback(config["address"]):
        raise ConfigError(
            f"address is {config['address']!r}, which others can reach: requests need a token "
            f"then; set token_file=FILE or {TOKEN}, or leave address at 127.0.0.1"
        )
    return token


def is_loopback(host: object) -> bool:
    """Whether only this machine can ask there."""
    if host == "localhost":
        return True
    try:
        return ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _listen(host: object, port: int) -> socket.socket:
    """A listening socket, taken before anything is compiled.

    Raises:
        ConfigError: the address is none of this machine, or taken.
    """
    try:
        found = socket.getaddrinfo(str(host), port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise ConfigError(
            f"address={host} port={port}: {error.strerror}; choose others, port=0 takes a free one"
        ) from error
    return listening


def _server(app: "FastAPI", config: Mapping[str, Any], token: str | None) -> "Server":
    import uvicorn

    from gpuyard.serving.app import Guard, Patient

    class Quiet(uvicorn.Server):
        """Ends at Ctrl-C as a program that has done what it should."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Let SIGINT and SIGTERM end it once, and tell nobody else."""
            numbers = (signal.SIGINT, signal.SIGTERM)
            before = [signal.signal(number, self.handle_exit) for number in numbers]
            try:
                yield
            finally:
                for number, handler in zip(numbers, before, strict=True):
                    signal.signal(number, handler)

    guarded = Guard(app, token=token, max_body_bytes=config["max_body_bytes"])
    return Quiet(
        uvicorn.Config(
            guarded,
            http=Patient,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            limit_concurrency=config["max_requests"] + 1,  # refused from so many connections on
            timeout_graceful_shutdown=5,
        )
    )


TOKEN = "GPUYARD_TOKEN"


def read_token(path: str | None) -> tuple[str | None, str]:
    """Of a file, else of the environment, and where it is from; None: there is none.

    Raises:
        OSError: the file cannot be read.
    """
    if path is not None:
        return Path(path).read_text(encoding="utf-8").strip(), f"token_file={path}"
    token = os.environ.get(TOKEN)
    return None if token is None else token.strip(), TOKEN


OK = 200


class ServiceError(GpuYardError):
    """The service cannot be asked, or has no answer; the message says why."""


class Connection:
    """JSON to and from a service, over one connection that is kept."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        """`url` like `http://127.0.0.1:8023`.

        Raises:
            ServiceError: the URL is none.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ServiceError(f"url is {url!r}; it must be like http://127.0.0.1:8023")
        self._url = url
        self._http = HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of a route.

        Raises:
            ServiceError: there is none.
        """
        text = None if body is None else json.dumps(body)
        try:
            self._http.request(method, path, text, self._headers)
            reply = self._http.getresponse()
            answer = json.loads(reply.read())
        except (OSError, HTTPException, ValueError) as error:
            self._http.close()
            raise ServiceError(
                f"{self._url}{path}: {error or type(error).__name__}; does `gpuyard serve` run?"
            ) from error
        if reply.status != OK:
            raise ServiceError(f"{self._url}{path}: {answer.get('error', reply.status)}")
        return answer


class ServedScheduler:
    """Tells a service the cluster as it stands, and does what it says.

    With the same cluster, rules and seed on both sides its decisions are those of the scheduler
    that is served, if that one remembers nothing between decisions.
    """

    def __init__(self, *, url: str, token_file: str | None, timeout_s: float) -> None:
        """Ask what the service decides with; the token may be in GPUYARD_TOKEN, too.

        Raises:
            ServiceError: nobody answers.
        """
        self._service = Connection(url, read_token(token_file)[0], timeout_s)
        cluster = self._service.call("GET", "/cluster")
        self.name = f"served_{cluster['scheduler']}"
        self.needs = Signal.NONE
        for name in cluster["signals"]:
            self.needs |= Signal[name]
        self._tells_profile = "profile" in cluster["needs"]
        if self._tells_profile:
            self.needs |= Signal.PROFILE
        self._profiles = cluster["profiles"]
        self._servers = [(each["name"], each["gpus"]) for each in cluster["servers"]]
        self._topology: Topology | None = None  # that was compared with the service's
        self._turns: list[Decision] = []

    def reset(self, seed: int) -> None:
        """The service begins anew with its own seed at every request."""
        del seed
        self._turns = []

    def decide(self, view: ClusterView) -> Decision:
        """The orders of one turn; the service is asked at the first of an instant."""
        if not self._turns:
            self._turns = self._asked(view)
        return self._turns.pop(0)

    def _asked(self, view: ClusterView) -> list[Decision]:
        """The service's orders, turn by turn; job ids are rows.

        Raises:
            ServiceError: the service decides for another cluster, or does not answer.
        """
        if view.topology is not self._topology:
            self._check_cluster(view.topology)
        answer = self._service.call("POST", "/decide", self.request(view))
        last, turns = max(answer["turns"], 1) - 1, []
        for turn in range(last + 1):
            orders = [each for each in answer["decisions"] if each["turn"] == turn]
            turns.append(
                Decision(
                    starts=tuple(
                        Start(int(o["job"]), np.array(o["gpus"], np.int64), lease_s=o["lease_s"])
                        for o in orders if o["action"] == "start"
                    ),
                    preempts=tuple(int(o["job"]) for o in orders if o["action"] == "preempt"),
                    forwards=tuple(
                        Forward(int(each["job"]), each["partition"])
                        for each in orders if each["action"] == "forward"
                    ),
                    wake_s=answer["ask_again_s"] if turn == last else None,
                    again=turn < last,
                )
            )  # fmt: skip
        return turns

    def _check_cluster(self, topology: Topology) -> None:
        here = list(zip(server_names(topology), topology.gpus_per_server.tolist(), strict=True))
        if self._servers != here:
            there = sum(gpus for _, gpus in self._servers)
            raise ServiceError(
                f"the service decides for {len(self._servers)} servers with {there} GPUs in all, "
                f"and {topology.name} has {len(here)} with {topology.num_gpus}, or other names; "
                "give both the same topology"
            )
        self._topology = topology

    def request(self, view: ClusterView) -> dict[str, Any]:
        """What `/decide` takes of a view."""
        started_s = state_of(view).job["started_s"]
        order = sorted(view.running.tolist(), key=lambda job: (started_s[job], job))
        away, names = np.flatnonzero(view.server_closed), server_names(view.topology)
        return {
            "time_s": view.now_s,
            "queue": [
                self._job(view, job)
                | {
                    "gpus": int(view.jobs.num_gpus[job]),
                    "partition": int(view.jobs.partition[job]),
                    "progress_s": float(view.jobs.progress_s[job]),
                }
                for job in view.queued.tolist()
            ],
            "running": [
                self._job(view, job)
                | {
                    "placement": view.gpus_of(job).tolist(),
                    "started_s": float(started_s[job]),
                    "resume_s": float(view.jobs.resume_s[job]),
                    "progress_s": float(view.jobs.progress_s[job]),
                }
                for job in order
            ],
            "away": [str(names[server]) for server in away.tolist()],
        }

    def _job(self, view: ClusterView, job: int) -> dict[str, Any]:
        jobs = view.jobs
        form: dict[str, Any] = {
            "id": str(job),
            "submitted_s": float(jobs.submit_s[job]),
            "order": job,
            "attained_gpu_s": float(jobs.attained_gpu_s[job]),
            "restarts": int(jobs.restarts[job]),
            "forwards": int(jobs.forwards[job]),
        }
        if Signal.DURATION in self.needs:  # what is served takes an estimate for the truth
            form["estimate_s"] = float(jobs.duration_s[job])
        elif Signal.PREDICTION in self.needs:
            form["estimate_s"] = float(jobs.estimate_s[job])
        if self._tells_profile:
            form["profile"] = self._profiles[int(jobs.profile[job])]
        if jobs.demands is not None:
            form |= _demands(ask_of(jobs.demands, job), view.topology.gpu_types)
        if jobs.identity is not None and jobs.identity.user[job] >= 0:
            form["user"] = str(jobs.identity.user[job])
        return form


def _demands(ask: Ask, types: Sequence[str]) -> dict[str, Any]:
    """What a worker asks for, as /decide takes it."""
    form: dict[str, Any] = {
        "gpu_milli": ask.gpu_milli,
        "cores_per_gpu": ask.cpu_milli / MILLI,
        "memory_gib_per_gpu": ask.memory_mib / MIB_PER_GIB,
    }
    if ask.type_mask != ANY_TYPE:
        form["gpu_types"] = [name for t, name in enumerate(types) if ask.type_mask >> t & 1]
    return form
