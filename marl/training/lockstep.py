"""Several runs under one policy at the same time, so that one forward pass decides in all."""

from collections.abc import Sequence

import numpy as np
import torch

from marl.codec.layout import layout_for
from marl.codec.rounds import CodecRules, Observation, Rounds
from marl.codec.stack import stack
from marl.env.episode import NEEDS
from marl.policy.pair_score import PairScorePolicy, best_action
from sim.decision import Decision
from sim.run import Run
from sim.simulator import Simulator
from sim.view import ClusterView


class _Player:
    """One run, decided turn by turn."""

    def __init__(self, simulator: Simulator, rules: CodecRules) -> None:
        partitions = simulator.partition_of_server
        layout = layout_for(simulator.topology, partitions, rules.window, 0, rules.links)
        self.simulator = simulator
        self._views = simulator.views(NEEDS)
        self._rounds = Rounds(layout=layout, rules=rules)
        self._rounds.restart()
        self._view: ClusterView = self._views.view()
        self.seen: dict[int, Observation] = {}
        self.decisions = 0
        self.over = not self._advance()

    def act(self, action: int) -> None:
        """Carry out the action of the agent that saw `seen`, and go on to the next turn."""
        (agent,) = self.seen
        self._apply(self._rounds.decide(self._view, {agent: action}))
        self.over = not self._to_turn() and not self._advance()

    def _apply(self, decision: Decision) -> None:
        self.simulator.apply(decision)
        self._view = self._views.view()

    def _to_turn(self) -> bool:
        self.decisions += 1
        self.seen = self._rounds.observe(self._view, everyone=False)
        return bool(self.seen)

    def _advance(self) -> bool:
        """Let time pass to the next turn; False at the end."""
        while self.simulator.advance():
            self._view = self._views.view()
            self._rounds.open()
            until_s = self._rounds.pause_s(self._view)
            if until_s is not None:
                self.decisions += 1
                self._apply(Decision(wake_s=until_s))
            elif self._to_turn():
                return True
        return False


def play_greedily(
    policy: PairScorePolicy, simulators: Sequence[Simulator], rules: CodecRules, *, name: str
) -> list[Run]:
    """Play fresh `simulators` of one cluster to their ends, as `scheduler=marl` decides.

    What deciding cost is NaN in the runs, named `name`: a pass decides for all of them.
    """
    players = [_Player(simulator, rules) for simulator in simulators]
    policy.eval()
    while playing := [player for player in players if not player.over]:
        observations = stack([next(iter(player.seen.values())) for player in playing])
        with torch.no_grad():
            chosen = best_action(policy(observations).logits)
        for player, action in zip(playing, chosen, strict=True):
            player.act(action)
    return [player.simulator.outcome(name, player.decisions, np.nan, np.nan) for player in players]
