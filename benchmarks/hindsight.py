"""What an agent that knew the future would win over the shipped one: what is there to learn.

    python benchmarks/hindsight.py [key=value ...]

Keys are those of `gpuyard learn`, on whose held-out windows it plays. At each turn three other
actions, near ones most often, are tried in copies of the run that play on for a day with the jobs
and durations to come, and the one that costs least is done. About twenty minutes.
"""

import sys

import numpy as np
from setup_run import compose_config, experiment_of

from marl.policy import policy_folder
from marl.policy.branching import Brancher, Sampling
from marl.policy.build import load_policy
from marl.policy.pair_score import PairScorePolicy
from marl.training.episodes import play_greedily
from sim.report.job_times import mean_interval, mean_jct_s
from sim.times import HOUR_S

SAMPLING = Sampling(alternatives=3, horizon_s=24 * HOUR_S, temperature=1.0, uniform=0.0)


def main() -> None:
    """Play window after window, and print what was won so far."""
    config = compose_config("learn", "held_out.windows=12", *sys.argv[1:])
    experiment, held_out = experiment_of(config), config["held_out"]
    policy, _, rules = load_policy(policy_folder("pretrained"))
    assert isinstance(policy, PairScorePolicy)
    brancher, logs = Brancher(policy, rules, SAMPLING), list[float]()
    for window in range(held_out["first"], held_out["first"] + held_out["windows"]):
        jobs = experiment.window("validation", window)
        (plain,) = play_greedily(policy, [experiment.world.simulator(jobs)], rules, name="marl")
        knowing = brancher.in_hindsight(experiment.world.simulator(jobs), window)
        logs.append(float(np.log(mean_jct_s(knowing) / mean_jct_s(plain))))
        ratio = np.exp(mean_interval(logs, 0.95).numbers)
        print(f"window {window}: {np.exp(logs[-1]):.3f}; so far {ratio[0]:.3f} "
              f"[{ratio[1]:.3f}, {ratio[2]:.3f}]", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
