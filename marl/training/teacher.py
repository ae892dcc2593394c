"""The teacher of the warm start: a composite heuristic, spelled in the agents' own actions."""

from dataclasses import dataclass

import numpy as np

from marl.codec.candidates import MODES
from marl.codec.costs import SELF, VICTIM
from marl.codec.layout import Layout
from marl.codec.rules import Observation
from marl.turns.actions import FORWARD, START

LEGAL, COST, LEFT, COMPACT = 0, 1, 8, 9  # columns of a pair row; costs start at COST
PLACEABLE, WORK_AHEAD = 1, 3  # columns of a forward row


@dataclass(frozen=True)
class RuleTeacher:
    """Shortest predicted job first, waits for a compact placement, shares if it pays, forwards.

    Job by job in the window's order: the tightest compact exclusive start; else the compact
    shared start with the highest predicted combined speed above `least_speed`; else a forward to
    the peer that could start it now and has the least shorter work ahead. If no job has any, wait.
    """

    layout: Layout
    least_speed: float

    def act(self, observation: Observation) -> int:
        """The action of one agent."""
        mask = observation["action_mask"] > 0
        if not mask[:-1].any():
            return self.layout.wait  # it is another agent's turn
        starts, forwards = self._starts(observation), self._forwards(observation, mask)
        can_start = np.isfinite(starts).any(axis=1)
        can_forward = np.isfinite(forwards).any(axis=1)
        able = np.flatnonzero(can_start | can_forward)
        if len(able) == 0:
            return self.layout.wait if mask[-1] else int(np.argmax(mask))
        job = int(able[0])
        if can_start[job]:
            return self.layout.sizes.action(START, job, *divmod(int(np.argmin(starts[job])), MODES))
        return self.layout.sizes.action(FORWARD, job, int(np.argmin(forwards[job])))

    def _starts(self, observation: Observation) -> np.ndarray:
        """(W, S * MODES) preference, lower first, inf where the rule does not start."""
        pairs = observation["pairs"]  # (W, S, MODES, PAIR_FEATURES)
        compact = (pairs[..., LEGAL] > 0) & (pairs[..., COMPACT] > 0)
        speed = np.exp(-pairs[..., COST + SELF]) + np.exp(-pairs[..., COST + VICTIM])
        rank = np.where(compact, 0.0, np.inf)
        rank[..., 0] += pairs[..., 0, LEFT]
        rank[..., 1] += np.where(speed[..., 1] > self.least_speed, 10.0 - speed[..., 1], np.inf)
        return rank.reshape(len(rank), -1)

    def _forwards(self, observation: Observation, mask: np.ndarray) -> np.ndarray:
        """(W, M) preference, lower first, inf where the rule does not forward."""
        rows = observation["forwards"]
        legal = self.layout.sizes.part(FORWARD, mask)
        able = legal & (rows[..., PLACEABLE] > 0)
        return np.where(able, rows[..., WORK_AHEAD], np.inf)
