"""Plans for the unfinished tasks at one instant, searched by whales.

Whales swim in hoped-for finishes and running times to go, and are judged by whole plans; what the
last search hoped for is kept for the decisions until the next one. A task's place in an order is
the time at which it has to start for its workflow to finish as hoped: the finish hoped for, less
its running time to go. Within a workflow that is the order of HEFT's ranks.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.dag.online_listing import (
    Listing,
    Rule,
    Timetable,
    least_free,
    list_tasks,
    new_listing,
    new_scratch,
    new_timetable,
    take,
)
from sim.dag.online_tasks import PENDING, Site, Tasks, mean_lengths_s, times_to_go_s
from sim.dag.whales import Step, draw_step, target_of
from sim.errors import GpuYardError
from sim.jit import array_kernel, kernel
from sim.view import ClusterView

TOGETHER, SUBMITTED, SHORTEST, SHARED = "together", "submitted", "shortest", "shared"
RULES = (TOGETHER, SUBMITTED, SHORTEST, SHARED)


def check_rule(rule: str) -> None:
    """Refuse what is no rule; GpuYardError, naming those there are."""
    if rule not in RULES:
        raise GpuYardError(f"scheduler.workflows is {rule!r}; it must be one of {', '.join(RULES)}")


def hoped_finishes_s(
    rule: str, tasks: Tasks, length_s: FloatArray, to_go_s: FloatArray, gpus: int
) -> FloatArray:
    """(W,) finish hoped for of each workflow, from now; workflows in order of submission.

    - `together`: 0 for all, so that the longest time to go is first, as if all were one DAG: HEFT.
    - `submitted`, `shortest`: one workflow after the other, by submission, or by GPU-seconds that
      it still needs; nobody of a later one goes before any of an earlier one.
    - `shared`: in order of GPU-seconds; each when all the GPUs could have done it and those before
      it, and no earlier than its own running time to go.
    """
    workflows = int(tasks.workflow.max()) + 1
    if rule == TOGETHER:
        return np.zeros(workflows)
    apart = float(to_go_s.max()) + 1.0
    if rule == SUBMITTED:
        return apart * np.arange(1.0, workflows + 1.0)
    service_gpu_s = np.bincount(tasks.workflow, length_s * tasks.gang, workflows)  # still needed
    order = np.argsort(service_gpu_s, kind="stable")
    hope = np.empty(workflows)
    if rule == SHORTEST:
        hope[order] = apart * np.arange(1.0, workflows + 1.0)
        return hope
    hope[order] = np.cumsum(service_gpu_s[order]) / gpus
    longest = np.zeros(workflows)
    np.maximum.at(longest, tasks.workflow, to_go_s)
    return np.maximum(hope, longest)


@array_kernel
def order_of(tasks: Tasks, hope_s: FloatArray, to_go_s: FloatArray) -> IntArray:
    """Tasks that do not run, by the start that their workflow's hope asks for, parents first."""
    start = np.empty(len(to_go_s))
    for task in range(len(start) - 1, -1, -1):  # children have larger numbers: theirs is final
        start[task] = hope_s[tasks.workflow[task]] - to_go_s[task]
        # Hopes need not agree with precedence: no task may come after its children.
        for edge in range(tasks.first_child[task], tasks.first_child[task + 1]):
            start[task] = min(start[task], start[tasks.child[edge]])
    # Of equals the smaller number, so that parents stay first.
    order: IntArray = np.argsort(start, kind="mergesort")
    waiting: IntArray = order[tasks.end_s[order] == PENDING]
    return waiting


@kernel
def hold_running(
    tasks: Tasks, task_of: IntArray, gpu_server: IntArray, tenants: IntArray, tenant: IntArray,
    table: Timetable,
) -> None:  # fmt: skip
    """Take every GPU that has tenants until the last of them ends; `task_of` (J,) job's task."""
    for gpu in range(len(gpu_server)):  # one by one: tenants of a server end at different times
        until = 0.0
        for k in range(tenants[gpu]):  # parts of a GPU count as all of it
            until = max(until, tasks.end_s[task_of[tenant[gpu, k]]])
        if until > 0.0 and least_free(table, gpu_server[gpu], 0.0, until) > 0:
            take(table, gpu_server[gpu], 1, 0.0, until)


@dataclass(frozen=True)
class Planner:
    """Makes plans of orders, all from the state of one decision."""

    view: ClusterView
    site: Site
    tasks: Tasks
    capacity: IntArray  # (S,) GPUs of servers that are up
    task_of: IntArray  # (J,) number of a job among the tasks
    patience: float
    holds: bool
    most_tasks: int  # that a plan holds; those behind are left out
    length_s: FloatArray  # (n,) mean over GPUs
    to_go_s: FloatArray  # (n,) of these lengths

    def plan(self, order: IntArray) -> Listing:
        """Times and servers of the first tasks of an order."""
        return self._listed(order, Rule(self.patience, True, False))

    def starts(self, order: IntArray) -> Listing:
        """Those of them that start now; others may be left out."""
        return self._listed(order, Rule(self.patience, self.holds, True))

    def _listed(self, order: IntArray, rule: Rule) -> Listing:
        tasks, view = self.tasks, self.view
        order = order[: self.most_tasks]
        runs = int(np.count_nonzero(tasks.end_s != PENDING))
        table = new_timetable(self.capacity, 2 * (len(order) + runs) + 2)
        hold_running(
            tasks, self.task_of, view.topology.gpu_server, view.tenants, view.tenant, table
        )
        listing = new_listing(tasks, len(self.capacity))
        scratch = new_scratch(len(self.capacity), view.topology.num_racks)
        list_tasks(self.site, tasks, order, rule, table, scratch, listing)
        return listing


def planner_of(
    view: ClusterView, site: Site, tasks: Tasks, jobs: IntArray, capacity: IntArray, *,
    patience: float, holds: bool, most_tasks: int,
) -> Planner:  # fmt: skip
    """Plans for `jobs` (n,), which are `tasks`."""
    task_of = np.full(len(view.jobs.num_gpus), -1, dtype=np.int64)
    task_of[jobs] = np.arange(len(jobs))
    length_s = mean_lengths_s(site, tasks)
    to_go_s = times_to_go_s(tasks, length_s)
    return Planner(view, site, tasks, capacity, task_of, patience, holds, most_tasks, length_s,
                   to_go_s)  # fmt: skip


WHALES = 6
MOVING_LOG10 = (-2.0, -0.3)  # share of the workflows, and of the tasks, that move
NOISE_LOG10 = (-2.0, -0.3)  # relative noise on what moves
CRITICAL = 0.05  # of a workflow's finish: tasks with less of a gap than about this move most


@dataclass(frozen=True)
class Hope:
    """What a plan is made of."""

    finish_s: FloatArray  # (W,) hoped for, of each workflow
    to_go_s: FloatArray  # (n,) running time from each task's start to its workflow's end


@dataclass(frozen=True)
class Whale:
    """A plan and what it comes to."""

    hope: Hope
    listing: Listing
    worth_s: float  # the less the better


class Sea:
    """Judges plans of one instant and counts them."""

    def __init__(self, planner: Planner, *, plans: int, makespan_weight: float) -> None:
        """`plans` may be judged; worth is the mean finish of workflows + weight x the last."""
        self.planner = planner
        self.plans, self.left = plans, plans
        self._weight = makespan_weight
        self._chosen: BoolArray | None = None

    @property
    def spent_share(self) -> float:
        """0 at the beginning, 1 at the end."""
        return 1.0 - self.left / self.plans

    def judge(self, hope: Hope) -> Whale:
        """Make the plan of a hope, for the tasks that the first plan had room for."""
        self.left -= 1
        tasks = self.planner.tasks
        order = order_of(tasks, hope.finish_s, hope.to_go_s)
        if self._chosen is None:
            self._chosen = np.zeros(len(hope.to_go_s), dtype=np.bool_)
            self._chosen[order[: self.planner.most_tasks]] = True
        listing = self.planner.plan(order[self._chosen[order]])
        finish = finishes_s(listing, tasks.workflow, len(hope.finish_s))
        known = finish[np.isfinite(finish)]
        worth = float(known.mean() + self._weight * known.max()) if len(known) else np.inf
        return Whale(hope, listing, worth)


def finishes_s(listing: Listing, workflow: IntArray, workflows: int) -> FloatArray:
    """(W,) when the last task of each workflow ends, from now."""
    finish = np.zeros(workflows)
    np.maximum.at(finish, workflow, listing.end_s)
    return finish


def searched(sea: Sea, starts: list[Hope], rng: np.random.Generator) -> Hope:
    """The hope of the best plan of those that may be judged; of equals the first.

    As in `sim.dag.whales`: a whale takes a target, the leader or another one, and hopes
    for target + factor x (target - its own), for a few workflows and tasks; tasks whose later end
    would delay their workflow are likelier to move. A whale that would get worse stays.
    """
    first = [sea.judge(hope) for hope in starts[: sea.left]]
    best = min(first, key=lambda whale: whale.worth_s)
    whales = [*first, *[best] * (WHALES - len(first))]
    while sea.left:
        for place, whale in enumerate(whales):
            if not sea.left:
                break
            leader = min(range(len(whales)), key=lambda w: whales[w].worth_s)
            step = draw_step(sea.spent_share, rng)
            target = whales[target_of(step, place, leader, len(whales), rng)]
            found = sea.judge(_moved(sea, whale, target, step, rng))
            if found.worth_s <= whale.worth_s:
                whales[place] = found
    return min(whales, key=lambda whale: whale.worth_s).hope


def _moved(sea: Sea, whale: Whale, target: Whale, step: Step, rng: np.random.Generator) -> Hope:
    """What a whale hopes for after a step."""
    mine, theirs = whale.hope, target.hope
    every = np.ones(len(theirs.finish_s))
    gap = _gaps_s(sea, target)
    scale = CRITICAL * np.maximum(finishes_s(target.listing, sea.planner.tasks.workflow,
                                             len(every)), 1e-9)  # fmt: skip
    tight = np.exp(-gap / scale[sea.planner.tasks.workflow])
    return Hope(
        _swum(mine.finish_s, theirs.finish_s, every, step.factor, rng),
        np.maximum(_swum(mine.to_go_s, theirs.to_go_s, tight, step.factor, rng), 0.0),
    )


def _swum(
    mine: FloatArray, theirs: FloatArray, weight: FloatArray, factor: float,
    rng: np.random.Generator,
) -> FloatArray:  # fmt: skip
    """The target's values, of which a random few take the step and noise."""
    wanted = max(1.0, 10.0 ** rng.uniform(*MOVING_LOG10) * len(weight))
    moves = rng.random(len(weight)) < wanted * weight / max(float(weight.sum()), 1e-300)
    noise = 10.0 ** rng.uniform(*NOISE_LOG10) * rng.standard_normal(len(weight))
    return theirs + np.where(moves, factor * (theirs - mine) + noise * theirs, 0.0)


def _gaps_s(sea: Sea, whale: Whale) -> FloatArray:
    """(n,) how much later each task could end without delaying its workflow's planned finish.

    Along its own times to go: waits of the tasks behind it are not looked at.
    """
    tasks = sea.planner.tasks
    finish = finishes_s(whale.listing, tasks.workflow, len(whale.hope.finish_s))[tasks.workflow]
    planned = np.isfinite(finish)
    gap = np.zeros(len(planned))
    behind = sea.planner.to_go_s - sea.planner.length_s
    gap[planned] = finish[planned] - behind[planned] - whale.listing.end_s[planned]
    return np.maximum(gap, 0.0)


class Memory:
    """Hopes by workflow and task of a whole run."""

    def __init__(self, jobs: int, workflows: int) -> None:
        """Nothing was searched."""
        self._finish_s = np.full(workflows, np.nan)  # (W,) at this time of the run
        self._factor = np.ones(jobs)  # (J,) hoped time to go over that of the mean lengths

    def keep(
        self, hope: Hope, now_s: float, workflows: IntArray, jobs: IntArray, to_go_s: FloatArray
    ) -> None:
        """The hope that was found for `workflows` (w,) and their `jobs` (n,)."""
        self._finish_s[workflows] = hope.finish_s + now_s
        known = to_go_s > 0.0
        self._factor[jobs[known]] = hope.to_go_s[known] / to_go_s[known]

    def hope(
        self, now_s: float, workflows: IntArray, jobs: IntArray, to_go_s: FloatArray,
        plain: Hope,
    ) -> Hope:  # fmt: skip
        """The same with today's times to go; those that were not there then go where `plain` says.

        A new workflow hopes for what the next known one in the order of `plain` hopes for.
        """
        finish = self._finish_s[workflows] - now_s
        fresh = np.flatnonzero(np.isnan(finish))
        known = np.flatnonzero(~np.isnan(finish))
        if len(known) == 0:
            return plain
        ranked = known[np.argsort(plain.finish_s[known], kind="stable")]
        place = np.searchsorted(plain.finish_s[ranked], plain.finish_s[fresh])
        behind = finish[ranked[np.minimum(place, len(ranked) - 1)]]
        last = float(finish[known].max()) + float(to_go_s.max())
        finish[fresh] = np.where(place < len(ranked), behind, last)
        return Hope(finish, to_go_s * self._factor[jobs])
