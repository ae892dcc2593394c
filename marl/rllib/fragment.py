"""What one copy of the environment played since the last batch, divisible among learners."""

import copy

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode


class Fragment(MultiAgentEpisode):
    """Complete turns of some agents; a turn has what the agent saw next.

    RLlib divides a batch among its learners by steps of the environment. Agents that act at
    different times then have pieces without a turn, which it cannot stack. Here a piece is a range
    of turns, agent after agent: `len` counts them, and cutting loses and repeats none. An agent
    that is cut has its next turn's observation in the first piece, so that both parts keep the
    value of what follows.
    """

    def __len__(self) -> int:
        """Turns of all agents."""
        return sum(map(len, self.agent_episodes.values()))

    def env_steps(self) -> int:
        """Steps of the environment that the turns come from."""
        return int(self.env_t - self.env_t_started)

    def __getitem__(self, item: slice) -> "Fragment":
        """A range of turns."""
        return self.slice(item)

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> "Fragment":
        """The turns `slice_`, step 1. Nothing here looks back, whatever the buffer should be."""
        del len_lookback_buffer
        first, last, _ = slice_.indices(len(self))
        piece = copy.copy(self)
        piece.agent_episodes = {}
        for agent, turns in self.agent_episodes.items():
            here = slice(max(first, 0), min(last, len(turns)))
            if here.start < here.stop:
                piece.agent_episodes[agent] = _cut(turns, here)
            first, last = first - len(turns), last - len(turns)
        return piece


def _cut(turns: SingleAgentEpisode, here: slice) -> SingleAgentEpisode:
    if here.start == 0 and here.stop == len(turns):
        return turns
    piece = turns.slice(here, len_lookback_buffer=0)
    for name in ("agent_id", "module_id", "multi_agent_episode_id"):  # RLlib forgets whose it was
        setattr(piece, name, getattr(turns, name))
    return piece
