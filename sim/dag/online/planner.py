"""The unfinished tasks at one instant, and plans for them."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.online.listing import Listing, Rule, hold_running, list_tasks, new_listing
from sim.dag.online.room import new_room
from sim.dag.online.spread import new_desk
from sim.dag.online.tasks import PENDING, Site, Tasks, mean_lengths_s, times_to_go_s
from sim.view import ClusterView


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
        room = new_room(self.capacity, 2 * (len(order) + runs) + 2)
        hold_running(tasks, self.task_of, view.topology.gpu_server, view.tenants, view.tenant, room)
        listing = new_listing(tasks, len(self.capacity))
        desk = new_desk(len(self.capacity), view.topology.num_racks)
        list_tasks(self.site, tasks, order, rule, room, desk, listing)
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
