"""Episodes for training: windows of the training part of a workload.

Everything a training run needs besides RLlib's knobs, and the environments made from it.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from marl.codec.layout import CodecRules, Layout, layout_for
from marl.env.game import Game, Reward
from marl.env.scheduling_env import SchedulingEnv
from sim.jobs import JobTable
from sim.physics.stand_ins import NoInterference
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
        return layout_for(
            game.topology, game.partition_of_server, rules.window, 0, rules.links, rules.suspends
        )

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


def on_learned_physics(game: Game) -> Game:
    """The game with what agents are told as what happens: rewards come from the learned model."""
    return replace(game, physics=game.belief)


def without_interference(game: Game) -> Game:
    """The game in which co-location costs nothing, whatever agents are told: an ablation."""
    none = NoInterference().pair_table(game.physics.catalogue)
    pairs = replace(none, feasible=game.physics.pairs.feasible)
    return replace(game, physics=replace(game.physics, pairs=pairs))
