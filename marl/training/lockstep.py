"""Several runs under one policy at the same time, so that one forward pass decides in all."""

from collections.abc import Sequence

import numpy as np
import torch

from marl.codec.layout import layout_for
from marl.codec.rules import CodecRules
from marl.policy.pair_score import PairScorePolicy, best_action
from marl.turns.turns import SideBySide
from sim.run import Run
from sim.simulator import Simulator


def play_greedily(
    policy: PairScorePolicy, simulators: Sequence[Simulator], rules: CodecRules, *, name: str
) -> list[Run]:
    """Play fresh `simulators` of one cluster to their ends, as `scheduler=marl` decides.

    What deciding cost is NaN in the runs, named `name`: a pass decides for all of them.
    """
    first = simulators[0]
    layout = layout_for(
        first.topology, first.partition_of_server, rules.window, 0, rules.links, rules.suspends
    )
    games = SideBySide.fresh(simulators, layout, rules, gathers=False)
    policy.eval()
    while len(rows := games.playing) > 0:
        observations = {key: torch.from_numpy(value) for key, value in games.seen(rows).items()}
        with torch.no_grad():
            chosen = best_action(policy(observations).logits)
        games.act(rows, np.array(chosen, dtype=np.int64))
    return [run.simulator.outcome(name, run.decisions, np.nan, np.nan) for run in games.runs]
