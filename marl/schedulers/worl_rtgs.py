"""WORL-RTGS whose plans are made by a double DQN, and the DQN alone as a learned rival."""

from pathlib import Path

import numpy as np

from marl.env import plan_env
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.dag.list_scheduling import new_lanes
from sim.dag.plan import Schedule, optimistic_costs, order_of, plan_of_schedule
from sim.dag.problem import DagArrays
from sim.dag.search import NOISE_LOG10, Meter, Start
from sim.dag.whales import WorlRtgsSearch


class ValueGenerator:
    """A plan generator: of the 16 GPUs nearest to the hoped-for load, the one of highest value."""

    def __init__(self, weights: plan_env.Weights) -> None:
        """Of a trained network."""
        self._weights = weights

    def __call__(
        self,
        dag: DagArrays,
        to_go_s: FloatArray,
        hope_s: FloatArray,
        gpu: IntArray,
        *,
        leaves: BoolArray,
        outlook: FloatArray,
    ) -> tuple[IntArray, Schedule]:
        """As `Generator` says."""
        lanes = new_lanes(len(to_go_s), len(dag.speed))
        scale_s = plan_env.scale_of(dag.work, dag.speed)
        hopes = plan_env.Hopes(order_of(dag, to_go_s), hope_s, gpu, outlook, leaves, scale_s)
        hidden = np.zeros((2, len(self._weights.first)))
        plan_env.place_by_value(dag, hopes, self._weights, plan_env.new_scratch(lanes), hidden)
        return lanes.gpu, Schedule(lanes.start, lanes.finish)


class WorlDqnSearch(WorlRtgsSearch):
    """The whales of `WorlRtgsSearch` with the learned generator in place of the greedy one.

    Source: Du, Wu, Hou, Nie, Song (Big Data Cogn. Comput. 9(11):284, 2025) derive plans by double
    DQN; how is not public. State, action and reward are ours: `marl.env.plan_env`.
    """

    name = "worl_dqn"
    wide = 0.0

    def __init__(self, *, checkpoint: str) -> None:
        """Read the policy in folder `checkpoint`, or raise a PlanPolicyError."""
        self.generator = ValueGenerator(plan_env.load_plan_policy(Path(checkpoint)).weights())


class DqnPlacerSearch:
    """The double DQN without whales: the first start plan's hopes, with fresh noise each time."""

    name = "dqn_placer"

    def __init__(self, *, checkpoint: str) -> None:
        """Read the policy in folder `checkpoint`, or raise a PlanPolicyError."""
        self._generator = ValueGenerator(plan_env.load_plan_policy(Path(checkpoint)).weights())

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        dag, count = meter.problem.arrays, meter.problem.num_tasks
        outlook = optimistic_costs(dag, meter.problem.mean_s_per_mb)
        first = meter.judge(starts[0].plan)
        while meter.left:
            noise = 10.0 ** rng.uniform(*NOISE_LOG10) * rng.standard_normal(count)
            gpu, times = self._generator(
                dag, starts[0].to_go_s * (1.0 + noise), first.schedule.finish_s, first.plan.gpu,
                leaves=np.zeros(count, dtype=np.bool_), outlook=outlook,
            )  # fmt: skip
            meter.judge(plan_of_schedule(gpu, times))
