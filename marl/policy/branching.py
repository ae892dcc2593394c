"""Paired branches: what another action would have cost, the future being the same.

A run under the compiled network is stopped at a turn and copied. In one copy its agent does what
the network says, in others something else, and all play on for a while under the same network with
the same jobs to come. What they have in common cancels; the difference of their costs tells what
the one changed action was worth.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch

from marl.env.actions import KINDS, TIE, Sizes
from marl.env.layout import CodecRules, Observation, layout_for
from marl.env.playing import TURN, Play
from marl.env.turns import Turns
from marl.policy.from_torch import net_of
from marl.policy.network import ACT, CHOOSE, PLAY_ON, Net, choose, link
from marl.policy.pair_score import PairScorePolicy
from sim.arrays import FloatArray, IntArray
from sim.handle import ask, count
from sim.jit import kernel
from sim.kernel.layout import FINISHED, RUNNING, WITHDRAWN, State
from sim.kernel.step import FULL, ILLEGAL, OVER, PAUSE
from sim.run import Run
from sim.simulator import Simulator

MOST_SKIPPED = 3  # turns: an epoch's first turn is not the only one that is looked at
FIRST_SHARE = 0.03  # of the time of arrivals: before that the cluster is empty


@dataclass(frozen=True)
class Sampling:
    """What is tried at a turn."""

    alternatives: int  # actions tried at a turn, at most
    horizon_s: float  # for so long the branches play on
    temperature: float  # of the logits' gaps, by which alternatives are drawn
    uniform: float  # share of draws that ignore the gap


@dataclass(frozen=True, eq=False)
class Contrasts:
    """L actions that were tried at N turns, each beside what the network would have done."""

    observations: Observation  # name -> (N, ...)
    turn: IntArray  # (L,) of each action, from 0 to N - 1
    taken: IntArray  # (L,) the network's own action there
    tried: IntArray  # (L,) the other
    gap: FloatArray  # (L,) logit of the own action - that of the other, at least 0
    cost_s: FloatArray  # (L,) job-seconds that the other cost more; below 0 it was better

    def __len__(self) -> int:
        """L."""
        return len(self.cost_s)


class Observed(Protocol):
    """What has observations."""

    @property
    def observations(self) -> Observation:
        """Name -> (N, ...)."""


Part = TypeVar("Part", bound=Observed)


def by_shape(parts: Iterable[Part]) -> list[list[Part]]:
    """Parts with observations of one shape together: other agent counts have other shapes."""
    groups: dict[object, list[Part]] = {}
    for part in parts:
        shapes = tuple(value.shape[1:] for value in part.observations.values())
        groups.setdefault(shapes, []).append(part)
    return list(groups.values())


def joined(parts: list[Contrasts]) -> Contrasts:
    """All of them as one; `parts` is not empty, and of one shape."""
    ends = np.cumsum([len(part.observations["jobs"]) for part in parts])
    return Contrasts(
        {
            name: np.concatenate([part.observations[name] for part in parts])
            for name in parts[0].observations
        },
        np.concatenate(
            [part.turn + first for part, first in zip(parts, [0, *ends[:-1]], strict=True)]
        ),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("taken", "tried", "gap", "cost_s")
        ),
    )


@kernel
def _play_until(play: Play, net: Net, until_s: float) -> int:
    """Run on to the first turn at or after `until_s`, or where the play stops: PAUSE; OVER, ..."""
    world = play.scratch.state.world
    while True:  # turn by turn: nothing tells how many a horizon has
        verdict = count(net.routine[PLAY_ON], play)
        if verdict != TURN:
            return int(verdict)
        if world[0].now_s >= until_s:
            return PAUSE
        if not ask(net.routine[ACT], play, count(net.routine[CHOOSE], play, net)):
            return ILLEGAL


@kernel
def cost_now(state: State) -> float:
    """Job-seconds in the system so far, and what is left to do, as if nobody waited from now on.

    Only jobs that have been submitted count. One that was withdrawn costs its time and what it
    leaves undone, or it would pay to let users give up.
    """
    total, now_s = 0.0, state.world[0].now_s
    for j in range(len(state.job)):  # also those that have left: they cost what they took
        job = state.job[j]
        if job.submit_s >= now_s:
            continue
        gone = job.status in (FINISHED, WITHDRAWN)
        done_s = job.progress_s
        if job.status == RUNNING:
            done_s += job.rate * (max(now_s, job.resume_s) - job.rated_s)
        total += (job.finish_s if gone else now_s) - job.submit_s + max(job.work_s - done_s, 0.0)
    return total


class Brancher:
    """A policy whose runs are branched; it has to be one that is compiled (`why_torch`)."""

    def __init__(self, policy: PairScorePolicy, rules: CodecRules, sampling: Sampling) -> None:
        """`policy` must not change while this is in use."""
        self._policy, self._rules, self._sampling = policy.eval(), rules, sampling

    def contrasts(self, simulator: Simulator, seed: int, points: int) -> Contrasts | None:
        """Branch one fresh run at `points` turns drawn from `seed`; None: nothing was to choose.

        Raises:
            ValueError: the policy is not compiled.
            SimulationError: jobs of the run itself wait for ever; those of a branch cost what they
                have waited up to its horizon.
            InvalidDecision: the simulator refused an action.
        """
        run, net = self._begun(simulator)
        rng = np.random.default_rng(seed)
        found = [each for each in self._turns(run, net, rng, points) if each is not None]
        return joined(found) if found else None

    def in_hindsight(self, simulator: Simulator, seed: int) -> Run:
        """A fresh run played to its end by one who knows its future: a measure of what is to win.

        At every turn actions drawn from `seed` are tried; what costs least up to the horizon is
        done. If that is the run's end, no run costs more in all than the policy's own.

        Raises:
            ValueError, SimulationError, InvalidDecision: as `contrasts`.
        """
        run, net = self._begun(simulator)
        rng, branch, going = np.random.default_rng(seed), run.fork(), run.next()
        while going:
            found, action = self._contrasts(run, branch, net, rng), int(choose(run.play, net))
            if found is not None and found.cost_s.min() < 0:
                action = int(found.tried[np.argmin(found.cost_s)])
            run.act(action)
            going = run.next()
        return simulator.outcome("hindsight", run.decisions, np.nan, np.nan)

    def _begun(self, simulator: Simulator) -> tuple[Turns, Net]:
        layout = layout_for(simulator.topology, simulator.partition_of_server, self._rules)
        net = net_of(self._policy, layout)
        if net is None:
            raise ValueError("branches are played by compiled networks: encoder=hierarchical")
        run = Turns(simulator, layout, self._rules, gathers=False)
        link(net, run.play)
        return run, net

    def _turns(
        self, run: Turns, net: Net, rng: np.random.Generator, points: int
    ) -> Iterator[Contrasts | None]:
        last_s = float(run.simulator.jobs.submit_s.max())
        branch = run.fork()
        for at_s in np.sort(rng.uniform(FIRST_SHARE * last_s, last_s, points)):
            if not _go(run, net, at_s):
                return
            for _ in range(int(rng.integers(MOST_SKIPPED))):
                run.act(int(choose(run.play, net)))
                if not run.next():
                    return
            yield self._contrasts(run, branch, net, rng)

    def _contrasts(
        self, run: Turns, branch: Turns, net: Net, rng: np.random.Generator
    ) -> Contrasts | None:
        """What was tried at the turn of `run`; `branch` is one that may be overwritten."""
        seen, taken = run.seen(), int(choose(run.play, net))
        with torch.no_grad():
            one = {name: torch.from_numpy(value)[None] for name, value in seen.items()}
            logits = self._policy(one).logits[0].double().numpy()
        alike = _jobs_of(run.layout.sizes)
        tried, gaps = _alternatives(logits, seen["action_mask"], taken, alike, self._sampling, rng)
        if len(tried) == 0:
            return None
        until_s = run.simulator.now_s + self._sampling.horizon_s
        costs_s = []
        for action in (taken, *tried.tolist()):
            branch.become(run)
            branch.act(action)
            branch.stop_at(until_s)
            _go(branch, net, until_s)
            costs_s.append(float(cost_now(branch.simulator.state)))
        return Contrasts(
            {name: value[None] for name, value in seen.items()},
            turn=np.zeros(len(tried), dtype=np.int64),
            taken=np.full(len(tried), taken),
            tried=tried,
            gap=gaps,
            cost_s=np.array(costs_s[1:]) - costs_s[0],
        )


def _jobs_of(sizes: Sizes) -> IntArray:
    """(actions,) the same number for actions of one kind about one job of the window."""
    groups: list[IntArray] = []
    for kind in range(len(KINDS)):
        shape = sizes.shape(kind)
        rows = shape[0] if shape else 1
        groups.append(np.repeat(len(groups) * sizes.window + np.arange(rows), math.prod(shape[1:])))
    return np.concatenate(groups)


def _alternatives(
    logits: FloatArray,
    mask: np.ndarray,
    taken: int,
    alike: IntArray,
    sampling: Sampling,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Legal actions drawn without replacement, and by how much their logits are below `taken`'s.

    Of actions that are `alike` and tie (starts of a job on equal servers) one stands for all.
    """
    legal = np.flatnonzero(mask)
    gaps = np.round(logits[taken] - logits[legal], TIE)
    others = (gaps > 0) | (alike[legal] != alike[taken])
    legal, gaps = legal[others], np.maximum(gaps[others], 0.0)
    _, first = np.unique(np.stack([gaps, alike[legal]]), axis=1, return_index=True)
    legal, gaps = legal[first], gaps[first]
    if len(legal) == 0:
        return legal, gaps
    near = np.exp(-(gaps - gaps.min()) / sampling.temperature)
    chances = near / near.sum() * (1 - sampling.uniform) + sampling.uniform / len(near)
    size = min(sampling.alternatives, int(np.count_nonzero(chances)))
    drawn = rng.choice(len(legal), size, replace=False, p=chances / chances.sum())
    return legal[drawn], gaps[drawn]


def _go(run: Turns, net: Net, until_s: float) -> bool:
    """Play on; whether anything is left to do then. Nobody reads the log."""
    while True:
        verdict = int(_play_until(run.play, net, until_s))
        if verdict == FULL:
            run.simulator.forget_log()
        elif verdict in (PAUSE, OVER):
            return verdict == PAUSE
        else:
            run.settle(verdict)
