"""Making a plan as a world, one task a step, on generated problems: the learner of WORL-RTGS.

What the generator sees of a task's shortlist and how it places is compiled, for all uses. Files of
its network hold weights and sizes only; loading runs no code.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from marl.env import SPEC, WEIGHTS, write_policy
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.dag.families import layered_graph, random_graph
from sim.dag.list_scheduling import NEAREST, Lanes, first_gap, heft, nearest_gpus, new_lanes, put
from sim.dag.plan import arrives_s, optimistic_costs, order_of, schedule, upward_rank_s
from sim.dag.problem import DagArrays, DagProblem, GpuModel, dag_problem, drawn_machines
from sim.dag.search import Judged, random_start
from sim.dag.whales import FORESIGHTS, leaving_tasks, moving_tasks
from sim.errors import GpuYardError, check_numbers
from sim.jit import kernel
from sim.scoring.table import Column


class OfPlace(Column):
    """A GPU of the shortlist for a task: times over the problem's scale, within +-`FAR`."""

    GAP = "between the load that is hoped for and its load"
    END = "when the task would end, after the earliest end on the list"
    IDLE = "when its inputs have arrived, after the GPU's last task ends"
    LENGTH = "how long it would run"
    OUTLOOK = "what is thought to come after it, above the least on the list"
    PARENT = "1: a parent of the task ran there"
    HOPED = "1: the plan that is bettered has it there, and does not leave it free"
    MAKESPAN = "its end, after the end of all that is placed"
    VALID = "1: a GPU, 0: an empty place"


FAR = 20.0  # features are cut here, either way


class Hopes(NamedTuple):
    """What the plan to be made is hoped to look like."""

    order: IntArray  # (n,)
    hope: FloatArray  # (n,) load of each task's GPU at its end
    gpu: IntArray  # (n,) of the target's plan
    outlook: FloatArray  # (n, g), or (1, g)
    leaves: BoolArray  # (n,) tasks that the target's GPU is not shown for
    scale_s: float  # what times are measured in


class Scratch(NamedTuple):
    """Scratch of one plan in the making."""

    lanes: Lanes
    load: FloatArray  # (g,) when the last task of each GPU ends
    shortlist: IntArray  # (NEAREST,)
    gap: FloatArray  # (NEAREST,)
    seen: FloatArray  # (NEAREST, OfPlace)


class Weights(NamedTuple):
    """Of the network: two hidden layers for each GPU, the same for all."""

    first: FloatArray  # (hidden, OfPlace)
    first_bias: FloatArray  # (hidden,)
    second: FloatArray  # (hidden, hidden)
    second_bias: FloatArray  # (hidden,)
    last: FloatArray  # (hidden,)


@kernel
def _latest(times_s: FloatArray) -> float:
    latest_s = 0.0
    for each_s in times_s:  # from 0, where nothing is placed yet
        latest_s = max(latest_s, each_s)
    return latest_s


@kernel
def look(dag: DagArrays, hopes: Hopes, task: int, scratch: Scratch) -> int:
    """Fill the scratch's shortlist and what is seen of it; returns how many GPUs are on it."""
    count = nearest_gpus(dag, task, hopes.hope[task], scratch.load, scratch.shortlist, scratch.gap)
    seen, lanes = scratch.seen, scratch.lanes
    seen[:] = 0.0
    least_end, least_out = np.inf, np.inf
    row = task if len(hopes.outlook) > 1 else 0
    so_far = _latest(scratch.load)
    for listed in range(count):  # first all ends: they are told from the least of them
        here = scratch.shortlist[listed]
        length = dag.work[task] / dag.speed[here]
        ready = arrives_s(dag, task, here, lanes.gpu, lanes.finish)
        begin, _ = first_gap(lanes, here, ready, length)
        seen[listed, OfPlace.GAP] = scratch.gap[listed]
        seen[listed, OfPlace.END] = begin + length
        seen[listed, OfPlace.IDLE] = ready - scratch.load[here]
        seen[listed, OfPlace.LENGTH] = length
        seen[listed, OfPlace.OUTLOOK] = hopes.outlook[row, here]
        least_end = min(least_end, begin + length)
        least_out = min(least_out, hopes.outlook[row, here])
    for listed in range(count):  # again, for the least ones are known only now
        here = scratch.shortlist[listed]
        seen[listed, OfPlace.END] -= least_end
        seen[listed, OfPlace.OUTLOOK] -= least_out
        for feature in range(OfPlace.PARENT):  # all times
            cut = min(max(seen[listed, feature] / hopes.scale_s, -FAR), FAR)
            seen[listed, feature] = cut
        for edge in range(dag.first_parent[task], dag.first_parent[task + 1]):  # one is enough
            if lanes.gpu[dag.parent[edge]] == here:
                seen[listed, OfPlace.PARENT] = 1.0
        later = (least_end - so_far) / hopes.scale_s + seen[listed, OfPlace.END]
        seen[listed, OfPlace.MAKESPAN] = min(max(later, -FAR), FAR)
        if hopes.gpu[task] == here and not hopes.leaves[task]:
            seen[listed, OfPlace.HOPED] = 1.0
        seen[listed, OfPlace.VALID] = 1.0
    return count


@kernel
def place(dag: DagArrays, task: int, here: int, scratch: Scratch) -> float:
    """Put the task in its first gap on GPU `here`; returns its end."""
    length = dag.work[task] / dag.speed[here]
    ready = arrives_s(dag, task, here, scratch.lanes.gpu, scratch.lanes.finish)
    begin, behind = first_gap(scratch.lanes, here, ready, length)
    put(scratch.lanes, task, here, begin, length, behind)
    scratch.load[here] = max(scratch.load[here], begin + length)
    return begin + length


@kernel
def place_by_value(
    dag: DagArrays, hopes: Hopes, weights: Weights, scratch: Scratch, hidden: FloatArray
) -> None:
    """Every task on the GPU of its shortlist that the network values most; `hidden` (2, h)."""
    for turn in range(len(hopes.order)):  # parents first: children wait for their output
        task = hopes.order[turn]
        count = look(dag, hopes, task, scratch)
        best, chosen = -np.inf, 0
        for listed in range(count):  # ties go to the GPU nearest to the load hoped for
            value = _value(weights, scratch.seen[listed], hidden)
            if value > best:
                best, chosen = value, listed
        place(dag, task, scratch.shortlist[chosen], scratch)


@kernel
def _value(weights: Weights, seen: FloatArray, hidden: FloatArray) -> float:
    """As `PlacementNetwork`: less the end of the task, plus what was learned."""
    for unit in range(len(weights.first)):  # unit by unit, as plans are made without torch
        total = weights.first_bias[unit]
        for feature in range(len(seen)):  # summed in place: kernels make no arrays
            total += weights.first[unit, feature] * seen[feature]
        hidden[0, unit] = max(total, 0.0)
    value = -seen[OfPlace.END]
    for unit in range(len(weights.second)):  # the last layer in one go: nothing else reads these
        total = weights.second_bias[unit]
        for before in range(len(weights.first)):  # each unit reads all of the layer before
            total += weights.second[unit, before] * hidden[0, before]
        value += weights.last[unit] * max(total, 0.0)
    return value


def new_scratch(lanes: Lanes) -> Scratch:
    """An empty scratch for the GPUs of these lanes."""
    return Scratch(
        lanes,
        np.zeros(len(lanes.last)),
        np.zeros(NEAREST, dtype=np.int64),
        np.zeros(NEAREST),
        np.zeros((NEAREST, len(OfPlace))),
    )


Seen = npt.NDArray[np.float32]
NOISE = 0.1  # most that times to go are off, relative
RANDOM_TARGETS = 0.3  # share of episodes whose target is a random plan, not HEFT's


@dataclass(frozen=True)
class Goal:
    """A problem and what the plan is hoped to be."""

    problem: DagProblem
    hopes: Hopes


class PlanEnv(gym.Env[Seen, np.int64]):
    """Observation: (NEAREST, OfPlace), see `look`. Action: place on the shortlist.

    An action beyond the shortlist counts as the nearest GPU. Reward, negative: by how much the
    plan so far ends later, and `gap_weight` of the gap between hoped-for and actual load, both in
    mean lengths of a task. The episode ends when every task is placed. An episode's hope is that
    of a whale: HEFT's plan or a random one, with noise on the times to go, a foresight, and tasks
    that leave their GPUs. Whales swim to better plans, too, and sometimes plan from the end, which
    is not trained. The paper's own state, action and reward are not public.
    """

    def __init__(
        self, *, draw: Callable[[np.random.Generator], DagProblem], gap_weight: float
    ) -> None:
        """`draw` makes the problem of an episode."""
        self.observation_space = Box(-FAR, FAR, (NEAREST, len(OfPlace)), np.float32)
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
        seen = np.zeros((NEAREST, len(OfPlace)), np.float32) if done else self._see()
        return seen, -cost, done, False, info

    def _see(self) -> Seen:
        assert self._goal is not None
        hopes = self._goal.hopes
        task = int(hopes.order[self._turn])
        self._count = look(self._goal.problem.arrays, hopes, task, self._scratch)
        return self._scratch.seen.astype(np.float32)


def drawn_goal(problem: DagProblem, rng: np.random.Generator) -> Goal:
    """Hopes of a whale on this problem, with foresight and leaving tasks as whales have them."""
    count = problem.num_tasks
    if rng.random() < RANDOM_TARGETS:
        start = random_start(problem, rng)
        plan, to_go_s = start.plan, start.to_go_s
    else:
        plan, to_go_s = heft(problem), upward_rank_s(problem)
    to_go_s = to_go_s * (1.0 + rng.uniform(0.0, NOISE) * rng.standard_normal(count))
    times = schedule(problem, plan)
    hopes = Hopes(
        order_of(problem.arrays, to_go_s),
        times.finish_s,
        plan.gpu,
        rng.choice(FORESIGHTS) * optimistic_costs(problem.arrays, problem.mean_s_per_mb),
        leaving_tasks(moving_tasks(problem, Judged(plan, times), rng), rng),
        scale_of(problem.graph.work_s, problem.machines.speed),
    )
    return Goal(problem, hopes)


def scale_of(work: npt.NDArray[np.float64], speed: npt.NDArray[np.float64]) -> float:
    """The mean length of a task: what times are seen in."""
    return max(float(work.mean() * np.mean(1.0 / speed)), 1e-12)


MEAN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class TrainingProblems:
    """Layered and random DAGs in turn, of one size, on GPUs and networks drawn for each."""

    tasks: int
    gpus: Sequence[int]  # to choose from
    mb_per_s: Sequence[float]  # a range, drawn on a log scale
    between_gbps: Sequence[float]  # likewise
    inside_gbps: float
    least_share: float
    per_server: int
    kinds: Mapping[str, Sequence[float]]  # name -> speed, GiB

    def __post_init__(self) -> None:
        """Raise a GpuYardError, naming key, value and rule, where a problem could not be drawn."""
        check_numbers("problems", "above 0", inside_gbps=self.inside_gbps)
        check_numbers("problems", "above 0, at most 1", least_share=self.least_share)
        sizes = {f"gpus[{at}]": each for at, each in enumerate(self.gpus)}
        whole = sizes | {"tasks": self.tasks, "per_server": self.per_server}
        check_numbers("problems", "a whole number from 1", **whole)
        pairs = {key: getattr(self, key) for key in ("mb_per_s", "between_gbps")}
        for key, pair in (pairs | {f"kinds.{kind}": of for kind, of in self.kinds.items()}).items():
            if not isinstance(pair, Sequence) or len(pair) != len(("low", "high")):
                raise GpuYardError(f"problems.{key} is {pair!r}; it must be a list of two numbers")
            numbers = {f"{key}[{at}]": each for at, each in enumerate(pair)}
            check_numbers("problems", "above 0", **numbers)
            if key in pairs and pair[0] > pair[1]:
                raise GpuYardError(f"problems.{key} is {pair!r}; the lower one stands first")
        if not sizes or not self.kinds:
            key = "kinds" if sizes else "gpus"
            raise GpuYardError(f"problems.{key} is empty; give one at least")

    def __call__(self, rng: np.random.Generator) -> DagProblem:
        """The next one."""
        gpus = int(rng.choice(self.gpus))
        make = layered_graph if rng.random() < 0.5 else random_graph  # noqa: PLR2004  (a fair coin)
        mb_per_s = float(np.exp(rng.uniform(*np.log(self.mb_per_s))))
        graph = make(self.tasks, width=gpus, parents=2.5, mean_s=MEAN_S, mb_per_s=mb_per_s, rng=rng)
        found = drawn_machines(
            tuple(GpuModel(name, speed, room) for name, (speed, room) in self.kinds.items()),
            gpus=gpus, per_server=self.per_server, inside_gbps=self.inside_gbps,
            between_gbps=float(np.exp(rng.uniform(*np.log(self.between_gbps)))),
            least_share=self.least_share, rng=rng,
        )  # fmt: skip
        return dag_problem(graph, found)


class PlacementNetwork(nn.Module):
    """The same two hidden layers for every GPU, so that their order does not matter.

    value = learned - end of the task beyond the least: untrained it places as HEFT does, by the
    earliest end. Empty places are worth minus infinity.

    Shapes:
        seen: (B, K, OfPlace), see `look`; returns (B, K).
    """

    def __init__(self, hidden: int) -> None:
        """The last layer starts at zero."""
        super().__init__()
        self.first = nn.Linear(len(OfPlace), hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.last.weight)

    def forward(self, seen: Tensor) -> Tensor:
        """Values of the shortlist."""
        learned = self.last(torch.relu(self.second(torch.relu(self.first(seen)))))[..., 0]
        empty = seen[..., OfPlace.VALID] == 0
        return (learned - seen[..., OfPlace.END]).masked_fill(empty, -torch.inf)

    def weights(self) -> Weights:
        """For compiled code."""
        found = (
            self.first.weight, self.first.bias, self.second.weight, self.second.bias,
            self.last.weight[0],
        )  # fmt: skip
        return Weights(*(np.ascontiguousarray(w.detach().numpy(), np.float64) for w in found))


FORMAT = 1
COMMAND = "python scripts/train_worl.py"


class PlanPolicyError(GpuYardError):
    """A folder holds no policy of WORL-RTGS's generator."""


def save_plan_policy(folder: Path, weights: dict[str, torch.Tensor], hidden: int) -> None:
    """Write weights, then sizes; each file appears whole or not at all."""
    write_policy(folder, weights, {"format": FORMAT, "hidden": hidden})


def load_plan_policy(folder: Path) -> PlacementNetwork:
    """The network that training wrote; PlanPolicyError: it is not there, or cannot be read."""
    if not (folder / SPEC).is_file():
        raise PlanPolicyError(f"{folder / SPEC} is not there; train it first: {COMMAND}")
    try:
        found = json.loads((folder / SPEC).read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}, this version reads {FORMAT}")
        network = PlacementNetwork(int(found["hidden"]))
        weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
        network.load_state_dict(weights)
    except Exception as error:  # torch raises many kinds for a truncated or foreign file
        raise PlanPolicyError(f"{folder}: cannot be read as a policy ({error})") from error
    return network.eval()
