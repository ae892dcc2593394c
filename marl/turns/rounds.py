"""Turns for whoever sees views and hands in decisions: time and orders are another's business."""

import numpy as np

from marl.codec.layout import CodecRules, Layout, Observation
from marl.codec.links import LinkSight
from marl.turns.playing import Play, choose, find_turn, open_epoch, pause_s
from marl.turns.plays import blank_buffers, check, forked, make_play, see_everyone, with_links
from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.view import ClusterView


class Rounds:
    """The turns of one decision epoch after the other, until every agent waits.

    The rules are those of `marl.turns.playing`; `marl.turns.turns` plays a whole run by them.
    """

    def __init__(self, *, layout: Layout, rules: CodecRules) -> None:
        """`layout` gives the padded sizes of observations."""
        self.layout = layout
        self.rules = rules
        self._play: Play | None = None
        self._links: LinkSight | None = None

    def restart(self) -> None:
        """Forget the run: call before the first view of another."""
        self._play = None

    def open(self) -> None:
        """A new epoch: everybody may act."""
        if self._play is not None:
            open_epoch(self._play)

    def fork(self, view: ClusterView) -> "Rounds":
        """The same turn in `view`, that of a fork of the run."""
        twin = Rounds(layout=self.layout, rules=self.rules)
        twin._play = forked(self.play(view), view.state, blank_buffers(self.layout))
        twin._links = self._links
        return twin

    def play(self, view: ClusterView) -> Play:
        """State, memory and buffers as compiled code takes them."""
        if self._play is None:
            buffers = blank_buffers(self.layout)
            self._play = make_play(view, self.layout, self.rules, buffers, gathers=False)
            self._links = LinkSight(view, self.layout) if self.layout.edges else None
        return self._play

    @property
    def window(self) -> IntArray:
        """(w,) jobs that the agent of this turn sees, in order of rows."""
        assert self._play is not None, "nobody has observed"
        memory = self._play.memory
        return memory.window[: memory.turn["in_window"][0]].copy()

    @property
    def amid_gang(self) -> bool:
        """Whether an agent has begun a gang that it has to complete."""
        return self._play is not None and bool(self._play.memory.turn["begun"][0] > 0)

    def pause_s(self, view: ClusterView) -> float | None:
        """When agents act next, None: now. To be asked at each decision epoch, before they act."""
        until_s = pause_s(self.play(view).memory, float(self.rules.interval_s), view.now_s)
        return None if np.isnan(until_s) else until_s

    def observe(self, view: ClusterView, everyone: bool) -> dict[int, Observation]:
        """The observation of the agent whose turn it is, if any; of all agents if `everyone`.

        An agent whose turn it is not has only *wait* in its mask.
        """
        play = self.play(view)
        if everyone:
            return see_everyone(play, self._links, view)
        agent = self.turn(view)
        return {} if agent is None else {agent: with_links(play, self._links, view, agent)}

    def turn(self, view: ClusterView) -> int | None:
        """The agent whose turn it is, if any; what it sees is in the buffers."""
        play = self.play(view)
        return int(play.memory.turn["agent"][0]) if find_turn(play) else None

    def decide(self, view: ClusterView, actions: dict[int, int]) -> Decision:
        """The decision that the agents' actions make together, on the view they were made for.

        Raises:
            InvalidDecision: if an action is not legal in the agent's last observation.
        """
        play = self.play(view)
        memory = play.memory
        for agent, action in sorted(actions.items()):
            check(play, self.layout.sizes, agent, action)
        acting = actions.get(int(memory.turn["agent"][0]))
        if acting is None:
            return Decision(again=True)
        choose(play, acting)
        preempts, forwards, starts = (
            int(memory.turn[key][0]) for key in ("preempts", "forwards", "starts")
        )
        gpus = memory.start_gpus[: memory.start_first[starts]].copy()
        job, partition = memory.forward[0].tolist()
        return Decision(
            starts=(Start(int(memory.start_job[0]), gpus),) if starts else (),
            preempts=tuple(memory.preempt[:preempts].tolist()),
            forwards=(Forward(job, partition),) if forwards else (),
            again=True,
        )
