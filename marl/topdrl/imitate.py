"""Imitation before Q-learning: the rule's actions are the best of their states by a margin."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from marl.topdrl.codec import Observation
from marl.topdrl.env import PickJobEnv


@dataclass(frozen=True)
class CompactTeacher:
    """Starts the first slot whose closest GPUs are compact enough; else holds.

    Slots come in order of worth a GPU (`SightSpec.order`), so this is: the most valuable job first,
    and no job on GPUs far apart while it can wait. Where holding is not legal the fastest start is
    taken.
    """

    least_speed: float  # on the closest GPUs, relative to compact ones

    def act(self, observation: Observation) -> int:
        """An action that the mask allows."""
        mask, speed = observation["action_mask"], observation["slots"][:, 5]
        good = np.flatnonzero((mask[:-1] > 0) & (speed >= self.least_speed))
        if len(good):
            return int(good[0])
        if mask[-1]:
            return len(mask) - 1
        return int(np.argmax(np.where(mask[:-1] > 0, speed, -1.0)))

    def act_on_batch(self, observation: dict[str, Tensor]) -> Tensor:
        """(B,) the same for a batch."""
        mask, speed = observation["action_mask"] > 0, observation["slots"][..., 5]
        starts = mask[:, :-1]
        good = starts & (speed >= self.least_speed)
        hold = torch.full_like(good[:, 0], mask.shape[1] - 1, dtype=torch.int64)
        fastest = torch.where(starts, speed, -1.0).argmax(-1)
        otherwise = torch.where(mask[:, -1], hold, fastest)
        return torch.where(good.any(-1), good.to(torch.int64).argmax(-1), otherwise)


@dataclass(frozen=True, kw_only=True)
class ImitationSpec:
    """How long and how hard."""

    episodes: int  # that the teacher plays; 0: start from nothing
    epochs: int
    minibatch: int
    learning_rate: float
    least_speed: float  # the teacher's, on the closest GPUs
    random_share: float  # of the actions are drawn at random, to see where they lead
    margin: float  # by which the teacher's action is to be better than others


@dataclass(frozen=True)
class Lessons:
    """N decisions: what was seen, done, taught, and what came of it."""

    observation: dict[str, Tensor]
    done: Tensor  # (N,) actions
    taught: Tensor  # (N,) the teacher's
    gain: Tensor  # (N,) discounted rewards from there on


def play_lessons(
    env: PickJobEnv, spec: ImitationSpec, gamma: float, seed: int
) -> Iterator[list[tuple[Observation, int, int, float]]]:
    """The decisions of one episode after the other."""
    teacher = CompactTeacher(spec.least_speed)
    rng = np.random.default_rng(seed)
    for episode in range(spec.episodes):
        seen, _ = env.reset(seed=seed * 1_000_003 + episode)
        steps: list[tuple[Observation, int, int]] = []
        rewards: list[float] = []
        over = cut = False
        while not (over or cut):
            taught = teacher.act(seen)
            explore = rng.random() < spec.random_share
            done = int(rng.choice(np.flatnonzero(seen["action_mask"]))) if explore else taught
            steps.append((seen, done, taught))
            seen, reward, over, cut, _ = env.step(done)
            rewards.append(reward)
        gains = discounted(rewards, gamma, over)
        yield [(*step, gain) for step, gain in zip(steps, gains, strict=True)]


def discounted(rewards: list[float], gamma: float, over: bool) -> list[float]:
    """Rewards to go; after a cut they go on with the episode's mean reward."""
    total = 0.0 if over else float(np.mean(rewards)) / (1.0 - gamma)
    gains = []
    for reward in reversed(rewards):
        total = reward + gamma * total
        gains.append(total)
    return gains[::-1]


def gathered(episodes: list[list[tuple[Observation, int, int, float]]]) -> Lessons:
    """All decisions as tensors."""
    rows = [row for episode in episodes for row in episode]
    seen = {key: np.stack([row[0][key] for row in rows]) for key in rows[0][0]}
    return Lessons(
        observation={key: torch.from_numpy(stacked) for key, stacked in seen.items()},
        done=torch.tensor([row[1] for row in rows]),
        taught=torch.tensor([row[2] for row in rows]),
        gain=torch.tensor([row[3] for row in rows], dtype=torch.float32),
    )


def imitate(
    network: nn.Module, lessons: Lessons, spec: ImitationSpec, seed: int
) -> Iterator[tuple[float, float]]:
    """(loss, share of decisions in which the network agrees with the teacher) of every epoch.

    The loss is Huber's between value and gain of what was done, plus the large margin of Hester et
    al. (Deep Q-learning from demonstrations, AAAI 2018) for what the teacher would have done.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=spec.learning_rate)
    chance = torch.Generator().manual_seed(seed)
    count = len(lessons.done)
    for _ in range(spec.epochs):
        losses, agreed = [], 0
        for rows in torch.randperm(count, generator=chance).split(spec.minibatch):
            values = network({key: each[rows] for key, each in lessons.observation.items()})
            loss = _loss(values, lessons, rows, spec.margin)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            agreed += int((values.argmax(-1) == lessons.taught[rows]).sum())
        yield float(np.mean(losses)), agreed / count


def _loss(values: Tensor, lessons: Lessons, rows: Tensor, margin: float) -> Tensor:
    value = values.gather(1, lessons.done[rows, None])[:, 0]
    behind = behind_by(values, lessons.taught[rows], margin)
    return nn.functional.huber_loss(value, lessons.gain[rows]) + behind.mean()


def behind_by(values: Tensor, taught: Tensor, margin: float) -> Tensor:
    """(B,) how far the taught action is from leading all others by `margin`; 0 where it leads."""
    extra = torch.full_like(values, margin).scatter(1, taught[:, None], 0.0)
    return (values + extra).amax(-1) - values.gather(1, taught[:, None])[:, 0]
