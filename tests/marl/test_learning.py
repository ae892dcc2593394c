"""PPO from random weights finds an optimum that is known by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marl.env.layout import CodecRules, Observation
from marl.env.scheduling_env import SchedulingEnv
from marl.policy.build import PolicySpec, build_policy, save_policy
from marl.policy.pair_score import PairScorePolicy, stack
from marl.schedulers.marl import MarlScheduler
from sim.jobs import JobTable
from sim.simulator import simulate
from tests.marl.worlds import any_legal, env_of, plain_world, ppo_spec, total_rewards
from tests.sim.worlds import Job, job_table

pytestmark = pytest.mark.ray

BURST_S = 400.0


@dataclass(frozen=True)
class Bursts:
    """Every 400 s a short, a middle and a long job arrive at partition 0, in any order.

    Two partitions have one GPU each, so a burst is three jobs on two equal machines, over before
    the next one (20 + 240 < 400). Shortest processing time first is optimal (Conway, Maxwell and
    Miller, Theory of Scheduling, 1967): short first, middle on the other GPU, long after short:

        GPU 0  | s |------ l ------|        s   in 10 to 20
        GPU 1  |--- m ---|                  m   in 60 to 120
                                            l   in 180 to 240

    with JCTs s, m and s + l, so the mean is (2 s + m + l) / 3, and the same if m and l change
    places. Partition 0 must therefore start the short job and forward one of the others at once.
    For s = 15, m = 90, l = 210 that is 110. Keeping all three costs at least
    (15 + 105 + 315) / 3 = 145; starting with the long job and forwarding the middle one
    (210 + 90 + 105) / 3 = 135, with the middle one and forwarding the long one
    (90 + 210 + 105) / 3 = 135.
    """

    count: int

    def __call__(self, seed: int) -> JobTable:
        rng = np.random.default_rng(seed)
        jobs = []
        for burst in range(self.count):
            durations_s = [rng.uniform(10, 20), rng.uniform(60, 120), rng.uniform(180, 240)]
            jobs += [Job(burst * BURST_S, 1, d) for d in rng.permutation(durations_s)]
        return job_table(jobs)

    def best_jct_s(self, seed: int) -> float:
        bursts = np.sort(self(seed).duration_s.reshape(-1, 3))
        return float((2.0 * bursts[:, 0] + bursts[:, 1] + bursts[:, 2]).mean() / 3.0)


WORLD, BURSTS = plain_world(2, 1, 2, servers_per_rack=1), Bursts(20)
RULES = CodecRules(window=4, only_placeable=True, sharing=False, patience_s=1e9)
POLICY = PolicySpec(gpu_dim=4, hidden_dim=16, rounds=1, head_dim=16, prior_scale=0.0)
PPO = ppo_spec(
    iterations=12, batch_agent_steps=512, minibatch_agent_steps=128, epochs=6, learning_rate=5e-3,
    gamma=0.98, entropy=0.003, value_clip=1e6, env_runners=0, envs_per_runner=4,
)  # fmt: skip
UNSEEN = range(10_000, 10_005)  # episodes' seeds in training are drawn from 2^31


def make_env() -> SchedulingEnv:
    return env_of(WORLD, BURSTS, rules=RULES, own_weight=0.5, scale_s=100.0)


def fresh(seed: int) -> PairScorePolicy:
    torch.manual_seed(seed)
    return build_policy(POLICY)


def over_best(policy: PairScorePolicy, folder: Path) -> float:
    """Mean over unseen episodes of mean JCT over the optimum, deployed as a scheduler."""
    save_policy(folder, policy, POLICY, RULES)
    scheduler = MarlScheduler(checkpoint=str(folder))
    ratios = []
    for seed in UNSEEN:
        jobs = BURSTS(seed)
        run = simulate(WORLD.simulator(jobs), scheduler, 0, None)
        ratios.append(float((run.finish_s - jobs.submit_s).mean()) / BURSTS.best_jct_s(seed))
    return float(np.mean(ratios))


def played_over_best(act: Callable[[str, Observation], int]) -> float:
    """The same for a player in the environment, who may toss coins."""
    ratios = []
    for seed in UNSEEN:
        env = env_of(WORLD, lambda _, seed=seed: BURSTS(seed), rules=RULES)
        _, jct_s = total_rewards(env, act, 0)
        ratios.append(jct_s / BURSTS.best_jct_s(seed))
    return float(np.mean(ratios))


def exploring(policy: PairScorePolicy) -> Callable[[str, Observation], int]:
    """Samples as it does in training: good only if the policy is sure, not merely leaning."""
    generator = torch.Generator().manual_seed(0)

    def act(_: str, observation: Observation) -> int:
        with torch.no_grad():
            chances = torch.softmax(policy(stack([observation])).logits[0], -1)
        return int(torch.multinomial(chances, 1, generator=generator))

    return act


def test_ppo_finds_the_optimum_from_random_weights(trainer_of: Callable[..., Any], tmp_path: Path):
    untrained = [over_best(fresh(seed), tmp_path / f"untrained{seed}") for seed in range(6)]
    assert min(untrained) >= 1.0 - 1e-9  # nobody beats the optimum
    assert np.mean(untrained) > 1.3
    rng = np.random.default_rng(0)
    assert played_over_best(lambda _, o: any_legal(rng, o)) > 1.3
    worst = int(np.argmax(untrained))
    weights = fresh(worst).state_dict()
    trainer = trainer_of(make_env=make_env, ppo=PPO, policy=POLICY, weights=weights, seed=0)
    assert over_best(trainer.policy(), tmp_path / "before") == untrained[worst] > 2.0
    assert played_over_best(exploring(trainer.policy())) > 1.3
    for _ in range(PPO.iterations):
        trainer.iterate()
    assert over_best(trainer.policy(), tmp_path / "after") < 1.05
    assert played_over_best(exploring(trainer.policy())) < 1.05
