"""What an extender has to remember: the cluster as last told, and what it answered since."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from gpuyard.serving.decider import Decider
from gpuyard.serving.forms import (
    GPU_RESOURCE,
    GROUP,
    MOST_NAME,
    AnswerForm,
    Asked,
    DecisionForm,
    RequestError,
    RunningJob,
    StateForm,
    WaitingJob,
)
from sim.arrays import IntArray

log = logging.getLogger(__name__)

Clock = Callable[[], float]
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

    def has_whole_pods(self, gpus: Sequence[int]) -> bool:
        """Whether some of its pods run on these GPUs, and others do not yet."""
        return 0 < len(gpus) < self.gpus * self.pods and len(gpus) % self.gpus == 0


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


@dataclass(frozen=True)
class LastState:
    """What a control plane has told last, and when by our clock."""

    form: StateForm
    at_s: float


class Board:
    """Answers for pods one by one; what it said holds until it is told otherwise, or too old."""

    def __init__(self, decider: Decider, hold_s: float, clock: Clock = time.time) -> None:
        """An empty cluster; `hold_s`: how long an answer holds that no state confirms."""
        self._decider = decider
        self._hold_s = hold_s
        self._clock = clock
        now_s = clock()
        self._last = LastState(StateForm(time_s=now_s), now_s)
        self._held: dict[str, Held] = {}
        self._waiting: dict[str, Waits] = {}  # by job, the first to come first

    def tell(self, form: StateForm) -> AnswerForm:
        """The cluster is like this; what would be decided for it alone.

        Raises:
            RequestError: it cannot be; what was told before stays.
        """
        answer = self._decider.decide(form)
        self._forget()
        begun = {
            job.id: self._decider.places.part_of(job, self._held[job.id].job)
            for job in form.running if job.id in self._held
        }  # fmt: skip
        begun = {key: gpus for key, gpus in begun.items() if self._held[key].has_whole_pods(gpus)}
        placed = self._placed(form, begun)
        while not begun.keys() <= self._held.keys():  # the state leaves no room for the rest
            begun = {key: gpus for key, gpus in begun.items() if key in self._held}
            placed = self._placed(form, begun)
        running = {job.id for job in form.running}
        self._waiting = {key: each for key, each in self._waiting.items() if key not in running}
        self._last = LastState(placed, self._clock())
        return answer

    def _forget(self) -> None:
        """Drop answers that are too old."""
        now_s = self._clock()
        self._held = {key: each for key, each in self._held.items() if each.until_s > now_s}
        self._waiting = {key: each for key, each in self._waiting.items() if each.until_s > now_s}

    def _placed(self, form: StateForm, begun: Mapping[str, list[int]]) -> StateForm:
        """`form` with GPUs in place of servers, beside those of jobs that we answered for.

        What is told is the truth: an answer that it leaves no room for is dropped. `begun`: gangs
        of which it shows some pods, and their GPUs; they keep what they were given.
        """
        others = [job for job in form.running if job.id not in begun]
        over = {job.id for job in others}
        named = {gpu for job in others for gpu in job.placement or ()}
        self._held = {
            name: each for name, each in self._held.items()
            if name not in over and not named & set(each.job.placement or ())
        }  # fmt: skip
        found = self._beside_held(others)
        running = [
            job.model_copy(update={"placement": gpus.tolist(), "servers": None})
            for job, gpus in zip(others, found, strict=False)  # the rest is `held`
        ]
        running += [
            job.model_copy(update={"placement": begun[job.id], "servers": None})
            for job in form.running if job.id in begun
        ]  # fmt: skip
        return form.model_copy(update={"running": running})

    def _beside_held(self, others: Sequence[RunningJob]) -> list[IntArray]:
        """GPUs of these jobs and of those answered for; which stay as far as there is room."""
        places = self._decider.places
        try:
            return places.of([*others, *(each.job for each in self._held.values())])
        except RequestError:
            kept: dict[str, Held] = {}
            found = places.of(others)
        for name, each in self._held.items():
            try:
                found = places.of([*others, *(other.job for other in (*kept.values(), each))])
            except RequestError as error:
                log.warning("the answer for %s is dropped: %s", name, error)
            else:
                kept[name] = each
        self._held = kept
        return found

    def state(self) -> StateForm:
        """The cluster as it is believed to be now: as told, and with what was answered since."""
        last = self._last
        now_s = last.form.time_s + max(0.0, self._clock() - last.at_s)
        self._forget()
        form = last.form
        running = [job for job in form.running if job.id not in self._held]  # gangs begun in part
        known = {job.id for job in running} | set(self._held)
        held = [_until(each.job, now_s) for each in self._held.values()]
        queue = [job for job in form.queue if job.id not in known]
        known |= {job.id for job in queue}
        waiting = [each.job for each in self._waiting.values() if each.job.id not in known]
        queue += [_until(job, now_s) for job in waiting]
        return form.model_copy(
            update={"time_s": now_s, "running": [*running, *held], "queue": queue}
        )

    def unknown(self, nodes: Sequence[str]) -> dict[str, str]:
        """Those of `nodes` that are no servers of the cluster, and words that say so."""
        topology = self._decider.game.topology.name
        return {
            name: f"there is no server {name!r} in {topology}, which is served: GET /cluster lists "
            "them"
            for name in set(nodes).difference(self._decider.places.names)
        }

    def full(self, nodes: Sequence[str], gpus: int) -> dict[str, str]:
        """Those of `nodes` that have no room for a pod of so many GPUs now, and why."""
        state = self.state()
        free = self._decider.places.free(state.running)
        away = set(state.away)
        return {
            name: f"{name} takes nobody new (away)" if name in away
            else f"{name} has {free[name]} free GPUs, the pod asks for {gpus}"
            for name in nodes
            if name in away or free.get(name, gpus) < gpus
        }  # fmt: skip

    def ask(self, asked: Asked, nodes: Sequence[str]) -> Verdict:
        """Where a pod goes that may go to `nodes`; a gang is decided whole, at its first pod.

        Raises:
            RequestError: the pod's job cannot be.
            GpuYardError: the scheduler's decision is illegal.
        """
        state = self.state()
        if any(job.id == asked.job for job in state.running) and asked.job not in self._held:
            return Verdict(None, f"{asked.job} runs already, says the state that was told")
        held = self._held.get(asked.job)
        largest = int(self._decider.game.topology.gpus_per_server.max())
        if asked.gpus > largest:
            raise RequestError(
                f"pod {asked.pod}: limits['{GPU_RESOURCE}'] is {asked.gpus}; the largest server "
                f"has {largest} GPUs: ask for fewer, or for several pods as a gang ({GROUP})"
            )
        if held is None:
            decided = self._decided(asked, nodes, state)
            if isinstance(decided, Verdict):
                return decided
            held = decided
        return _bind(held, asked, nodes)

    def _decided(self, asked: Asked, nodes: Sequence[str], state: StateForm) -> Held | Verdict:
        """Ask the scheduler for the job of a pod."""
        before = self._waiting.get(asked.job)
        job = _waiting(asked, state.time_s, before.job.submitted_s if before else state.time_s)
        offered = frozenset(self._decider.places.names) & frozenset(nodes)
        answer = self._answer(state, job, offered)
        if asked.job in answer.impossible:
            raise RequestError(f"pod {asked.pod}: {answer.impossible[asked.job]}")
        until_s = self._clock() + self._hold_s
        orders = (each for each in answer.decisions if each.job == asked.job)
        start = next((each for each in orders if each.action == "start"), None)
        verdict = self._refused(answer, start, asked)
        if verdict is not None:
            competes = start is None  # else its turn has come, and will in each question
            self._waiting[asked.job] = Waits(job, offered if competes else frozenset(), until_s)
            return verdict
        assert start is not None
        self._waiting.pop(asked.job, None)
        running = RunningJob(
            id=asked.job,
            placement=start.gpus,
            started_s=state.time_s,
            submitted_s=job.submitted_s,
            estimate_s=asked.estimate_s,
            profile=asked.profile,
            user=asked.user,
        )
        slots = [
            name for name, gpus in (start.servers or {}).items() for _ in range(gpus // asked.gpus)
        ]
        held = Held(running, asked.gpus, asked.pods, slots, {}, until_s)
        self._held[asked.job] = held
        return held

    def _answer(self, state: StateForm, asked: WaitingJob, offered: frozenset[str]) -> AnswerForm:
        """What is decided for a job that may go to `offered`, beside those who compete for that.

        The scheduler knows nothing of what others were offered: where it puts one of them on
        another server, that one waits in truth, and we ask again without it.
        """
        names = self._decider.places.names
        closed = [at for at, name in enumerate(names) if name not in offered]
        kept = {name: each.nodes for name, each in self._waiting.items() if name != asked.id}
        places = [asked if job.id == asked.id else job for job in state.queue]
        if asked not in places:
            places.append(asked)  # of those submitted at one time, those who came first stay first
        queue = [job for job in places if job.id not in kept or kept[job.id] & offered]
        while True:
            form = state.model_copy(update={"queue": queue})
            answer = self._decider.decide(form, closed)
            astray = {
                each.job for each in answer.decisions
                if each.action == "start" and each.job in kept
                and not kept[each.job].issuperset(each.servers or ())
            }  # fmt: skip
            if not astray:
                return answer
            queue = [job for job in queue if job.id not in astray]

    def _refused(
        self, answer: AnswerForm, start: DecisionForm | None, asked: Asked
    ) -> Verdict | None:
        """Why the decision is none that a filter could express; None: it can."""
        who = answer.scheduler
        if start is None:
            return Verdict(None, f"{who} lets {asked.job} wait at this instant")
        turn = start.turn
        if any(each.action == "preempt" and each.turn <= turn for each in answer.decisions):
            return Verdict(
                None, f"{who} would preempt others for {asked.job}, which a filter cannot express"
            )
        if any(gpus % asked.gpus for gpus in (start.servers or {}).values()):
            return Verdict(
                None, f"{who} would spread the {asked.gpus} GPUs of one pod over several servers"
            )
        taken = {gpu for gpus in self._decider.places.of(self.state().running) for gpu in gpus}
        if taken & set(start.gpus or []):
            return Verdict(
                None, f"{who} would have {asked.job} share GPUs, which {asked.gpus} whole ones "
                "cannot express; serve with max_tenants=1"
            )  # fmt: skip
        return None


def _until(job: Job, now_s: float) -> Job:
    """The job, no time of it after now: a state may be told that is older than our answer."""
    times = {"started_s", "submitted_s"} & set(type(job).model_fields)
    late = {name: now_s for name in times if (getattr(job, name) or now_s) > now_s}
    return job.model_copy(update=late) if late else job


def _waiting(asked: Asked, now_s: float, first_s: float) -> WaitingJob:
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


def _bind(held: Held, asked: Asked, nodes: Sequence[str]) -> Verdict:
    """A server of its gang for a pod: the first that is left among `nodes`."""
    if (held.gpus, held.pods) != (asked.gpus, asked.pods):
        raise RequestError(
            f"pod {asked.pod}: its gang {asked.job} is of {held.pods} pods of {held.gpus} GPUs, "
            f"the pod says {asked.pods} of {asked.gpus}; pods of one gang have to be alike"
        )
    server = held.bound.get(asked.pod)
    if server is not None:
        if server in nodes:
            return Verdict(server)
        return Verdict(None, f"it was given {server}, which is not among the nodes offered")
    left = list(held.slots)
    for taken in held.bound.values():
        left.remove(taken)
    if not left:
        raise RequestError(
            f"pod {asked.pod}: all {held.pods} pods of gang {asked.job} have been placed; give "
            "another gang another name"
        )
    server = next((name for name in left if name in nodes), None)
    if server is None:
        return Verdict(None, f"its gang was given {', '.join(sorted(set(left)))}")
    held.bound[asked.pod] = server
    return Verdict(server)
