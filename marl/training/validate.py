"""Judging a policy while it trains, on windows that training never draws."""

import numpy as np

from marl.codec.rules import CodecRules
from marl.env.game import Game
from marl.policy.pair_score import PairScorePolicy
from marl.training.lockstep import play_greedily
from marl.training.windows import Windows
from sim.metrics.job_times import counted, jct_s


def validation_jct_s(
    policy: PairScorePolicy, game: Game, rules: CodecRules, windows: Windows, count: int
) -> float:
    """Geometric mean over `count` windows of the reported mean JCT, acting greedily."""
    simulators = [game.simulator(windows(index)) for index in range(count)]
    runs = play_greedily(policy, simulators, rules, name="marl")
    logs = [np.log(jct_s(run)[counted(run)].mean()) for run in runs]
    return float(np.exp(np.mean(logs)))
