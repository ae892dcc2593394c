"""What an extender has to remember: the cluster as last told, and what it answered since."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpuyard.serving.decider import Decider
from gpuyard.serving.forms import (
    GPU_RESOURCE,
    GROUP,
    KNOWN,
    AnswerForm,
    Asked,
    DecisionForm,
    RequestError,
    RunningJob,
    StateForm,
    WaitingJob,
)
from gpuyard.serving.held import (
    Held,
    Replaces,
    Verdict,
    Waits,
    bind,
    is_void,
    not_after,
    waiting_job,
)
from sim.arrays import IntArray
from sim.errors import amount

log = logging.getLogger(__name__)


class Board:
    """Answers for pods one by one; what it said holds until it is told otherwise, or too old."""

    def __init__(
        self, decider: Decider, hold_s: float, clock: Callable[[], float] = time.time
    ) -> None:
        """An empty cluster; `hold_s`: how long an answer holds that no state confirms."""
        self._decider = decider
        self._hold_s = hold_s
        self._clock = clock
        now_s = clock()
        self._form = StateForm(time_s=now_s)  # what was told last, GPUs in place of servers
        self._at_s = now_s  # when, by our clock
        self._state_s = -math.inf  # time of the last state that was told
        self._held: dict[str, Held] = {}
        self._waiting: dict[str, Waits] = {}  # by job, the first to come first

    def tell(self, form: StateForm) -> AnswerForm:
        """The cluster is like this; what would be decided for it and what was answered since.

        Raises:
            RequestError: it cannot be, or is somewhat older than the last, which stays.
        """
        if 0.0 < self._state_s - form.time_s <= self._hold_s:  # by more it is another clock
            raise RequestError(
                f"time_s is {form.time_s}, and a state of {self._state_s} was told already; tell "
                "them in order, by one clock"
            )
        self._decider.decide(form)
        self._forget()
        places = self._decider.places
        shown = {job.id: places.servers_of(job) for job in form.running}
        self._held = {
            key: each for key, each in self._held.items()
            if each.replaces is None or not each.replaces.is_shown(shown)
        }  # fmt: skip
        begun = {
            job.id: places.part_of(job, self._held[job.id].job)
            for job in form.running if job.id in self._held
        }  # fmt: skip
        begun = {key: gpus for key, gpus in begun.items() if self._held[key].has_whole_pods(gpus)}
        placed = self._placed(form, begun)
        while not begun.keys() <= self._held.keys():  # the state leaves no room for the rest
            begun = {key: gpus for key, gpus in begun.items() if key in self._held}
            placed = self._placed(form, begun)
        running = {job.id for job in form.running}
        self._waiting = {key: each for key, each in self._waiting.items() if key not in running}
        self._form, self._at_s = placed, self._clock()
        self._state_s = form.time_s
        now, queue = self.state(), {job.id for job in form.queue}
        queued = [job for job in now.queue if job.id in queue]
        return self._decider.decide(now.model_copy(update={"queue": queued}))

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
        form = self._form
        now_s = form.time_s + max(0.0, self._clock() - self._at_s)
        self._forget()
        running = [job for job in form.running if job.id not in self._held]  # gangs begun in part
        known = {job.id for job in running} | set(self._held)
        held = [not_after(each.job, now_s) for each in self._held.values()]
        queue = [job for job in form.queue if job.id not in known]
        known |= {job.id for job in queue}
        waiting = [each.job for each in self._waiting.values() if each.job.id not in known]
        queue += [not_after(job, now_s) for job in waiting]
        return form.model_copy(
            update={"time_s": now_s, "running": [*running, *held], "queue": queue}
        )

    def unknown(self, nodes: Sequence[str]) -> dict[str, str]:
        """Those of `nodes` that are no servers of the cluster, and words that say so."""
        topology = self._decider.world.topology.name
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
        self._check_size(asked)
        state, runs = self.state(), None
        if asked.job not in self._held:
            runs = next((job for job in state.running if job.id == asked.job), None)
        if runs is not None:
            if not self._lacks(runs, asked):
                return Verdict(None, f"{asked.job} runs already, says the state that was told")
            mates = self._decider.places.beside((runs.placement or [0])[0])
            nodes = [name for name in nodes if name in mates]  # a gang stays in its partition
            partition = int(self._decider.places.owner[(runs.placement or [0])[0]])
            asked = replace(asked, job=asked.pod, pods=1, partition=partition)
        held = self._held.get(asked.job)
        if held is not None and is_void(held, asked, set(nodes).difference(state.away)):
            del self._held[asked.job]
            held, state = None, self.state()
        if held is None:
            decided = self._decided(asked, nodes, state)
            if isinstance(decided, Verdict):
                return decided
            held = decided
            if runs is not None:
                held.replaces = self._replaced(runs, held)
        return bind(held, asked, nodes)

    def _check_size(self, asked: Asked) -> None:
        """Refuse what no cluster like this could ever hold."""
        sizes = self._decider.world.topology.gpus_per_server
        largest = int(sizes.max())
        if asked.gpus > largest:
            raise RequestError(
                f"pod {asked.pod}: limits['{GPU_RESOURCE}'] is {asked.gpus}; the largest server "
                f"has {amount(largest, 'GPU')}: ask for fewer, or for several pods as a gang "
                f"({GROUP})"
            )
        world = self._decider.world
        room = np.bincount(world.partition_of_server, weights=sizes // asked.gpus)
        if asked.pods > room.max():
            raise RequestError(
                f"pod {asked.pod}: its gang has {amount(asked.pods, 'pod')} of "
                f"{amount(asked.gpus, 'GPU')}; even empty servers have room for {room.max():.0f} "
                f"of them: ask for fewer or smaller ones"
            )

    def _lacks(self, runs: RunningJob, asked: Asked) -> bool:
        """Whether a gang that runs has room for a pod more, those sent to it since counted."""
        sent = sum(each.gpus for each in self._sent_to(asked.job) if asked.pod not in each.bound)
        now = len(runs.placement or ()) + sent
        return asked.pod != asked.job and asked.gpus * asked.pods - now >= asked.gpus

    def _sent_to(self, gang: str) -> list[Held]:
        return [
            each for each in self._held.values() if each.replaces and each.replaces.gang == gang
        ]

    def _replaced(self, runs: RunningJob, held: Held) -> Replaces:
        """What a pod is of a gang that runs already."""
        (server,) = held.slots
        gpus = self._decider.places.servers_of(runs).get(server, 0)
        gpus += sum(each.gpus for each in self._sent_to(runs.id) if each.slots == [server])
        return Replaces(runs.id, server, gpus + held.gpus)

    def _decided(self, asked: Asked, nodes: Sequence[str], state: StateForm) -> Held | Verdict:
        """Ask the scheduler for the job of a pod."""
        before = self._waiting.get(asked.job)
        job = waiting_job(asked, state.time_s, before.job.submitted_s if before else state.time_s)
        offered = frozenset(self._decider.places.names) & frozenset(nodes)
        try:
            answer = self._answer(state, job, offered)
        except RequestError as error:
            by = ", ".join(KNOWN) if f"(job {asked.job})" in str(error) else ""
            raise RequestError(f"{error}{by and f'; pods say it by annotations: {by}'}") from error
        start = self._in_pods(_start_of(answer, asked), answer, asked, state, offered)
        until_s = self._clock() + self._hold_s
        verdict = self._refused(answer, start, asked, state)
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

    def _in_pods(
        self, start: DecisionForm | None, answer: AnswerForm, asked: Asked, state: StateForm,
        offered: frozenset[str],
    ) -> DecisionForm | None:  # fmt: skip
        """The start with whole pods on each server: the scheduler knows of GPUs only."""
        if start is None or not _splits(start, asked):
            return start
        places = self._decider.places
        shut = places.gpus_of((set(places.names) - offered).union(state.away))
        held = {gpu for gpus in places.of(state.running) for gpu in gpus.tolist()}
        others = {gpu for each in answer.decisions if each is not start for gpu in each.gpus or ()}
        chosen = start.gpus or []
        if held & set(chosen):
            return start  # which is told to be none for a filter
        found = places.in_pods(chosen, shut | held | others, asked.gpus)
        if found is None:
            return start
        gpus = [gpu for own in found.values() for gpu in own]
        servers = {name: len(own) for name, own in found.items()}
        return start.model_copy(update={"gpus": gpus, "servers": servers})

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
        self, answer: AnswerForm, start: DecisionForm | None, asked: Asked, state: StateForm
    ) -> Verdict | None:
        """Why the decision is none that a filter could express; None: it can."""
        who = answer.scheduler
        if start is None:
            return Verdict(None, f"{who} lets {asked.job} wait at this instant")
        if _splits(start, asked):
            return Verdict(
                None, f"{who} would spread the {asked.gpus} GPUs of one pod over several servers"
            )
        places, gpus = self._decider.places.of(state.running), set(start.gpus or ())
        beside = {
            job.id for job, held in zip(state.running, places, strict=True)
            if not gpus.isdisjoint(held.tolist())
        }  # fmt: skip
        if beside & {each.job for each in answer.decisions if each.action == "preempt"}:
            return Verdict(
                None, f"{who} would preempt others for {asked.job}, which a filter cannot express"
            )
        if beside:
            return Verdict(
                None, f"{who} would have {asked.job} share GPUs, which {asked.gpus} whole ones "
                "cannot express; serve with max_tenants=1"
            )  # fmt: skip
        return None


def _start_of(answer: AnswerForm, asked: Asked) -> DecisionForm | None:
    """The start of a pod's job, if it starts; RequestError: it never can."""
    if asked.job in answer.impossible:
        raise RequestError(f"pod {asked.pod}: {answer.impossible[asked.job]}")
    orders = (each for each in answer.decisions if each.job == asked.job)
    return next((each for each in orders if each.action == "start"), None)


def _splits(start: DecisionForm | None, asked: Asked) -> bool:
    """Whether the GPUs of one pod would lie on several servers."""
    servers = start.servers if start else None
    return any(gpus % asked.gpus for gpus in (servers or {}).values())
