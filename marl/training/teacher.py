"""The teacher of the warm start: a composite heuristic, spelled in the agents' own actions."""

from dataclasses import dataclass

import numpy as np

from marl.codec.layout import Layout
from marl.codec.rules import Observation
from marl.turns.actions import EXCLUSIVE, FORWARD, MODES, SHARED, START
from sim.scoring.table import OfForward, OfPair


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
        pairs = observation["pairs"]  # (W, S, MODES, OfPair)
        compact = (pairs[..., OfPair.LEGAL] > 0) & (pairs[..., OfPair.COMPACT] > 0)
        own, victim = pairs[..., OfPair.OWN_SLOWDOWN], pairs[..., OfPair.WORST_VICTIM]
        speed = np.exp(-own) + np.exp(-victim)
        rank = np.where(compact, 0.0, np.inf)
        rank[..., EXCLUSIVE] += pairs[..., EXCLUSIVE, OfPair.FRAGMENTS]
        together = speed[..., SHARED]
        rank[..., SHARED] += np.where(together > self.least_speed, 10.0 - together, np.inf)
        return rank.reshape(len(rank), -1)

    def _forwards(self, observation: Observation, mask: np.ndarray) -> np.ndarray:
        """(W, M) preference, lower first, inf where the rule does not forward."""
        rows = observation["forwards"]
        legal = self.layout.sizes.part(FORWARD, mask)
        able = legal & (rows[..., OfForward.PLACEABLE] > 0)
        return np.where(able, rows[..., OfForward.WORK_AHEAD], np.inf)
