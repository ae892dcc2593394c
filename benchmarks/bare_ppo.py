"""PPO with nothing around it: the reference that training through RLlib is measured against.

One file in the manner of CleanRL: the same environment, network and loss, no connectors, actors,
checkpoints or metrics. Agents act at different times, so each keeps a track of its own; values are
taken from the forward pass that chose the action.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from marl.policy.pair_score import PairScorePolicy, stack
from marl.rllib.algorithm import ALL, RllibSchedulingEnv
from marl.training.spec import PpoSpec

Tensors = dict[str, torch.Tensor]


@dataclass
class Track:
    """One agent's turns in one copy of the environment, since the last batch."""

    seen: list[Any] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # until the agent's next turn


@dataclass
class Batch:
    """Turns of all agents, in any order."""

    seen: list[Any] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    targets: list[float] = field(default_factory=list)

    def add(self, track: Track, turns: int, next_value: float, ppo: PpoSpec) -> None:
        """The first `turns` of a track, judged backwards from what follows them."""
        values = [*track.values[:turns], next_value]
        advantage, judged = 0.0, []
        for t in reversed(range(turns)):
            delta = track.rewards[t] + ppo.gamma * values[t + 1] - values[t]
            advantage = delta + ppo.gamma * ppo.gae_lambda * advantage
            judged.append(advantage)
        self.seen += track.seen[:turns]
        self.actions += track.actions[:turns]
        self.log_p += track.log_p[:turns]
        self.advantages += judged[::-1]
        self.targets += [a + v for a, v in zip(judged[::-1], values, strict=False)]


class BarePpo:
    """Samples and learns in this process, with one forward pass for all copies a step."""

    def __init__(self, policy: PairScorePolicy, ppo: PpoSpec, envs: list[RllibSchedulingEnv]):
        """Start every copy's first episode."""
        self.policy, self.ppo, self.envs = policy, ppo, envs
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=ppo.learning_rate)
        self.tracks: list[dict[str, Track]] = [{} for _ in envs]
        self.waiting = [env.reset()[0] for env in envs]

    def iterate(self) -> tuple[int, int]:
        """One batch sampled and learnt from; its steps of the environment and of agents."""
        batch, steps = Batch(), 0
        while len(batch.actions) + self._complete() < self.ppo.batch_agent_steps:
            self._act()
            for copy in range(len(self.envs)):
                self._step(copy, batch)
                steps += 1
        self._cut(batch)
        self._learn(batch)
        return steps, len(batch.actions)

    def _complete(self) -> int:
        return sum(
            len(track.actions) - (agent not in waiting)
            for tracks, waiting in zip(self.tracks, self.waiting, strict=True)
            for agent, track in tracks.items()
        )

    def _judge(self, observations: list[Any]) -> tuple[torch.Tensor, list[float]]:
        with torch.no_grad():
            scores = self.policy(stack(observations))
            return torch.log_softmax(scores.logits, -1), self.policy.values(scores.state).tolist()

    def _act(self) -> None:
        """Choose for everybody who has to."""
        who = [(c, agent) for c, waiting in enumerate(self.waiting) for agent in waiting]
        log_p, values = self._judge([self.waiting[c][agent] for c, agent in who])
        drawn = torch.multinomial(log_p.exp(), 1)
        of_drawn = log_p.gather(-1, drawn).squeeze(-1).tolist()
        rows = zip(who, drawn.squeeze(-1).tolist(), of_drawn, values, strict=True)
        for (c, agent), action, its_log_p, value in rows:
            track = self.tracks[c].setdefault(agent, Track())
            track.seen.append(self.waiting[c][agent])
            track.actions.append(action)
            track.log_p.append(its_log_p)
            track.values.append(value)
            track.rewards.append(0.0)

    def _step(self, copy: int, batch: Batch) -> None:
        env, tracks = self.envs[copy], self.tracks[copy]
        actions = {agent: tracks[agent].actions[-1] for agent in self.waiting[copy]}
        seen, rewards, ended, cut, _ = env.step(actions)
        for agent, reward in rewards.items():
            if agent in tracks:
                tracks[agent].rewards[-1] += reward
        if ended[ALL] or cut[ALL]:
            last = {a: o for a, o in seen.items() if a in tracks}
            values = [0.0] * len(last) if ended[ALL] else self._judge(list(last.values()))[1]
            for agent, value in zip(last, values, strict=True):
                batch.add(tracks[agent], len(tracks[agent].actions), value, self.ppo)
            self.tracks[copy] = {}
            seen = env.reset()[0]
        self.waiting[copy] = seen

    def _cut(self, batch: Batch) -> None:
        """Take the complete turns of episodes that go on; what hangs stays."""
        who = [(c, agent) for c, waiting in enumerate(self.waiting) for agent in waiting]
        values = self._judge([self.waiting[c][agent] for c, agent in who])[1]
        following = dict(zip(who, values, strict=True))
        for c, tracks in enumerate(self.tracks):
            for agent, track in tracks.items():
                if (c, agent) in following:
                    turns, value = len(track.actions), following[c, agent]
                else:  # its last turn hangs, and its value is what the turns before it lead to
                    turns, value = len(track.actions) - 1, track.values[-1]
                batch.add(track, turns, value, self.ppo)
                for name in ("seen", "actions", "log_p", "values", "rewards"):
                    del getattr(track, name)[:turns]

    def _learn(self, batch: Batch) -> None:
        seen, n = stack(batch.seen), len(batch.actions)
        actions, log_p = torch.tensor(batch.actions), torch.tensor(batch.log_p)
        advantages, targets = torch.tensor(batch.advantages), torch.tensor(batch.targets)
        advantages = (advantages - advantages.mean()) / advantages.std().clamp(min=1e-4)
        size = self.ppo.minibatch_agent_steps
        for _ in range(self.ppo.epochs):
            for rows in torch.tensor_split(torch.randperm(n), n // size):
                part = {key: value[rows] for key, value in seen.items()}
                loss = self._loss(part, actions[rows], log_p[rows], advantages[rows], targets[rows])
                self.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.ppo.grad_clip)
                self.optimizer.step()

    def _loss(
        self, seen: Tensors, actions: torch.Tensor, log_p: torch.Tensor,
        advantages: torch.Tensor, targets: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        ppo, scores = self.ppo, self.policy(seen)
        now = torch.log_softmax(scores.logits, -1)
        ratio = torch.exp(now.gather(-1, actions[:, None]).squeeze(-1) - log_p)
        clipped = ratio.clamp(1.0 - ppo.clip, 1.0 + ppo.clip)
        surrogate = torch.minimum(ratio * advantages, clipped * advantages).mean()
        errors = (self.policy.values(scores.state) - targets).square().clamp(max=ppo.value_clip)
        entropy = -(now.exp() * now).sum(-1).mean()
        return ppo.value_weight * errors.mean() - surrogate - ppo.entropy * entropy
