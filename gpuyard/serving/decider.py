"""Orders of an instant: a scheduler is asked until it has nothing more to do there."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuyard.serving.forms import (
    AnswerForm,
    AssumedForm,
    ClusterForm,
    RequestError,
    ServerForm,
    StateForm,
)
from gpuyard.serving.instants import (
    OF_DURATION,
    OF_PROFILE,
    Defaults,
    JobNumbers,
    Set,
    Setter,
    numbers_of,
)
from marl.env.world import World
from sim.decision import Decision, check_turns
from sim.errors import GpuYardError, SimulationError
from sim.protocols import Acting, Scheduler
from sim.view import Signal, ViewMaker

log = logging.getLogger(__name__)

NOTHING = AssumedForm(estimate_s=0, profile=0)


class Decider:
    """Answers for one world and one scheduler; each request stands for itself."""

    def __init__(self, world: World, scheduler: Scheduler, defaults: Defaults, seed: int) -> None:
        """See `Setter` for errors."""
        self.world = world
        self.scheduler = scheduler
        self._acting = scheduler if isinstance(scheduler, Acting) else None
        self.seed = seed
        self._setter = Setter(world, scheduler.needs, defaults)
        self.places = self._setter.places

    def decide(self, form: StateForm, closed: Sequence[int] = ()) -> AnswerForm:
        """All orders of the instant that `form` describes.

        `closed`: servers that take nobody new beside those that `form` names. RequestError: the
        request is impossible; another GpuYardError: the scheduler's decision is.
        """
        numbers = numbers_of(form)
        _check_times(form, numbers)
        _check_progress(form, numbers)
        never = {job.id: why for job in form.queue if (why := self._setter.never(job))}
        if never:
            queue = [job for job in form.queue if job.id not in never]
            form = form.model_copy(update={"queue": queue})
            numbers = numbers_of(form)
        opened = self._setter.set(form, numbers, closed)
        if opened is None:
            return self._answer(form.time_s, never, assumed=NOTHING)
        self.scheduler.reset(self.seed)
        views = opened.simulator.views(self.scheduler.needs)
        orders: list[dict[str, Any]] = []
        turn, again, wake_s = 0, True, None
        while again:
            found, is_done = self._asked(views)
            if is_done:
                opened.simulator.forget_log()
            else:
                opened.simulator.apply(found[-1], self.scheduler)
            for decision in found:
                orders += self._orders(decision, opened, turn)
                again, wake_s, turn = decision.again, decision.wake_s, turn + 1
            check_turns(self.scheduler.name, turn)
        state = opened.simulator.state
        first, count = int(state.world["queue_first"][0]), int(state.world["num_queued"][0])
        waiting = [opened.ids[row] for row in state.queue[first : first + count].tolist()]
        return self._answer(
            form.time_s, never, decisions=orders, waiting=waiting, ask_again_s=wake_s, turns=turn,
            assumed=opened.assumed,
        )  # fmt: skip

    def _answer(self, now_s: float, never: dict[str, str], **found: Any) -> AnswerForm:
        """Made in one go from plain values: a form for each order takes five times as long."""
        answer = {"decisions": [], "waiting": [], "ask_again_s": None, "turns": 0} | found
        answer |= {"scheduler": self.scheduler.name, "time_s": now_s, "impossible": never}
        return AnswerForm.model_validate(answer)

    def _asked(self, views: ViewMaker) -> tuple[list[Decision], bool]:
        """The scheduler's next decisions, and whether the last has been carried out.

        Raises:
            SimulationError: it fails, as one may that meets a state without its own past.
        """
        try:
            if self._acting is not None:
                return self._acting.act(views)
            return [self.scheduler.decide(views.view())], False
        except GpuYardError:
            raise
        except Exception as error:
            log.exception("%s failed", self.scheduler.name)
            raise SimulationError(
                f"{self.scheduler.name} failed ({error!r}); one that remembers what it did may, "
                "for each request stands for itself: serve another (docs/serve.md)"
            ) from error

    def _orders(self, decision: Decision, opened: Set, turn: int) -> list[dict[str, Any]]:
        """In the order in which they are carried out, as `DecisionForm` takes them."""
        ids = opened.ids
        orders: list[dict[str, Any]] = [
            {"action": "preempt", "job": ids[job], "turn": turn} for job in decision.preempts
        ]
        orders += [
            {"action": "forward", "job": ids[each.job], "turn": turn, "partition": each.partition}
            for each in decision.forwards
        ]
        for start in decision.starts:
            gpus = np.asarray(start.gpus, dtype=np.int64).tolist()
            servers = Counter(map(self.places.server_of.__getitem__, gpus))
            orders.append(
                {"action": "start", "job": ids[start.job], "turn": turn, "gpus": gpus,
                 "servers": servers, "lease_s": start.lease_s}
            )  # fmt: skip
        return orders

    def cluster(self) -> ClusterForm:
        """What requests have to fit."""
        topology, needs = self.world.topology, self.scheduler.needs
        signals_of = {"estimate_s": OF_DURATION, "profile": OF_PROFILE}
        servers = [
            ServerForm(
                name=name,
                first_gpu=int(topology.server_first_gpu[at]),
                gpus=int(topology.gpus_per_server[at]),
                gpu_type=topology.gpu_types[int(topology.server_gpu_type[at])],
                rack=int(topology.server_rack[at]),
                partition=int(self.world.partition_of_server[at]),
            )
            for at, name in enumerate(self.places.names)
        ]
        return ClusterForm(
            scheduler=self.scheduler.name,
            needs=[
                field for field, signals in signals_of.items() if needs & signals != Signal.NONE
            ],
            signals=[str(signal.name) for signal in needs],
            topology=topology.name,
            gpus=topology.num_gpus,
            partitions=self.world.partitions,
            max_tenants=self.world.rules.max_tenants,
            seed=self.seed,
            profiles=list(self.world.physics.catalogue.names),
            servers=servers,
        )


MOST_SPEED = 100.0  # seconds of its work that a job may do in one, on any GPUs
NOT_YET = "; leave out what has not happened yet"
TIMES_IN_ORDER = (  # what cannot be: a time that is after or before another, and the way out
    ("started_s", "after", "time_s", NOT_YET),
    ("submitted_s", "after", "time_s", NOT_YET),
    ("ready_s", "after", "time_s", NOT_YET),
    ("submitted_s", "after", "started_s", ""),
    ("ready_s", "before", "submitted_s", "; leave it out if the job waits for no parents"),
    ("resume_s", "before", "started_s", "; it is when this attempt began to make progress, so "
     "leave it out if they are one"),
)  # fmt: skip


def _check_times(form: StateForm, numbers: JobNumbers) -> None:
    """Names once, and nothing from the future."""
    seen = set[str]()
    for at, job in enumerate(numbers.jobs):
        if job.id in seen:
            raise RequestError(f"{numbers.where(at)}: the id is given twice; each job has its own")
        seen.add(job.id)
    times_s = {
        "started_s": numbers.started_s, "submitted_s": numbers.submit_s,
        "ready_s": numbers.ready_s, "resume_s": numbers.resume_s,
        "time_s": np.full(len(numbers.jobs), form.time_s),
    }  # fmt: skip
    for field, word, other, fix in TIMES_IN_ORDER:
        one_s, other_s = times_s[field], times_s[other]
        bad = one_s > other_s if word == "after" else one_s < other_s
        for at in np.flatnonzero(bad).tolist():
            raise RequestError(
                f"{numbers.where(at)}: {field} is {one_s[at]}, {word} {other}, {other_s[at]}{fix}"
            )


def _check_progress(form: StateForm, numbers: JobNumbers) -> None:
    """Who never lost its GPUs has not done more than its estimate and than GPUs can since.

    Either alone may be: jobs outlast their estimates, and one that goes on from a checkpoint of
    an earlier job brings work with it.
    """
    can_s = np.maximum(numbers.estimate_s, MOST_SPEED * (form.time_s - numbers.submit_s))
    for at in np.flatnonzero((numbers.progress_s > can_s) & (numbers.restarts == 0)).tolist():
        raise RequestError(
            f"{numbers.where(at)}: progress_s is {numbers.progress_s[at]}, above estimate_s, "
            f"{numbers.estimate_s[at]}, and more than it can have done since it was submitted, at "
            f"{numbers.submit_s[at]}; send the seconds of its work that are done, or its restarts"
        )
