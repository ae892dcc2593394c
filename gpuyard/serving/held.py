"""Answers that hold: what a pod or a gang was given, or that it was told to wait."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from gpuyard.serving.forms import GROUP, MOST_NAME, Asked, RequestError, RunningJob, WaitingJob
from sim.errors import amount

Job = TypeVar("Job", RunningJob, WaitingJob)


@dataclass
class Held:
    """A job that we have answered for, and that the told state does not show running yet."""

    job: RunningJob
    gpus: int  # of a pod
    pods: int
    slots: list[str]  # a server for each pod
    bound: dict[str, str]  # pod: its server
    until_s: float  # on our clock: that of the told state may be another one each time
    replaces: "Replaces | None" = None

    def has_whole_pods(self, gpus: Sequence[int]) -> bool:
        """Whether some of its pods run on these GPUs, and others do not yet."""
        return 0 < len(gpus) < self.gpus * self.pods and len(gpus) % self.gpus == 0


@dataclass(frozen=True)
class Replaces:
    """What a pod is of a gang that the told state shows running in part."""

    gang: str
    server: str  # where the pod was sent
    then_gpus: int  # of the gang there, once the pod runs, too

    def is_shown(self, shown: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether a state (job -> server -> GPUs) has the gang with the pod, or no more at all."""
        servers = shown.get(self.gang)
        return servers is None or servers.get(self.server, 0) >= self.then_gpus


@dataclass(frozen=True)
class Waits:
    """A job that we have told to wait."""

    job: WaitingJob
    nodes: frozenset[str]  # servers that it was offered last; none: it competes with nobody
    until_s: float  # on our clock


@dataclass(frozen=True)
class Verdict:
    """Where a pod goes, or why nowhere."""

    server: str | None
    reason: str = ""


def is_void(held: Held, asked: Asked, nodes: AbstractSet[str]) -> bool:
    """Whether an answer is asked for anew: a pod that asks again has not been bound.

    It holds for a gang of which other pods may have been, and for a pod that is as it was and may
    go where it was sent.
    """
    alone = held.bound.keys() <= {asked.pod}
    changed = held.pods == asked.pods == 1 and held.gpus != asked.gpus
    return alone and (changed or held.bound.get(asked.pod) not in (None, *nodes))


def not_after(job: Job, now_s: float) -> Job:
    """The job, no time of it after now: a state may be told that is older than our answer."""
    times = {"started_s", "submitted_s"} & set(type(job).model_fields)
    late = {name: now_s for name in times if (getattr(job, name) or now_s) > now_s}
    return job.model_copy(update=late) if late else job


def waiting_job(asked: Asked, now_s: float, first_s: float) -> WaitingJob:
    """`first_s`: when it was asked for first, for want of a better time of submission."""
    submitted_s = min(first_s if asked.submitted_s is None else asked.submitted_s, now_s)
    try:
        return WaitingJob(
            id=asked.job,
            gpus=asked.gpus * asked.pods,
            submitted_s=submitted_s,
            estimate_s=asked.estimate_s,
            profile=asked.profile,
            partition=asked.partition,
            user=asked.user,
        )
    except ValidationError as error:
        fault = error.errors()[0]
        raise RequestError(
            f"pod {asked.pod[:MOST_NAME]}: its {fault['loc'][0]} cannot be: {fault['msg'].lower()}"
        ) from error


def bind(held: Held, asked: Asked, nodes: Sequence[str]) -> Verdict:
    """A server of its gang for a pod: the first that is left among `nodes`."""
    if (held.gpus, held.pods) != (asked.gpus, asked.pods):
        if held.pods == 1:
            raise RequestError(
                f"pod {asked.pod}: {asked.job} is a pod that was answered for; give the gang "
                f"another name ({GROUP})"
            )
        raise RequestError(
            f"pod {asked.pod}: its gang {asked.job} is of {amount(held.pods, 'pod')} of "
            f"{amount(held.gpus, 'GPU')}, the pod says {asked.pods} of {asked.gpus}; pods of one "
            f"gang have to be alike"
        )
    server = held.bound.get(asked.pod)
    if server is not None:
        if server in nodes:
            return Verdict(server)
        return Verdict(
            None, f"it was given {server} with its gang, which is not among the nodes offered"
        )
    left = list(held.slots)
    for taken in held.bound.values():
        left.remove(taken)
    if not left:
        raise RequestError(
            f"pod {asked.pod}: all {held.pods} pods of gang {asked.job} have been placed: it takes "
            "the place of one once a state lacks it and hold_s is over; give another gang another "
            "name"
        )
    server = next((name for name in left if name in nodes), None)
    if server is None:
        return Verdict(None, f"its gang was given {', '.join(sorted(set(left)))}")
    held.bound[asked.pod] = server
    return Verdict(server)
