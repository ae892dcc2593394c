"""Several runs under one policy at the same time, so that one forward pass decides in all."""

from collections.abc import Sequence

import torch

from marl.codec.layout import layout_for
from marl.codec.rounds import CodecRules, Observation, Rounds
from marl.codec.stack import stack
from marl.env.episode import NEEDS
from marl.env.game import Game
from marl.policy.pair_score import PairScorePolicy, best_action
from sim.decision import Decision
from sim.jobs import JobTable
from sim.run import Run
from sim.view import ClusterView


class _Player:
    """One run, decided turn by turn."""

    def __init__(self, game: Game, jobs: JobTable, rules: CodecRules) -> None:
        layout = layout_for(game.topology, game.partition_of_server, rules.window, 0)
        self.simulator = game.simulator(jobs)
        self._views = self.simulator.views(NEEDS)
        self._rounds = Rounds(layout=layout, rules=rules)
        self._rounds.restart()
        self._view: ClusterView = self._views.view()
        self.seen: dict[int, Observation] = {}
        self.turns = 0
        self.over = not self._advance()

    def act(self, action: int) -> None:
        """Carry out the action of the agent that saw `seen`, and go on to the next turn."""
        (agent,) = self.seen
        self._apply(self._rounds.decide(self._view, {agent: action}))
        self.over = not self._to_turn() and not self._advance()

    def _apply(self, decision: Decision) -> None:
        self.simulator.apply(decision)
        self._view = self._views.view()
        self.turns += 1

    def _to_turn(self) -> bool:
        self.seen = self._rounds.observe(self._view, everyone=False)
        return bool(self.seen)

    def _advance(self) -> bool:
        """Let time pass to the next turn; False at the end."""
        while self.simulator.advance():
            self._view = self._views.view()
            self._rounds.open()
            if self._to_turn():
                return True
        return False


def play_greedily(
    policy: PairScorePolicy, game: Game, windows: Sequence[JobTable], rules: CodecRules
) -> list[Run]:
    """Runs over `windows` as `scheduler=marl` decides them; wall times are not told apart."""
    players = [_Player(game, jobs, rules) for jobs in windows]
    policy.eval()
    while playing := [player for player in players if not player.over]:
        observations = stack([next(iter(player.seen.values())) for player in playing])
        with torch.no_grad():
            chosen = best_action(policy(observations).logits)
        for player, action in zip(playing, chosen, strict=True):
            player.act(action)
    return [player.simulator.outcome("marl", player.turns, 0.0, 0.0) for player in players]
