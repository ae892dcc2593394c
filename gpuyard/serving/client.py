"""A scheduler whose decisions come from a service: `simulate scheduler=served`."""

import json
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from gpuyard.evaluation.jobs import MIB_PER_GIB, MILLI
from gpuyard.serving.serve import read_token
from sim.decision import Decision, Forward, Start
from sim.errors import GpuYardError, amount
from sim.jobs import ANY_TYPE, Ask, ask_of
from sim.report.run_tables import server_names
from sim.topology.topology import Topology
from sim.view import ClusterView, Signal, state_of


class ServiceError(GpuYardError):
    """The service cannot be asked, or has no answer; the message says why."""


IDLE_S = 2.0  # of a connection that may have been closed by the service, which waits for 5


class Connection:
    """JSON to and from a service, over one connection that is kept."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        """ServiceError: `url` is not like `http://127.0.0.1:8023`."""
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ServiceError(f"url is {url!r}; it must be like http://127.0.0.1:8023")
        self._url, self._used_s = url, time.monotonic()
        self._http = HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of a route; ServiceError: there is none."""
        text = None if body is None else json.dumps(body)
        try:
            if time.monotonic() - self._used_s > IDLE_S:
                self._http.close()  # the next request opens another
            self._http.request(method, path, text, self._headers)
            reply, self._used_s = self._http.getresponse(), time.monotonic()
            answer = json.loads(reply.read())
        except (OSError, HTTPException, ValueError) as error:
            self._http.close()
            raise ServiceError(
                f"{self._url}{path}: {error or type(error).__name__}; does `gpuyard serve` run?"
            ) from error
        if reply.status != HTTPStatus.OK:
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
        self._cluster = cluster
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
        """The service's orders, turn by turn; job ids are rows."""
        if view.topology is not self._topology:
            self._check_cluster(view)
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

    def _check_cluster(self, view: ClusterView) -> None:
        theirs, topology = self._cluster, view.topology
        here = list(zip(server_names(topology), topology.gpus_per_server.tolist(), strict=True))
        there = [(each["name"], each["gpus"]) for each in theirs["servers"]]
        if there != here:
            raise ServiceError(
                f"the service decides for {amount(len(there), 'server')} with "
                f"{sum(n for _, n in there)} GPUs in all, and {topology.name} has {len(here)} with "
                f"{topology.num_gpus}, or other names; give both the same topology"
            )
        ours = {"partitions": view.num_partitions, "max_tenants": state_of(view).tenant.shape[1]}
        for key, mine in ours.items():
            if theirs[key] != mine:
                word = "agents.count" if key == "partitions" else key
                raise ServiceError(
                    f"the service has {word}={theirs[key]}, this run {mine}; give both the same"
                )
        self._topology = topology

    def request(self, view: ClusterView) -> dict[str, Any]:
        """What `/decide` takes of a view."""
        started_s, ready_s = (state_of(view).job[name] for name in ("started_s", "ready_s"))
        order = sorted(view.running.tolist(), key=lambda job: (started_s[job], job))
        away, names = np.flatnonzero(view.server_closed), server_names(view.topology)
        return {
            "time_s": view.now_s,
            "queue": [
                self._job(view, job)
                | {
                    "gpus": int(view.jobs.num_gpus[job]),
                    "partition": int(view.jobs.partition[job]),
                    "ready_s": float(ready_s[job]),
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
            form["profile"] = self._cluster["profiles"][int(jobs.profile[job])]
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
