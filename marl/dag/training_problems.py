"""Generated problems that the plan generator learns on."""

from collections.abc import Mapping, Sequence

import numpy as np

from sim.dag.machines import GpuKind, drawn_machines
from sim.dag.problem import DagProblem, dag_problem
from sim.dag.sources.generated import layered_graph, random_graph

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
