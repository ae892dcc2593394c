"""Turns a second by agents and servers, with random legal actions.

    python benchmarks/environment.py [--json FILE] [--agents 1 4 16] [--servers 16 64 312]

A step is one round of `SchedulingEnv` (simulator, codec, masks, rewards); an agent step is one
agent's observation and action in it; turns are those of 16 windows side by side in compiled calls
(`marl.env`), which is what environments stand on. No network decides: this is the ceiling of
sampling. Last, milliseconds of a fork of a run amid it, and of one into an earlier fork's arrays.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from setup_run import compose_config, experiment_of

from marl.env.layout import CodecRules
from marl.env.scheduling_env import SchedulingEnv
from marl.env.turns import SideBySide, Turns
from marl.env.world import DelayReward
from marl.training.plan import Plan, Windows

SEED, BUDGET_S, WINDOWS = 0, 5.0, 16


def main_plan(agents: int, servers: int, jobs: int) -> Plan:
    """The world of the main job on a leaf-spine of 8-GPU servers."""
    config = compose_config(
        "train", f"topology.servers={servers}", f"agents.count={agents}",
        f"workload.num_jobs={jobs}", "workload.max_gang=8", f"seed={SEED}",
    )  # fmt: skip
    return plan_of(config)


def plan_of(config: dict[str, Any]) -> Plan:
    """What `scripts/train.py` would train on."""
    experiment = experiment_of(config)
    return Plan(
        world=experiment.world,
        rules=CodecRules(**config["rules"]),
        reward=DelayReward(own_weight=0.3, scale_s=1000.0),
        windows=Windows(experiment, "train"),
        max_rounds=config["max_rounds"],
    )


def steps_per_s(env: SchedulingEnv, budget_s: float) -> tuple[float, float]:
    """Steps and agent steps a second over about `budget_s` of play."""
    rng, steps, agent_steps, spent_s = np.random.default_rng(SEED), 0, 0, 0.0
    env.reset(seed=SEED)
    while spent_s < budget_s:
        observations, _ = env.reset()
        began = time.perf_counter()
        while env.agents and time.perf_counter() - began < budget_s:
            actions = {
                agent: int(rng.choice(np.flatnonzero(seen["action_mask"])))
                for agent, seen in observations.items()
            }
            observations, *_ = env.step(actions)
            steps += 1
            agent_steps += len(actions)
        spent_s += time.perf_counter() - began
    return steps / spent_s, agent_steps / spent_s


def turns_per_s(plan: Plan, budget_s: float) -> float:
    """Turns a second of 16 windows side by side over about `budget_s` of play."""
    rng, turns, spent_s = np.random.default_rng(SEED), 0, 0.0
    while spent_s < budget_s:
        simulators = [plan.world.simulator(plan.windows(n)) for n in range(WINDOWS)]
        runs = SideBySide.fresh(simulators, plan.layout, plan.rules, gathers=True)
        began = time.perf_counter()
        while len(rows := runs.playing) > 0 and time.perf_counter() - began < budget_s:
            mask = runs.buffers.action_mask[rows]
            runs.act(rows, (mask * rng.random(mask.shape, dtype=np.float32)).argmax(1))
            turns += len(rows)
        spent_s += time.perf_counter() - began
    return turns / spent_s


def fork_ms(plan: Plan, repeats: int) -> tuple[float, float]:
    """Milliseconds of a fork after 300 turns, and of one into an earlier fork's arrays."""
    run = Turns(plan.world.simulator(plan.windows(0)), plan.layout, plan.rules, gathers=True)
    run.next()
    for _ in range(300):
        run.act(int(run.seen()["action_mask"].argmax()))
        run.next()
    began = time.perf_counter()
    for _ in range(repeats):
        twin = run.fork()
    forked = time.perf_counter()
    for _ in range(repeats):
        twin.become(run)
    return (1e3 * (forked - began) / repeats, 1e3 * (time.perf_counter() - forked) / repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--agents", type=int, nargs="+", default=(1, 2, 4, 8, 16))
    parser.add_argument("--servers", type=int, nargs="+", default=(16, 64, 312))
    parser.add_argument("--jobs", type=int, default=600, help="jobs of an episode")
    parser.add_argument("--budget-s", type=float, default=BUDGET_S, help="play per cell")
    options = parser.parse_args()
    numbers: dict[str, float] = {}
    print("agents servers    steps/s  agent steps/s    turns/s   fork ms  into ms")
    for servers in options.servers:
        for agents in options.agents:
            plan = main_plan(agents, servers, options.jobs)
            env = plan.env()
            steps_per_s(env, 0.1)  # compiles
            steps, agent_steps = steps_per_s(env, options.budget_s)
            turns = turns_per_s(plan, options.budget_s)
            fork, into = fork_ms(plan, 200)
            print(f"{agents:6} {servers:7} {steps:10,.0f} {agent_steps:14,.0f} {turns:10,.0f} "
                  f"{fork:9.2f} {into:8.2f}")  # fmt: skip
            cell = f"agents{agents}_servers{servers}"
            numbers |= {f"{cell}_steps_per_s": steps, f"{cell}_agent_steps_per_s": agent_steps,
                        f"{cell}_turns_per_s": turns, f"{cell}_fork_ms": fork,
                        f"{cell}_fork_into_ms": into}  # fmt: skip
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
