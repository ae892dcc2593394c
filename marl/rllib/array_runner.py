"""An env runner that samples all copies of the environment with one forward pass a step."""

import copy
import time
import uuid
from collections.abc import KeysView
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import (
    NUM_AGENT_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED,
    NUM_EPISODES,
    NUM_MODULE_STEPS_SAMPLED,
    SAMPLE_TIMER,
    WEIGHTS_SEQ_NO,
)

from marl.env.layout import Observation
from marl.policy.pair_score import stack
from marl.rllib.cluster import RETURN_WINDOW, SHARED, WHOLE_RETURN

ELAPSED_S = "elapsed_s"  # column of batches: seconds until the agent's next turn


class Fragment(MultiAgentEpisode):
    """Complete turns of some agents; a turn has what the agent saw next.

    RLlib divides a batch among its learners by steps of the environment. Agents that act at
    different times then have pieces without a turn, which it cannot stack. Here a piece is a range
    of turns, agent after agent: `len` counts them, and cutting loses and repeats none. An agent
    that is cut has its next turn's observation in the first piece, so that both parts keep the
    value of what follows.
    """

    @property
    def agent_ids(self) -> KeysView[str]:
        """In one order: RLlib's set of names, of which it makes batches, has one a process."""
        return self.agent_episodes.keys()

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


@dataclass
class Track:
    """One agent's turns in one episode, since the last fragment."""

    observations: list[Observation] = field(default_factory=list)
    seen_s: list[float] = field(default_factory=list)  # when
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # until the agent's next turn
    log_p: list[float] = field(default_factory=list)
    logits: list[np.ndarray] = field(default_factory=list)

    @property
    def complete(self) -> int:
        """Turns whose next observation is known."""
        return max(len(self.observations) - 1, 0)

    def cut(self) -> "Track":
        """Hand over the complete turns and the observation after them; keep what hangs."""
        n, names = self.complete, ("actions", "rewards", "log_p", "logits")
        seen = self.observations[: n + 1], self.seen_s[: n + 1]
        done = Track(*seen, *(getattr(self, key)[:n] for key in names))
        self.observations, self.seen_s = self.observations[n:], self.seen_s[n:]
        for key in names:
            setattr(self, key, getattr(self, key)[n:])
        return done


@dataclass
class Ongoing:
    """One copy of the environment and the episode in it."""

    env: Any  # RllibSchedulingEnv
    tracks: dict[str, Track] = field(default_factory=dict)
    waiting: dict[str, Observation] = field(default_factory=dict)  # agents that have to act
    steps: int = 0  # of the environment, since the last fragment
    whole_steps: int = 0
    whole_return: float = 0.0
    began_s: float = 0.0
    id_: str = ""  # of the episode: its fragments have it in common

    def restart(self) -> None:
        """The next episode."""
        observations, _ = self.env.reset()
        self.tracks, self.waiting = {}, {}
        self.steps, self.whole_steps, self.whole_return = 0, 0, 0.0
        self.began_s, self.id_ = time.perf_counter(), uuid.uuid4().hex
        self.see(observations)

    def see(self, observations: dict[str, Observation]) -> int:
        """Note what agents that are to act see; how many turns that completes."""
        self.waiting = observations
        completed = 0
        for agent, observation in observations.items():
            track = self.tracks.setdefault(agent, Track())
            completed += len(track.observations) > 0
            track.observations.append(observation)
            track.seen_s.append(self.env.now_s)
        return completed

    def step(self, actions: dict[str, int]) -> tuple[int, bool, bool]:
        """Turns that this completes; whether the episode is over, or is cut."""
        observations, rewards, ended, cut, _ = self.env.step(actions)
        self.steps += 1
        self.whole_steps += 1
        for agent, reward in rewards.items():
            if agent in self.tracks and self.tracks[agent].rewards:
                self.tracks[agent].rewards[-1] += reward
                self.whole_return += reward  # what comes before an agent's first turn is not its
        over, truncated = ended["__all__"], cut["__all__"]
        if over or truncated:  # whoever never had a turn has nothing to learn from
            observations = {a: o for a, o in observations.items() if a in self.tracks}
        return self.see(observations), over, truncated

    def fragment(self, *, over: bool, truncated: bool) -> Fragment | None:
        """What was played since the last fragment, for RLlib; None if no turn is complete."""
        whole = Fragment(self.id_, agent_to_module_mapping_fn=lambda *_, **__: SHARED)
        whole.is_terminated, whole.is_truncated = over, truncated
        for agent, track in self.tracks.items():
            if track.complete > 0:
                whole.agent_episodes[agent] = _single(track.cut(), agent, whole, over, truncated)
        whole.env_t, self.steps = self.steps, 0
        return whole if whole.agent_episodes else None


def _single(
    track: Track, agent: str, whole: Fragment, over: bool, truncated: bool
) -> SingleAgentEpisode:
    def buffer(data: Any) -> InfiniteLookbackBuffer:
        return InfiniteLookbackBuffer(data, lookback=0)

    keys = track.observations[0].keys()
    return SingleAgentEpisode(
        observations=buffer({k: np.stack([o[k] for o in track.observations]) for k in keys}),
        infos=buffer([{} for _ in track.observations]),
        actions=buffer(np.array(track.actions, dtype=np.int64)),
        rewards=buffer(np.array(track.rewards, dtype=np.float32)),
        extra_model_outputs={
            Columns.ACTION_LOGP: buffer(np.array(track.log_p, dtype=np.float32)),
            Columns.ACTION_DIST_INPUTS: buffer(np.stack(track.logits)),
            ELAPSED_S: buffer(np.diff(track.seen_s).astype(np.float32)),
        },
        terminated=over,
        truncated=truncated,
        len_lookback_buffer=0,
        agent_id=agent,
        module_id=SHARED,
        multi_agent_episode_id=whole.id_,
    )


def _drawn(p: torch.Tensor) -> torch.Tensor:
    """(B, 1) an action of each row by its probabilities: `torch.multinomial` without its checks.

    The least of exponential variables with rates p is the i-th with probability p_i.
    """
    return (p / torch.empty_like(p).exponential_()).argmax(-1, keepdim=True)


class ArrayEnvRunner(MultiAgentEnvRunner):
    """Samples as RLlib's own runner does, without its work per agent and step.

    RLlib's runner copies every observation, runs connectors and logs metrics for every step of
    every agent; here observations are stacked once for the forward pass and once for the learner.
    Turns of an agent without an answer yet stay for the next fragment, as there.
    """

    _ongoing: list[Ongoing] | None = None

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[Fragment]:
        """Fragments of at least `num_timesteps` turns, or of `num_episodes` finished episodes."""
        if random_actions:
            raise NotImplementedError("ArrayEnvRunner draws no random actions; use RLlib's runner")
        if num_timesteps is None and num_episodes is None:
            length = self.config.get_rollout_fragment_length(self.worker_index)
            num_timesteps = length * self.num_envs
        if self._ongoing is None or force_reset or num_episodes is not None:
            self._ongoing = [Ongoing(env.unwrapped) for env in self.env.envs]
            for ongoing in self._ongoing:
                ongoing.restart()
        self.metrics.log_value(WEIGHTS_SEQ_NO, self._weights_seq_no, window=1)
        explores = self.config.explore if explore is None else explore
        with self.metrics.log_time(SAMPLE_TIMER):
            return self._play(self._ongoing, num_timesteps, num_episodes, explores)

    def _play(
        self, ongoing: list[Ongoing], turns: int | None, episodes: int | None, explores: bool
    ) -> list[Fragment]:
        found: list[Fragment | None] = []
        completed, finished, steps = 0, 0, 0
        most_turns = np.inf if turns is None else turns
        most_episodes = np.inf if episodes is None else episodes
        while completed < most_turns and finished < most_episodes:
            chosen = self._choose(ongoing, explores)
            for each, actions in zip(ongoing, chosen, strict=True):
                new, over, truncated = each.step(actions)
                completed, steps = completed + new, steps + 1
                if over or truncated:
                    finished += 1
                    found.append(each.fragment(over=over, truncated=truncated))
                    self._log_end(each, over)
                    each.restart()
        found += [each.fragment(over=False, truncated=False) for each in ongoing]
        kept = [episode for episode in found if episode is not None]
        self._log_steps(kept, steps, finished)
        return kept

    def _choose(self, ongoing: list[Ongoing], explores: bool) -> list[dict[str, int]]:
        """Actions of all agents that have to act, in all copies, by one forward pass."""
        who = [(each, agent) for each in ongoing for agent in each.waiting]
        observations = stack([each.waiting[agent] for each, agent in who])
        with torch.no_grad():
            logits = self.module[SHARED].logits(observations)
            log_p = torch.log_softmax(logits, -1)
            drawn = _drawn(log_p.exp()) if explores else logits.argmax(-1, True)
            of_drawn = log_p.gather(-1, drawn).squeeze(-1).tolist()
        chosen: dict[int, dict[str, int]] = {id(each): {} for each in ongoing}
        rows = zip(who, drawn.squeeze(-1).tolist(), of_drawn, logits.numpy(), strict=True)
        for (each, agent), action, its_log_p, its_logits in rows:
            track = each.tracks[agent]
            track.actions.append(action)
            track.rewards.append(0.0)
            track.log_p.append(its_log_p)
            track.logits.append(its_logits)
            chosen[id(each)][agent] = action
        return [chosen[id(each)] for each in ongoing]

    def _log_end(self, each: Ongoing, over: bool) -> None:
        took_s = time.perf_counter() - each.began_s
        self._log_episode_metrics(each.whole_steps, each.whole_return, took_s)
        if over:  # cut episodes say little
            self.metrics.log_value(WHOLE_RETURN, each.whole_return, window=RETURN_WINDOW)

    def _log_steps(self, found: list[Fragment], steps: int, finished: int) -> None:
        turns: dict[str, int] = {}
        for episode in found:
            for agent, single in episode.agent_episodes.items():
                turns[agent] = turns.get(agent, 0) + len(single)
        counts: dict[tuple[str, ...], int] = {
            (NUM_ENV_STEPS_SAMPLED,): steps,
            (NUM_EPISODES,): finished,
            (NUM_MODULE_STEPS_SAMPLED, SHARED): sum(turns.values()),
            **{(NUM_AGENT_STEPS_SAMPLED, agent): count for agent, count in turns.items()},
        }
        for (name, *of), value in counts.items():
            self.metrics.log_value((name, *of), value, reduce="sum")
            timed = name == NUM_ENV_STEPS_SAMPLED
            self.metrics.log_value(
                (f"{name}_lifetime", *of), value, reduce="lifetime_sum", with_throughput=timed
            )

    def get_metrics(self) -> Any:
        """What was logged since the last call."""
        return self.metrics.reduce()
