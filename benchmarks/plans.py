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
from sim.dag.plan import makespans_s, running_times_s, schedule_of
from sim.dag.problem import DagProblem, GpuKind, dag_problem, drawn_machines
from sim.dag.search import random_start
from sim.dag.whales import nearest_loads

KINDS = (GpuKind("v100", 1.0, 16.0), GpuKind("a100", 2.2, 40.0))
PLAIN, SAMPLE, AT_ONCE = 3, 20, 50  # plans judged plainly, made, and judged in one call


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
    """Seconds by what is done, and how often faster the compiled evaluator is."""
    rng, dag, count = np.random.default_rng(1), problem.arrays, problem.num_tasks
    batch = [random_start(problem, rng) for _ in range(AT_ONCE)]
    some = [start.plan for start in batch]
    began = time.process_time()
    plain = [schedule_of(problem, plan).makespan_s for plan in some[:PLAIN]]
    plain_s = (time.process_time() - began) * plans / PLAIN
    if makespans_s(problem, some[:PLAIN]).tolist() != plain:
        raise SystemExit("the evaluators differ")
    judged_s = taken_s(lambda: makespans_s(problem, some), 5) * plans / AT_ONCE
    start, load = batch[0], np.zeros(problem.num_gpus)
    hope, gpu = running_times_s(problem, start.plan.gpu), np.zeros(count, dtype=np.int64)
    published_s = taken_s(lambda: nearest_loads(dag, hope, load, gpu), SAMPLE) * plans
    stay, flat = np.zeros(count, dtype=np.bool_), np.zeros((1, problem.num_gpus))
    ours_s = plans * taken_s(
        lambda: gap_plan(dag, start.to_go_s, hope, gpu, leaves=stay, outlook=flat), SAMPLE
    )
    return {
        "judge_plain_s": plain_s,
        "judge_compiled_s": judged_s,
        "plain_over_compiled": plain_s / judged_s,
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
