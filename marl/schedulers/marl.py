"""The trained agents as a scheduler like any other, through the codec that trained them.

Many turns of one instant are taken at once, in compiled code; what was ordered is read from the
log.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from marl.env.layout import NEEDS, CodecRules, Layout, layout_for
from marl.env.playing import Play, find_turn
from marl.env.plays import Rounds, ordered
from marl.policy import policy_folder
from marl.policy.build import PolicyFileError, load_policy, read_spec
from marl.policy.from_torch import net_of, why_torch
from marl.policy.network import ACT, CHOOSE, Net, NetLoop, choose, link
from marl.policy.pair_score import Policy, best_action, stack
from marl.training.episodes import play_greedily
from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.errors import amount
from sim.handle import ask, count
from sim.jit import kernel
from sim.kernel.layout import State
from sim.kernel.records import FORWARD, START, log_half_full
from sim.kernel.step import FULL, ILLEGAL, OVER
from sim.protocols import Loop
from sim.run import Run
from sim.simulator import Simulator
from sim.topology.topology import Topology
from sim.view import ClusterView, ViewMaker

TURNS = 1000  # at once


@kernel
def take_turns(play: Play, net: Net, ends: IntArray) -> int:
    """Let agents act until none has a choice: OVER; ILLEGAL if one is refused.

    Before that FULL once the log wants to be flushed, or `ends` (N,) is full: how many events the
    log had after each turn. `turn.decisions` counts the turns.
    """
    turn, state = play.memory.turn[0], play.scratch.state
    turn.decisions = 0
    while turn.decisions < len(ends) and not log_half_full(state):  # orders are read from the log
        if not find_turn(play):
            return OVER
        if not ask(net.routine[ACT], play, count(net.routine[CHOOSE], play, net)):
            return ILLEGAL
        ends[turn.decisions] = state.world[0].num_logged
        turn.decisions += 1
    return FULL


def act_on(play: Play, net: Net, ends: IntArray) -> tuple[list[Decision], int]:
    """What agents order from here on, and the verdict of `take_turns`.

    All of it has been carried out, but for the last order after ILLEGAL. `ends` is scratch.
    """
    state = play.scratch.state
    first = int(state.world["num_logged"][0]), int(state.world["num_logged_gpus"][0])
    verdict = int(take_turns(play, net, ends))
    found = _logged(state, first, ends[: int(play.memory.turn["decisions"][0])].tolist())
    if verdict != FULL:
        found.append(Decision() if verdict == OVER else ordered(play.memory))
    return found, verdict


def _logged(state: State, first: tuple[int, int], ends: list[int]) -> list[Decision]:
    """The orders of turns that end with these events; `first`: event and GPU of the log."""
    at, at_gpu = first
    rows = state.log[at : ends[-1] if ends else at]
    kinds, jobs, partitions, held = (
        rows[name].tolist() for name in ("kind", "job", "partition", "gpus")
    )
    gpus = state.log_gpus[: at_gpu + sum(held)].copy()  # the log is going to be forgotten
    found, begin = list[Decision](), 0
    for end in ends:
        preempts, forwards, starts = list[int](), list[Forward](), list[Start]()
        for i in range(begin, end - at):
            if kinds[i] == START:
                starts.append(Start(jobs[i], gpus[at_gpu : at_gpu + held[i]]))
            elif kinds[i] == FORWARD:
                forwards.append(Forward(jobs[i], partitions[i]))
            else:
                preempts.append(jobs[i])
            at_gpu += held[i]
        found.append(Decision(tuple(starts), tuple(preempts), tuple(forwards), again=True))
        begin = end - at
    return found


@dataclass(frozen=True)
class _Fitted:
    """A policy, fitted to one cluster."""

    topology: Topology
    partitions: bytes  # of its servers
    policy: Policy
    net: Net | None  # the same, compiled; None: torch decides
    rounds: Rounds  # of the run


class MarlScheduler:
    """One agent a partition, one policy or one each; acts greedily on its scores.

    Source: Zhao & Wu, "Large-Scale Machine Learning Cluster Scheduling via Multi-Agent Graph
    Reinforcement Learning" (IEEE TNSM 2021/22), rebuilt in its spirit: several schedulers own a
    partition each, place jobs on it or forward them, sharing is allowed, jobs are not migrated.
    What the paper leaves open and was chosen here: gangs are placed whole, outwards from the
    chosen server, or worker by worker, as the policy's rules say; whole jobs are forwarded while
    they wait; peers are seen as one row each.
    """

    name = "marl"
    shares = True  # it may put a job beside others
    needs = NEEDS

    def __init__(self, *, checkpoint: str | None) -> None:
        """Read the policy in folder `checkpoint`, or one that comes along (`SHIPPED`)."""
        if checkpoint is None:
            raise PolicyFileError(
                "scheduler=marl needs a trained policy; add checkpoint=pretrained, or "
                "checkpoint=FOLDER, the `policy` folder that scripts/train.py wrote"
            )
        self._folder = policy_folder(checkpoint)
        read_spec(self._folder)  # fail before any work
        self._fitted: _Fitted | None = None
        self._again = False
        self._acting: tuple[Play, Net] | None = None  # in `act`, amid an epoch
        self._ends: IntArray = np.zeros(TURNS, dtype=np.int64)  # scratch of `act_on`

    def reset(self, seed: int) -> None:
        """Forget the run; weights are no part of it: they are read once a cluster."""
        del seed
        self._again = False
        if self._fitted is not None:
            self._fitted.rounds.restart()

    def decide(self, view: ClusterView) -> Decision:
        """One agent's turn; asks for the next until all wait."""
        fitted = self._ready(view)
        rounds = fitted.rounds
        if not self._again:
            until_s = self._open(view, rounds)
            if until_s is not None:
                return Decision(wake_s=until_s)
        if fitted.net is not None:  # reads the buffers itself
            agent = rounds.turn(view)
            self._again = agent is not None
            if agent is None:
                return Decision()
            return rounds.decide(view, {agent: choose(rounds.play(view), fitted.net)})
        seen = rounds.observe(view, everyone=False)
        self._again = bool(seen)
        if not seen:
            return Decision()
        with torch.no_grad():
            scores = fitted.policy(stack(list(seen.values())))
        chosen = best_action(scores.logits)
        return rounds.decide(view, dict(zip(seen, chosen, strict=True)))

    def act(self, views: ViewMaker) -> tuple[list[Decision], bool]:
        """As `decide`; where the network is compiled, many turns at once are carried out."""
        view = views.view()
        if not self._again:
            fitted = self._ready(view)
            until_s = self._open(view, fitted.rounds)
            if until_s is not None:
                return [Decision(wake_s=until_s)], False
            self._acting = None
            if fitted.net is not None:
                self._acting = fitted.rounds.play(view), fitted.net
                link(fitted.net, self._acting[0])
        if self._acting is None:
            return [self.decide(view)], False
        found, verdict = act_on(*self._acting, self._ends)
        self._again = verdict != OVER
        return found, verdict != ILLEGAL

    def _open(self, view: ClusterView, rounds: Rounds) -> float | None:
        """Begin an epoch; when agents act next if that is not now."""
        rounds.play(view)  # a run may begin amid others that run: the first epoch is one, too
        rounds.open()
        return rounds.pause_s(view)

    def why_python(self) -> str:
        """A loop plays what is compiled (`marl.policy`)."""
        return why_torch(*read_spec(self._folder))

    def loop(self, state: State, views: ViewMaker) -> Loop:
        """The same decisions, a whole run at once."""
        del state  # of the views
        policy, rules = self._loaded(views.view())
        layout = _layout(views.view(), rules)
        net = net_of(policy, layout)
        assert net is not None
        return NetLoop(views, layout, rules, net)

    def play_together(self, simulators: Sequence[Simulator], seed: int) -> list[Run]:
        """Fresh runs of one cluster to their ends, decided as by `decide`, all in each pass.

        By torch, a pass for ten runs takes little longer than one for one. What deciding costs
        one by one is not known afterwards: NaN.
        """
        self.reset(seed)
        policy, rules = self._loaded(simulators[0].views(NEEDS).view())
        return play_greedily(policy, simulators, rules, name=self.name)

    def _ready(self, view: ClusterView) -> _Fitted:
        """Policy and codec fitted to this view's cluster; made at the first decision."""
        partitions = np.asarray(view.partition_of_server).tobytes()
        kept = self._fitted
        if kept is None or kept.topology is not view.topology or kept.partitions != partitions:
            policy, rules = self._loaded(view)
            layout = _layout(view, rules)
            net = None if self.why_python() else net_of(policy, layout)
            rounds = Rounds(layout=layout, rules=rules, servers=net is None or bool(net.speaks))
            kept = self._fitted = _Fitted(view.topology, partitions, policy, net, rounds)
        return kept

    def _loaded(self, view: ClusterView) -> tuple[Policy, CodecRules]:
        torch.set_num_threads(1)  # tiny batches: more threads only wait for each other
        spec, rules = read_spec(self._folder)
        if spec.agents not in {0, view.num_partitions}:
            raise PolicyFileError(
                f"{self._folder}: has networks for {amount(spec.agents, 'agent')}, and here are "
                f"{view.num_partitions}; use agents.count={spec.agents}, or a policy that was "
                "trained with policy.networks=null, which any number share"
            )
        return load_policy(self._folder)[0], rules


def _layout(view: ClusterView, rules: CodecRules) -> Layout:
    servers = np.asarray(view.partition_of_server)
    return layout_for(view.topology, servers, rules, view.num_partitions)
