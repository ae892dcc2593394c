"""A scheduler whose decisions come from `gpuyard serve`: `simulate scheduler=served`."""

import json
import os
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from sim.decision import Decision, Forward, Start
from sim.errors import GpuYardError
from sim.report.run_tables import server_names
from sim.view import ClusterView, Signal

TOKEN = "GPUYARD_TOKEN"


def read_token(path: str | None) -> tuple[str | None, str]:
    """Of a file, else of the environment, and where it is from; None: there is none.

    Raises:
        OSError: the file cannot be read.
    """
    if path is not None:
        return Path(path).read_text(encoding="utf-8").strip(), f"token_file={path}"
    told = os.environ.get(TOKEN)
    return None if told is None else told.strip(), TOKEN


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
            told = json.loads(reply.read())
        except (OSError, HTTPException, ValueError) as error:
            self._http.close()
            raise ServiceError(
                f"{self._url}{path}: {error or type(error).__name__}; does `gpuyard serve` run?"
            ) from error
        if reply.status != OK:
            raise ServiceError(f"{self._url}{path}: {told.get('error', reply.status)}")
        return told


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
        told = self._service.call("GET", "/cluster")
        self.name = f"served_{told['scheduler']}"
        self.needs = Signal.NONE
        for signal in told["signals"]:
            self.needs |= Signal[signal]
        self._tells_profile = "profile" in told["needs"]
        if self._tells_profile:
            self.needs |= Signal.PROFILE
        self._profiles = told["profiles"]
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
        answer = self._service.call("POST", "/decide", self.request(view))
        last, turns = max(answer["turns"], 1) - 1, []
        for turn in range(last + 1):
            orders = [each for each in answer["decisions"] if each["turn"] == turn]
            turns.append(
                Decision(
                    starts=tuple(_start(each) for each in orders if each["action"] == "start"),
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

    def request(self, view: ClusterView) -> dict[str, Any]:
        """What `/decide` takes of a view."""
        started_s = view.state.job["started_s"]
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
        told: dict[str, Any] = {
            "id": str(job),
            "submitted_s": float(jobs.submit_s[job]),
            "attained_gpu_s": float(jobs.attained_gpu_s[job]),
            "restarts": int(jobs.restarts[job]),
            "forwards": int(jobs.forwards[job]),
        }
        if Signal.DURATION in self.needs:  # what is served takes an estimate for the truth
            told["estimate_s"] = float(jobs.duration_s[job])
        elif Signal.PREDICTION in self.needs:
            told["estimate_s"] = float(jobs.estimate_s[job])
        if self._tells_profile:
            told["profile"] = self._profiles[int(jobs.profile[job])]
        if jobs.identity is not None and jobs.identity.user[job] >= 0:
            told["user"] = str(jobs.identity.user[job])
        return told


def _start(order: dict[str, Any]) -> Start:
    gpus = np.array(order["gpus"], dtype=np.int64)
    return Start(int(order["job"]), gpus, lease_s=order["lease_s"])
