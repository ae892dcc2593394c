"""WORL online: workflows planned together as they come, ready tasks started as GPUs free."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray
from sim.dag import online_search
from sim.dag.online_listing import Listing
from sim.dag.online_tasks import Presence, Site, capacity_of, left_s, site_of, slowness, tasks_of
from sim.decision import WAIT, Decision, Start
from sim.engine.occupancy import Occupancy
from sim.errors import check_numbers
from sim.placers.filling import filled, filled_emptiest_first
from sim.view import ClusterView, Signal


@dataclass(kw_only=True, eq=False, repr=False)
class WorlOnline:
    """A rolling plan of all unfinished tasks of all workflows.

    After WORL-RTGS (Du, Wu, Hou, Nie, Song; Big Data Cogn. Comput. 9(11):284, 2025), which plans
    one DAG before anything runs; `sim.dag` has it as published. What it does online is ours:

    - At every decision the unfinished tasks of all workflows in the system are put into a list
      plan of the real servers (`sim.dag.online_listing`): in order, each where it ends first, gaps
      filled, gangs whole and at once. Running tasks hold their GPUs until they are predicted to
      end. Speeds of GPU types and costs of spreading are the belief's.
    - The order: a task's place is the finish hoped for its workflow less its running time to go.
      `workflows` says what is hoped for (`sim.dag.online_search`): `shortest` serves the workflow
      with fewest GPU-seconds to go first, inside it the longest time to go.
    - When workflows arrive, whales swim in these hopes (`sim.dag.online_search`): `plans` plans are
      made and judged by the mean finish of the workflows and `makespan_weight` times the last
      finish. The best one's hopes hold until the next search; the plan itself is made anew at
      every decision, so it never names a GPU that is not free. 0 plans: the plain order.
    - `patience`: how many seconds of its end a task gives for starting a second earlier; 0 waits
      for whatever ends first, large values take what is free.
    - `holds`: tasks whose parents still run hold GPUs in the plan, too; ready tasks behind them in
      the order start only where they fit into the gaps. Without it they are left out of what
      starts now.

    Jobs without parents are workflows of one. Nothing is preempted, GPUs are not shared but by
    jobs that ask for parts of them, which the plan takes for whole ones. Where nothing runs and
    the plan starts nobody (it knows neither cores nor memory in use), what fits anywhere starts.
    """

    order_name = "worl_online"
    one_queue = True
    needs = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE

    workflows: str
    plans: int
    patience: float
    holds: bool
    makespan_weight: float
    overrun_frac: float  # of its prediction, that a task has left that has outrun it
    most_tasks: int  # that a plan holds, the first in order

    def __post_init__(self) -> None:
        """Raise a GpuYardError, naming key, value and rule, for one out of range."""
        online_search.check_rule(self.workflows)
        for rule, keys in (
            ("0 or more", ("plans", "patience", "makespan_weight")),
            ("above 0", ("overrun_frac",)),
            ("1 or more", ("most_tasks",)),
        ):
            check_numbers("scheduler", rule, **{key: getattr(self, key) for key in keys})
        self.reset(0)

    @property
    def name(self) -> str:
        """`worl_online+workflows+plans`."""
        return f"{self.order_name}+{self.workflows}+{self.plans}"

    def reset(self, seed: int) -> None:
        """Forget the run."""
        self._rng = np.random.default_rng(seed)
        self._presence: Presence | None = None
        self._fresh = False  # workflows have come since the last search

    def decide(self, view: ClusterView) -> Decision:
        """Plan, and start what the plan begins now."""
        if self._presence is None:
            self._begin(view)
        assert self._presence is not None
        jobs, fresh = self._presence.follow(view)
        self._fresh = self._fresh or fresh
        if len(view.queued) == 0:
            return WAIT
        planner, numbers = self._planned(view, self._presence, jobs)
        hope = self._hope(planner, jobs, numbers, view.now_s)
        order = online_search.order_of(planner.tasks, hope.finish_s, hope.to_go_s)
        listing = planner.starts(order)
        starts = self._started(view, jobs, order, listing)
        return Decision(starts=tuple(starts), wake_s=_wake_s(view, jobs, listing, starts))

    def _begin(self, view: ClusterView) -> None:
        """What holds for the whole run."""
        total = len(view.jobs.num_gpus)
        self._presence = Presence(view)
        self._site: Site = site_of(view)
        self._memory = online_search.Memory(total, int(self._presence.workflow.max(initial=-1)) + 1)
        self._slowness = np.ones(total)  # (J,) of running jobs

    def _planned(
        self, view: ClusterView, presence: Presence, jobs: IntArray
    ) -> tuple[online_search.Planner, IntArray]:
        """The instant's tasks, and (W,) their workflows among all of the run."""
        numbers, workflow = np.unique(presence.workflow[jobs], return_inverse=True)
        capacity = capacity_of(view)
        running_s = left_s(view, view.running, self._slowness[view.running], self.overrun_frac)
        tasks = tasks_of(view, jobs, workflow, presence.precedence, capacity, running_s)
        planner = online_search.planner_of(
            view, self._site, tasks, jobs, capacity, patience=self.patience, holds=self.holds,
            most_tasks=self.most_tasks,
        )  # fmt: skip
        return planner, numbers

    def _hope(
        self, planner: online_search.Planner, jobs: IntArray, numbers: IntArray, now_s: float
    ) -> online_search.Hope:
        """What this decision's order is made of; a search first, if workflows have come."""
        to_go_s = planner.to_go_s
        plain = self._plain(planner, self.workflows)
        if self.plans == 0:
            return plain
        kept = self._memory.hope(now_s, numbers, jobs, to_go_s, plain)
        if not self._fresh:
            return kept
        self._fresh = False
        others = [
            self._plain(planner, rule) for rule in online_search.RULES if rule != self.workflows
        ]
        sea = online_search.Sea(planner, plans=self.plans, makespan_weight=self.makespan_weight)
        hope = online_search.searched(sea, [plain, kept, *others], self._rng)
        self._memory.keep(hope, now_s, numbers, jobs, to_go_s)
        return hope

    def _plain(self, planner: online_search.Planner, rule: str) -> online_search.Hope:
        gpus = max(1, int(planner.capacity.sum()))
        finish_s = online_search.hoped_finishes_s(
            rule, planner.tasks, planner.length_s, planner.to_go_s, gpus
        )
        return online_search.Hope(finish_s, planner.to_go_s)

    def _started(
        self, view: ClusterView, jobs: IntArray, order: IntArray, listing: Listing
    ) -> list[Start]:
        """Orders for the waiting tasks that the plan begins now; never none in an idle cluster."""
        occupancy, starts = Occupancy(view), []
        waiting = np.zeros(len(view.jobs.num_gpus), dtype=np.bool_)
        waiting[view.queued] = True
        ready = order[waiting[jobs[order]]]
        for task in ready[listing.begin_s[ready] == 0.0].tolist():
            first = int(listing.first[task])
            used = slice(first, first + int(listing.servers[task]))
            gpus = _gpus(view, occupancy, int(jobs[task]), listing.server[used], listing.gpus[used])
            if gpus is not None:
                starts.append(self._start(view, occupancy, int(jobs[task]), gpus))
        if starts or len(view.running) > 0:
            return starts
        for job in jobs[ready].tolist():
            gpus = filled_emptiest_first(
                occupancy.exclusive(view, job), int(view.jobs.num_gpus[job])
            )
            if gpus is not None:
                starts.append(self._start(view, occupancy, job, gpus))
        return starts

    def _start(self, view: ClusterView, occupancy: Occupancy, job: int, gpus: IntArray) -> Start:
        occupancy.occupy(job, gpus)
        self._slowness[job] = slowness(view, self._site, job, gpus)
        return Start(job, gpus)


def _gpus(
    view: ClusterView, occupancy: Occupancy, job: int, servers: IntArray, take: IntArray
) -> IntArray | None:
    """So many GPUs of these servers; where cores or memory are short there, of any others."""
    slots = occupancy.exclusive(view, job)
    if (slots.usable_per_server[servers] < take).any():
        return filled_emptiest_first(slots, int(view.jobs.num_gpus[job]))
    return filled(slots, servers, int(view.jobs.num_gpus[job]), take)


def _wake_s(
    view: ClusterView, jobs: IntArray, listing: Listing, starts: list[Start]
) -> float | None:
    """When the plan begins the next waiting task for which GPUs are free now; None if none are.

    Then the running task that it waits for may have outrun its prediction.
    """
    started = {start.job for start in starts}
    given = sum(len(start.gpus) for start in starts)
    if int(view.server_free.sum()) <= given:
        return None
    waits = np.array([job for job in view.queued.tolist() if job not in started], dtype=np.int64)
    begin = listing.begin_s[np.isin(jobs, waits)]
    begin = begin[np.isfinite(begin) & (begin > 0.0)]
    if len(begin) == 0:
        return None
    at_s = view.now_s + float(begin.min())
    return at_s if at_s > view.now_s else None
