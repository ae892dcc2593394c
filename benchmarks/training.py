"""Trained environment steps a second, through RLlib and by a bare PyTorch PPO loop.

    python benchmarks/training.py [--json FILE] [--agents 4 16] [--runners N] [--gpu]

Both train the main job's network on the main job's environment with its knobs, in one process on
one thread, taking turns iteration by iteration; the ratio of their speeds is what counts.
`--runners N` adds RLlib with N processes that sample, on cores of their own. `--gpu` adds it with
its learner on a CUDA device, and is passed over where there is none. Beside them, agent turns a
second that one core plays greedily in compiled code (`marl.net`), which is how evolution strategies
would learn: the main job's network, and a small one; `--played`: only these.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from bare_ppo import BarePpo
from environment import plan_of
from ray.rllib.algorithms.ppo import PPO
from setup_run import compose_config

from marl.codec.layout import NEEDS
from marl.net.from_torch import net_of
from marl.net.network import NetLoop
from marl.policy.build import PolicySpec, build_policy
from marl.rllib.algorithm import RllibSchedulingEnv, build_ppo
from marl.rllib.cluster import connect
from marl.rllib.ray_spec import LocalRay
from marl.training.plan import Plan
from marl.training.spec import PpoSpec
from sim.kernel.advance import FULL, PAUSE
from sim.scoring.weights import ScoreWeights, score_weights_of

SEED, SERVERS_PER_AGENT, JOBS = 0, 4, 600
SMALL = {"gpu_dim": 4, "hidden_dim": 8, "head_dim": 8}


def specs(config: dict[str, Any]) -> tuple[PpoSpec, PolicySpec]:
    """The main job's knobs and network."""
    knobs = {key: value for key, value in config["algo"].items() if key != "_target_"}
    sizes = {key: config["encoder"][key] for key in ("gpu_dim", "hidden_dim", "rounds")}
    return PpoSpec(**knobs), PolicySpec(
        **sizes,
        head_dim=config["policy"]["head_dim"],
        prior_scale=float(config["policy"]["prior_scale"]),
    )


def bare(plan: Plan, ppo: PpoSpec, policy: PolicySpec) -> BarePpo:
    """The reference, on copies as RLlib's runner has them."""
    envs = [
        RllibSchedulingEnv(plan.env(), seed=copy, first_cut_frac=(copy + 0.5) / ppo.envs_per_runner)
        for copy in range(ppo.envs_per_runner)
    ]
    return BarePpo(build_policy(policy, plan.layout.racks), ppo, envs)


def through_rllib(plan: Plan, config: dict[str, Any], *, runners: int = 0, gpus: int = 0) -> PPO:
    """What `scripts/train.py` trains with; the copies are divided among the runners."""
    ppo, policy = specs(config)
    ppo = replace(ppo, env_runners=runners, envs_per_runner=ppo.envs_per_runner // max(1, runners))
    given = {key: value for key, value in config["ray"].items() if key != "_target_"}
    ray = LocalRay(**given | {"num_env_runners": runners, "num_gpus_per_learner": gpus})
    connect(ray)
    return build_ppo(
        make_env=partial(Plan.env, plan), ppo=ppo, policy=policy, num_racks=plan.layout.racks,
        weights=None, seed=SEED, ray=ray,
    )  # fmt: skip


def played(plan: Plan, policy: PolicySpec, prior: ScoreWeights, windows: int) -> float:
    """Agent turns a second of a network as training begins with it, whole windows, compiled."""
    network = build_policy(policy, plan.layout.racks)
    assert network.prior is not None
    network.prior.take(prior)
    net = net_of(network, plan.layout)
    assert net is not None
    turns, took_s = 0, 0.0
    for window in range(-1, windows):  # the first compiles and warms
        simulator = plan.game.simulator(plan.windows(max(window, 0)))
        loop = NetLoop(simulator.views(NEEDS), plan.layout, plan.rules, net)
        began, acted = time.perf_counter(), 0
        while (verdict := loop.play(loop.decisions + 1)) in {PAUSE, FULL}:
            acted += verdict == PAUSE
            if verdict == FULL:
                simulator.flush()
        if window >= 0:
            turns, took_s = turns + acted, took_s + time.perf_counter() - began
    return turns / took_s


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its seconds."""
    began = time.perf_counter()
    return call(), time.perf_counter() - began


def speeds(agents: int, iterations: int, *, runners: int, gpu: bool) -> dict[str, list[float]]:
    """Environment steps a second of each contestant, in iterations that take turns."""
    config = compose_config("train", f"topology.servers={agents * SERVERS_PER_AGENT}",
                            f"agents.count={agents}", f"workload.num_jobs={JOBS}",
                            "workload.max_gang=16", f"seed={SEED}")  # fmt: skip
    plan = plan_of(config)
    reference = bare(plan, *specs(config))
    algorithms = {}
    if runners:  # first: it starts a Ray with room for them
        algorithms[f"rllib_{runners}_runners"] = through_rllib(plan, config, runners=runners)
    algorithms["rllib"] = through_rllib(plan, config)
    if gpu:
        algorithms["rllib_gpu"] = through_rllib(plan, config, gpus=1)
    found: dict[str, list[float]] = {name: [] for name in ("bare", *algorithms)}
    for _ in range(iterations + 1):
        (steps, _), took_s = timed(reference.iterate)
        found["bare"].append(steps / took_s)
        for name, algorithm in algorithms.items():
            result, took_s = timed(algorithm.train)
            found[name].append(result["env_runners"]["num_env_steps_sampled"] / took_s)
    for algorithm in algorithms.values():
        algorithm.stop()
    return {name: each[1:] for name, each in found.items()}  # the first compiles and warms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--agents", type=int, nargs="+", default=(4, 16))
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--runners", type=int, default=0, help="also sample in so many processes")
    parser.add_argument("--played", action="store_true", help="only what compiled code plays")
    parser.add_argument("--gpu", action="store_true", help="also learn on a CUDA device")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gpu = options.gpu and torch.cuda.is_available()
    if options.gpu and not gpu:
        print("--gpu: skipped, torch sees no CUDA device")
    numbers = {}
    print("agents  trainer          env steps/s  over the bare loop")
    for agents in () if options.played else options.agents:
        found = speeds(agents, options.iterations, runners=options.runners, gpu=gpu)
        for name, each in found.items():
            pairs = zip(each, found["bare"], strict=True)
            median, ratio = statistics.median(each), statistics.median(a / b for a, b in pairs)
            print(f"{agents:6}  {name:15} {median:12,.0f}  {ratio:18.2f}", flush=True)
            numbers |= {f"agents{agents}_{name}_steps_per_s": median}
            numbers |= {f"agents{agents}_{name}_over_bare": ratio}
    config = compose_config("train", "agents.count=8", f"workload.num_jobs={JOBS}", f"seed={SEED}")
    plan, spec = plan_of(config), specs(config)[1]
    print("network   agent turns/s played, one core")
    prior = score_weights_of(config["policy"]["prior"], "policy.prior")
    for name, each in (("main", spec), ("small", replace(spec, **SMALL))):
        numbers[f"played_{name}_turns_per_s"] = played(plan, each, prior, windows=10)
        print(f"{name:8} {numbers[f'played_{name}_turns_per_s']:12,.0f}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
