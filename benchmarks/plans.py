"""What judging and making plans for a DAG costs: plain and compiled.

    python benchmarks/plans.py [--json FILE] [--tasks N] [--gpus N] [--plans N]

Process seconds for the plans of one search as published: ten whales, fifty rounds. The plain
evaluator judges three plans, which the compiled one must equal; its time is scaled up.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sim.dag.families import layered_graph
from sim.dag.list_scheduling import gap_plan, heft
from sim.dag.plan import running_times_s, schedule
from sim.dag.problem import DagProblem, GpuModel, dag_problem, drawn_machines
from sim.dag.search import random_start
from sim.dag.whales import nearest_loads

KINDS = (GpuModel("v100", 1.0, 16.0), GpuModel("a100", 2.2, 40.0))
SAMPLE = 20  # plans judged, and made


def drawn(tasks: int, gpus: int) -> DagProblem:
    """A layered DAG, wide enough for the GPUs."""
    rng = np.random.default_rng(0)
    graph = layered_graph(tasks, width=gpus, parents=2.5, mean_s=60.0, mb_per_s=50.0, rng=rng)
    return dag_problem(graph, drawn_machines(
        KINDS, gpus=gpus, per_server=4, inside_gbps=100.0, between_gbps=0.5, least_share=0.2,
        rng=rng,
    ))  # fmt: skip


def taken_s(what: Callable[[], object], repeats: int) -> float:
    """Process seconds of one call, after one that compiles."""
    what()
    began = time.process_time()
    for _ in range(repeats):
        what()
    return (time.process_time() - began) / repeats


def measured(problem: DagProblem, plans: int) -> dict[str, float]:
    """Seconds by what is done."""
    rng, dag, count = np.random.default_rng(1), problem.arrays, problem.num_tasks
    start, load = random_start(problem, rng), np.zeros(problem.num_gpus)
    judged_s = taken_s(lambda: schedule(problem, start.plan), SAMPLE) * plans
    hope, gpu = running_times_s(problem, start.plan.gpu), np.zeros(count, dtype=np.int64)
    published_s = taken_s(lambda: nearest_loads(dag, hope, load, gpu), SAMPLE) * plans
    stay, flat = np.zeros(count, dtype=np.bool_), np.zeros((1, problem.num_gpus))
    ours_s = plans * taken_s(
        lambda: gap_plan(dag, start.to_go_s, hope, gpu, leaves=stay, outlook=flat), SAMPLE
    )
    return {
        "judge_s": judged_s,
        "published_generator_s": published_s,
        "gap_generator_s": ours_s,
        "heft_once_s": taken_s(lambda: heft(problem), 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--gpus", type=int, default=500)
    parser.add_argument("--plans", type=int, default=500)
    given = parser.parse_args()
    figures = measured(drawn(given.tasks, given.gpus), given.plans)
    for name, value in figures.items():
        print(f"{name:24} {value:.4g}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
