"""Plays one run and measures what TopDRL is judged by."""

from collections.abc import Mapping

import numpy as np
from experiment import Experiment

from sim.jobs import JobTable
from sim.metrics.summary import summarise
from sim.metrics.throughput import full_speed, spans, throughput
from sim.physics.york_network import YorkNetwork
from sim.protocols import Scheduler
from sim.simulator import simulate


def measures(
    experiment: Experiment, jobs: JobTable, scheduler: Scheduler, network: YorkNetwork
) -> Mapping[str, float | int]:
    """The usual metrics, and before them throughput and communication cost.

    `throughput_tflops` is the mean from the first submission to the last, while jobs keep coming;
    `throughput_drained_tflops` that from the first submission to the last job's end.
    `placement_cost` is the mean over all jobs of the weights that their placement's tree adds up
    to, `placement_cost_ratio` the mean over the most compact ones.
    """
    game = experiment.game
    run = simulate(game.simulator(jobs), scheduler, experiment.seed, None)
    worth = full_speed(jobs, game.topology, game.physics) * network.unit_speed
    last_s, end_s = float(jobs.submit_s[-1]), float(np.nanmax(run.finish_s))
    servers, racks = spans(run)
    cost = network.cost(jobs.num_gpus, servers, racks)
    best = network.least_cost(jobs.num_gpus, game.topology)
    return {
        "throughput_tflops": throughput(run, worth, 0.0, last_s),
        "throughput_drained_tflops": throughput(run, worth, 0.0, end_s),
        "placement_cost": float(cost.mean()),
        "placement_cost_ratio": float((cost / best).mean()),
        "jct_all_mean_s": float(np.nanmean(run.finish_s - jobs.submit_s)),
        **summarise(run),
    }
