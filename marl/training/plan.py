"""A training run besides RLlib's knobs: its episodes and environments, and how it is judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from marl.codec.layout import NEEDS, CodecRules, Layout, layout_for
from marl.env.game import Game, Reward
from marl.env.scheduling_env import SchedulingEnv
from marl.net.from_torch import net_of
from marl.net.network import Net, NetLoop
from marl.policy.pair_score import PairScorePolicy, best_action
from marl.turns.turns import SideBySide
from sim.jobs import JobTable
from sim.metrics.job_times import counted, jct_s
from sim.run import Run
from sim.simulator import Simulator
from sim.traces.setting import Setting


class Workload(Protocol):
    """Anything that hands out windows."""

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of `part`."""


@dataclass(frozen=True)
class Windows:
    """Maps an episode's seed to a window of one part; never touches another part."""

    workload: Workload
    setting: Setting
    part: str
    seed: int

    def __call__(self, episode: int) -> JobTable:
        """The jobs of one episode."""
        return self.workload.window(
            part=self.part, index=episode, setting=self.setting, seed=self.seed
        )


@dataclass(frozen=True)
class Plan:
    """Picklable: remote env runners make their environments from it."""

    game: Game
    rules: CodecRules
    reward: Reward
    windows: Windows
    max_rounds: int

    @property
    def layout(self) -> Layout:
        """Padded sizes of observations."""
        game, rules = self.game, self.rules
        return layout_for(game.topology, game.partition_of_server, rules)

    def env(self, *, everyone: bool = False) -> SchedulingEnv:
        """An environment; without `everyone`, agents that have no choice do not observe."""
        return SchedulingEnv(
            game=self.game,
            layout=self.layout,
            rules=self.rules,
            reward=self.reward,
            make_jobs=self.windows,
            max_rounds=self.max_rounds,
            everyone=everyone,
        )


def play_greedily(
    policy: PairScorePolicy, simulators: Sequence[Simulator], rules: CodecRules, *, name: str
) -> list[Run]:
    """Play fresh `simulators` of one cluster to their ends, as `scheduler=marl` decides.

    What deciding cost is NaN in the runs, named `name`: it cannot be told from the rest.
    """
    first = simulators[0]
    layout = layout_for(first.topology, first.partition_of_server, rules)
    net = net_of(policy, layout)
    if net is not None:
        return [_played(simulator, layout, rules, net, name) for simulator in simulators]
    games = SideBySide.fresh(simulators, layout, rules, gathers=False)
    policy.eval()
    while len(rows := games.playing) > 0:
        observations = {key: torch.from_numpy(value) for key, value in games.seen(rows).items()}
        with torch.no_grad():
            chosen = best_action(policy(observations).logits)
        games.act(rows, np.array(chosen, dtype=np.int64))
    return [run.simulator.outcome(name, run.decisions, np.nan, np.nan) for run in games.runs]


def _played(simulator: Simulator, layout: Layout, rules: CodecRules, net: Net, name: str) -> Run:
    loop = NetLoop(simulator.views(NEEDS), layout, rules, net)
    simulator.play(loop, None)
    return simulator.outcome(name, loop.decisions, np.nan, np.nan)


def validation_jct_s(
    policy: PairScorePolicy, game: Game, rules: CodecRules, windows: Windows, count: int
) -> float:
    """Geometric mean over `count` windows of the reported mean JCT, acting greedily."""
    simulators = [game.simulator(windows(index)) for index in range(count)]
    runs = play_greedily(policy, simulators, rules, name="marl")
    logs = [np.log(jct_s(run)[counted(run)].mean()) for run in runs]
    return float(np.exp(np.mean(logs)))
