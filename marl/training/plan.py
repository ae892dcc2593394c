"""Everything a training run needs besides RLlib's knobs, and the environments made from it."""

from dataclasses import dataclass, replace

from marl.codec.layout import Layout, layout_for
from marl.codec.rules import CodecRules
from marl.env.game import Game
from marl.env.reward import Reward
from marl.env.scheduling_env import SchedulingEnv
from marl.training.windows import Windows
from sim.physics.stand_ins import NoInterference


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
