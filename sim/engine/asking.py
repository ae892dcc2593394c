"""One decision whose orders Python gives: it is asked for keys, orders or places, and for times.

Who starts, who gives way and who takes what from whom is compiled, as in `sim.engine.loop`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.codes import DELAY, IN_PYTHON, STEAL
from sim.compiling import PYTHON, address_in_c
from sim.decision import Start
from sim.engine.acting import forward, open_decision, start
from sim.engine.filling import fill_listed, first_to_ask, note_timers, route_arrivals, wanted_gpus
from sim.engine.given import numbers, rows
from sim.engine.layout import PYTHON_PLACE, PYTHON_ROUTE, RAISED, ROUTE, Memory
from sim.engine.occupancy import Occupancy
from sim.engine.preempting import serve
from sim.engine.queues import join
from sim.engine.rule import Composition, Filling, Ranking
from sim.jit import array_kernel, kernel
from sim.kernel import records
from sim.kernel.layout import QUEUED, State
from sim.kernel.step import LEGAL, capacity_for, observe
from sim.protocols import Loads
from sim.view import ClusterView


@kernel
def begin(state: State, memory: Memory) -> None:
    """A decision begins; running jobs are shown as they are now."""
    observe(state)
    open_decision(state, memory)


@array_kernel
def _serve_keyed(
    state: State, memory: Memory, m: int, jobs: IntArray, running: int, keys: FloatArray
) -> bool:
    """Serve partition `m`: the first `running` of `jobs` run there, the others wait.

    False, and nothing is served, where a key is NaN.
    """
    for at in range(len(jobs)):  # checked as they are written: after a NaN nothing is served
        if np.isnan(keys[at]):
            return False
        memory.waiter[jobs[at]].key = keys[at]
    for at in range(running, len(jobs)):  # who runs has a key, but stands in no queue
        join(state, memory, jobs[at])
    serve(state, memory, m)
    memory.num_live[m] = 0
    memory.queue[m]["size"][:] = 0
    return True


def _are_numbers(given: object, count: int) -> bool:
    """Whether compiled code can take them as they are; NaN it finds itself."""
    if type(given) is not np.ndarray or given.dtype != np.float64 or given.shape != (count,):
        return False
    return given.flags.carray


Priority = Callable[[ClusterView, IntArray], FloatArray]


class Asking:
    """Carries out one scheduler's decisions on one state: a run's, or a copy."""

    def __init__(
        self, scheduler: Composition, state: State, memory: Memory, shown: Mapping[str, Any]
    ) -> None:
        """`shown`: fields of a view that show `state`; none where views are of it anyway."""
        self.child, self._scheduler = scheduler.child, scheduler
        self._state, self._memory, self._shown = state, memory, shown
        self._has_times, self._fills = self.child.has_times, isinstance(self.child, Filling)
        rule = memory.rule[0]
        self._routes, self._steals = bool(memory.routine[ROUTE]), rule["forwarding"] == STEAL
        self._has_timers = rule["placer"] == DELAY
        # Who draws at random, or would be asked twice, must not be tried beforehand.
        tries = IN_PYTHON not in (rule["placer"], rule["sharing"])
        self._orders_count = not tries or bool(rule["judges_job"]) or self._has_times or self._fills
        # Looked up once: a field of a record array costs as much as a short copy.
        self._verdict, job = memory.scalars["verdict"], state.job
        self._home, self._status, self._forwards = job["partition"], job["status"], job["forwards"]
        self._priority: Priority | None = None
        if self.child.preempts and isinstance(self.child, Ranking) and not self._fills:
            self._priority = self.child.priority
        self._view: ClusterView | None = None  # of the decision
        self._here: ClusterView | None = None  # of the partition that is served
        self.error: BaseException | None = None  # raised by a placer, a sharing or routing rule
        self.refused: Start | None = None  # a placer's choice that is none
        # Python functions that compiled code calls have to live as long as this.
        self._called = PYTHON(self._place), PYTHON(self._route)
        memory.routine[PYTHON_PLACE] = address_in_c(self._called[0])
        memory.routine[PYTHON_ROUTE] = address_in_c(self._called[1])

    def decide(self, view: ClusterView) -> None:
        """Decide what `view` shows the need of; `memory.scalars` has verdict and time to wake.

        The decision has begun (`begin`).
        """
        state, memory = self._state, self._memory
        self._view, self._here, self.error, self.refused = view, None, None, None
        if self._routes:
            route_arrivals(state, memory)
        if view.num_partitions == 1:
            if len(view.queued) > 0:
                self._serve(view, 0)
        else:
            homes = self._home[view.queued]
            for m in self._to_ask(view, takes=False):
                queue = view.queued[homes == m]
                if len(queue) > 0:
                    self._serve(view.narrowed(m, queue), m)
        if self._has_timers:
            note_timers(state, memory)
        if self._steals:
            self._steal(view)
        self._view = self._here = None

    def _to_ask(self, view: ClusterView, *, takes: bool) -> Iterator[int]:
        """Partitions whose orders are asked for, one by one; the others are served on the way."""
        m, count = 0, view.num_partitions
        while m < count and self._verdict.item() == LEGAL:
            if not self._orders_count:
                m = int(first_to_ask(self._state, self._memory, m, takes))
            if m < count:
                yield m
            m += 1

    def _serve(self, here: ClusterView, m: int) -> None:
        """Serve the queue of partition `m`, as `here` shows it."""
        if not self._has_times:
            self._serve_own(here, m)
            return
        first = self._logged()
        self._serve_own(here, m)
        kinds, jobs = self._orders_since(first)
        starts = self._starts(jobs[kinds == records.START])
        preempts = jobs[kinds == records.PREEMPT].tolist()
        self._wake(self.child.asked_again_s(here, starts, preempts))

    def _serve_own(self, here: ClusterView, m: int) -> None:
        if self._priority is not None:
            self._here = here
            jobs = np.concatenate((here.running, here.queued))
            keys = self._priority(here, jobs)
            if not _are_numbers(keys, len(jobs)):
                keys = numbers(self.child, "priority", keys, len(jobs)).copy()
            if not _serve_keyed(self._state, self._memory, m, jobs, len(here.running), keys):
                numbers(self.child, "priority", keys, len(jobs))  # which says what is wrong
        else:
            self._fill(here, m, takes=False)

    def _fill(self, here: ClusterView, m: int, *, takes: bool) -> None:
        """Start who has room in `m` of those that `here` shows waiting."""
        child = self.child
        self._here, order = here, rows(child, child.order(here))
        if not self._fills:
            fill_listed(self._state, self._memory, m, order, takes)
            return
        assert isinstance(child, Filling)
        occupancy = Occupancy(self._as_now(here))
        for each in child.fill(here, occupancy, order, child.skip_blocked or takes):
            self._start(each, m)

    def _start(self, given: Start, m: int) -> None:
        """Carry out a start that Python has chosen."""
        state, memory, job = self._state, self._memory, given.job
        if not self._take_over(job, given.gpus):
            memory.scalars["verdict"] = RAISED
        if memory.scalars[0]["verdict"] != LEGAL:
            return
        if state.job[job]["partition"] != m:
            forward(state, memory, job, m)
        start(state, memory, job)

    def _steal(self, view: ClusterView) -> None:
        for m in self._to_ask(view, takes=True):
            queued = view.queued[self._status[view.queued] == QUEUED]
            free = (self._forwards[queued] < view.max_forwards) & (self._home[queued] != m)
            if not free.any():
                continue
            here, first = view.narrowed(m, queued[free]), self._logged()
            self._fill(here, m, takes=True)
            if self._has_times and self._logged() > first:
                kinds, jobs = self._orders_since(0)
                jobs = jobs[kinds == records.START]
                self._wake(self.child.wake_s(here, self._starts(jobs[self._home[jobs] == m])))

    def _as_now(self, view: ClusterView) -> ClusterView:
        """`view` with who holds what after the orders given so far."""
        return replace(view, **self._shown) if self._shown else view

    def _logged(self) -> int:
        return int(self._state.world[0]["num_logged"])

    def _orders_since(self, row: int) -> tuple[IntArray, IntArray]:
        """Kinds and jobs of the decision's orders; those logged from `row` on."""
        begun = int(self._memory.scalars[0]["decision_row"])
        rows = self._state.log[max(row, begun) : self._logged()]
        return rows["kind"], rows["job"]

    def _starts(self, jobs: IntArray) -> list[Start]:
        """Where these jobs have been started."""
        placed, row = self._state.placed, self._state.job
        first, held = row["first"][jobs], row["held"][jobs]
        return [
            Start(job, placed[at : at + gpus])
            for job, at, gpus in zip(jobs.tolist(), first.tolist(), held.tolist(), strict=True)
        ]

    def _wake(self, wake_s: float | None) -> None:
        if wake_s is not None:
            self._memory.scalars["wake_s"] = min(self._memory.scalars[0]["wake_s"], wake_s)

    def _take_over(self, job: int, gpus: IntArray) -> bool:
        """Write a placement for compiled code, which does not look whether these are GPUs."""
        chosen = np.asarray(gpus)
        known = 0 <= job < len(self._state.job) and chosen.dtype.kind in "iu" and chosen.ndim == 1
        if known:
            gang, last = self._state.job[job]["num_gpus"], len(self._state.gpu)
            known = len(np.unique(chosen)) == len(chosen) == gang
            known = known and chosen.min() >= 0 and chosen.max() < last
            known = known and self._state.job[job]["status"] == QUEUED
        if not known:
            self.refused = Start(job, np.atleast_1d(chosen))
            return False
        self._memory.gpus[: len(chosen)] = chosen
        return True

    def _place(self, m: int, job: int) -> int:
        """For compiled code: 1 with GPUs written, 0 where it has to wait, or RAISED."""
        try:
            here, child = self._here, self.child
            if here is None or (here.partition is not None and here.partition != m):
                assert self._view is not None
                here = self._view.narrowed(m, self._view.queued[:0])
            occupancy = Occupancy(self._as_now(here))
            gpus = child.sharing.place(here, occupancy, job, child.placer, child.rng)
            if gpus is None:
                return 0
            # One who runs is tried, too: it was preempted, or would be.
            return 1 if self._take_over(job, gpus) else RAISED
        except BaseException as error:
            self.error = error
            return RAISED

    def _route(self, job: int, fits: int) -> int:
        """For compiled code: where a routing rule in Python sends a job that has arrived."""
        try:
            scheduler, row = self._scheduler, self._state.job[job]
            assert scheduler.forwarding is not None
            count = len(self._state.partition)
            capacity = np.array([capacity_for(self._state, m, job) for m in range(count)])
            loads = Loads(wanted_gpus(self._state), capacity)
            home, rng = int(row["partition"]), scheduler.rng
            gang = int(row["num_gpus"])
            target = int(scheduler.forwarding.route(gang, home, bool(fits), loads, rng))
            if not 0 <= target < len(self._state.partition):
                raise ValueError(
                    f"forwarding {scheduler.forwarding.name} sends job row {job} to partition "
                    f"{target}; there are 0 to {len(self._state.partition) - 1}"
                )
        except BaseException as error:
            self.error = error
            return RAISED
        return target
