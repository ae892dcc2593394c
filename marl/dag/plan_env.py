"""Making a plan as a game, one task a step, on generated problems."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from marl.dag.sight import FAR, FEATURES, Hopes, Scratch, look, new_scratch, place
from sim.dag.families import layered_graph, random_graph
from sim.dag.list_scheduling import NEAREST, heft, new_lanes
from sim.dag.plan import optimistic_costs, order_of, schedule, upward_rank_s
from sim.dag.problem import DagProblem, GpuKind, dag_problem, drawn_machines
from sim.dag.search import random_start

Seen = npt.NDArray[np.float32]
NOISE = 0.1  # most that times to go are off, relative
RANDOM_TARGETS = 0.3  # share of episodes whose target is a random plan, not HEFT's


@dataclass(frozen=True)
class Goal:
    """A problem and what the plan is hoped to be."""

    problem: DagProblem
    hopes: Hopes


class PlanEnv(gym.Env[Seen, np.int64]):
    """Observation: (NEAREST, FEATURES), see `sight`. Action: place on the shortlist.

    An action beyond the shortlist counts as the nearest GPU. Reward, negative: by how much the
    plan so far ends later, and `gap_weight` of the gap between hoped-for and actual load, both in
    mean lengths of a task. The episode ends when every task is placed. An episode's hope is that
    of a whale: HEFT's plan or a random one, with noise on the times to go. The paper's own state,
    action and reward are not public.
    """

    def __init__(
        self, *, draw: Callable[[np.random.Generator], DagProblem], gap_weight: float
    ) -> None:
        """`draw` makes the problem of an episode."""
        self.observation_space = Box(-FAR, FAR, (NEAREST, FEATURES), np.float32)
        self.action_space = Discrete(NEAREST)
        self._draw = draw
        self._gap_weight = gap_weight
        self._goal: Goal | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """A new problem."""
        super().reset(seed=seed, options=options)
        self._goal = drawn_goal(self._draw(self.np_random), self.np_random)
        problem = self._goal.problem
        self._scratch: Scratch = new_scratch(new_lanes(problem.num_tasks, problem.num_gpus))
        self._turn, self._end_s = 0, 0.0
        return self._see(), {}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Place the task whose shortlist was seen."""
        assert self._goal is not None  # Gymnasium: reset comes first
        dag, hopes = self._goal.problem.arrays, self._goal.hopes
        task = int(hopes.order[self._turn])
        place_listed = int(action) if int(action) < self._count else 0
        gap_s = float(self._scratch.gap[place_listed])
        end_s = place(dag, task, int(self._scratch.shortlist[place_listed]), self._scratch)
        later_s = max(end_s - self._end_s, 0.0)
        self._end_s += later_s
        cost = (later_s + self._gap_weight * gap_s) / hopes.scale_s
        self._turn += 1
        done = self._turn == len(hopes.order)
        info = {"makespan_s": self._end_s} if done else {}
        seen = np.zeros((NEAREST, FEATURES), np.float32) if done else self._see()
        return seen, -cost, done, False, info

    def _see(self) -> Seen:
        assert self._goal is not None
        hopes = self._goal.hopes
        task = int(hopes.order[self._turn])
        self._count = look(self._goal.problem.arrays, hopes, task, self._scratch)
        return self._scratch.seen.astype(np.float32)


def drawn_goal(problem: DagProblem, rng: np.random.Generator) -> Goal:
    """Hopes of a whale on this problem."""
    count = problem.num_tasks
    if rng.random() < RANDOM_TARGETS:
        start = random_start(problem, rng)
        plan, to_go_s = start.plan, start.to_go_s
    else:
        plan, to_go_s = heft(problem), upward_rank_s(problem)
    to_go_s = to_go_s * (1.0 + rng.uniform(0.0, NOISE) * rng.standard_normal(count))
    hopes = Hopes(
        order_of(problem.arrays, to_go_s),
        schedule(problem, plan).finish_s,
        plan.gpu,
        optimistic_costs(problem.arrays, problem.mean_s_per_mb),
        np.zeros(count, dtype=np.bool_),
        scale_of(problem.graph.work_s, problem.machines.speed),
    )
    return Goal(problem, hopes)


def scale_of(work: npt.NDArray[np.float64], speed: npt.NDArray[np.float64]) -> float:
    """The mean length of a task: what times are seen in."""
    return max(float(work.mean() * np.mean(1.0 / speed)), 1e-12)


MEAN_S = 60.0


class TrainingProblems:
    """Layered and random DAGs in turn, of one size, on GPUs and networks drawn for each."""

    def __init__(
        self,
        *,
        tasks: int,
        gpus: Sequence[int],
        mb_per_s: Sequence[float],
        between_gbps: Sequence[float],
        inside_gbps: float,
        least_share: float,
        per_server: int,
        kinds: Mapping[str, Sequence[float]],
    ) -> None:
        """`gpus` are choices; `mb_per_s` and `between_gbps` are ranges, drawn on a log scale."""
        self._tasks, self._gpus = tasks, list(gpus)
        self._mb_per_s, self._between = np.log(mb_per_s), np.log(between_gbps)
        self._inside, self._least, self._per_server = inside_gbps, least_share, per_server
        self._kinds = tuple(GpuKind(name, speed, room) for name, (speed, room) in kinds.items())

    def __call__(self, rng: np.random.Generator) -> DagProblem:
        """The next one."""
        gpus = int(rng.choice(self._gpus))
        make = layered_graph if rng.random() < 0.5 else random_graph  # noqa: PLR2004  (a fair coin)
        graph = make(
            self._tasks, width=gpus, parents=2.5, mean_s=MEAN_S,
            mb_per_s=float(np.exp(rng.uniform(*self._mb_per_s))), rng=rng,
        )  # fmt: skip
        found = drawn_machines(
            self._kinds, gpus=gpus, per_server=self._per_server, inside_gbps=self._inside,
            between_gbps=float(np.exp(rng.uniform(*self._between))), least_share=self._least,
            rng=rng,
        )  # fmt: skip
        return dag_problem(graph, found)
