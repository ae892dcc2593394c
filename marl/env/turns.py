"""Runs played turn by turn: the one driver of environment, evaluation and learning."""

import copy
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from marl.env.layout import NEEDS, CodecRules, Layout, LinkObserver, Observation
from marl.env.memory import Gathered, take
from marl.env.observe import Buffers
from marl.env.playing import TURN, Play, act, link, play_all_on, play_on
from marl.env.plays import (
    FIXED,
    blank_buffers,
    check,
    forked,
    make_play,
    see_everyone,
    seen_on,
    shown,
)
from sim.arrays import IntArray
from sim.decision import refusal, stuck
from sim.handle import handle_address
from sim.jobs import never_ran
from sim.kernel.layout import FINISHED
from sim.kernel.step import FULL, ILLEGAL, OVER, STUCK
from sim.simulator import Simulator

NO_ACTION = -1


class Turns:
    """One run, from turn to turn: `next` until it says False, and `act` in between."""

    def __init__(
        self,
        simulator: Simulator,
        layout: Layout,
        rules: CodecRules,
        *,
        gathers: bool,
        buffers: Buffers | None = None,
    ) -> None:
        """A fresh `simulator` becomes this one's own.

        Args:
            simulator: at time 0.
            layout: padded sizes.
            rules: of the world.
            gathers: whether delay and progress are wanted (`take`).
            buffers: where to write what agents see; one of its own by default.
        """
        self.simulator = simulator
        self.layout = layout
        self._views = simulator.views(NEEDS)
        self._buffers = blank_buffers(layout) if buffers is None else buffers
        view = self._views.view()
        self.play: Play = make_play(view, layout, rules, self._buffers, gathers=gathers)
        link(self.play)
        self._links = LinkObserver(view, layout) if layout.edges else None

    def fork(self, buffers: Buffers | None = None) -> "Turns":
        """This run at this turn, to be played on by itself: neither disturbs the other."""
        twin = copy.copy(self)
        twin.simulator = self.simulator.fork()
        twin._views = twin.simulator.views(NEEDS)
        twin._buffers = blank_buffers(self.layout) if buffers is None else buffers
        twin.play = forked(self.play, twin.simulator.state, twin._buffers)
        return twin

    def become(self, run: Self) -> None:
        """Be a fork of `run` from now on; cheap, and for what was a fork of that run before."""
        run.simulator.fork(into=self.simulator)
        self.play.scratch.overwrite(run.play.scratch, shared=FIXED)
        self.play.memory.overwrite(run.play.memory)
        self._buffers.overwrite(run._buffers)

    @property
    def agent(self) -> int:
        """Whose turn it is; -1: nobody's."""
        return int(self.play.memory.turn["agent"][0])

    @property
    def decisions(self) -> int:
        """Times that somebody was asked so far, or nobody had a choice."""
        return int(self.play.memory.turn["decisions"][0])

    @property
    def now_s(self) -> float:
        """Time in the run."""
        return float(self.simulator.state.world["now_s"][0])

    def stop_at(self, stop_s: float) -> None:
        """Pause at that time, in the future, whether or not anybody has a choice then."""
        self.play.memory.turn["stop_s"] = stop_s

    @property
    def over(self) -> bool:
        """Whether all jobs are done or withdrawn."""
        return bool(self.simulator.state.world["num_left"][0] == 0)

    def act(self, action: int) -> None:
        """The agent whose turn it is acts; raises InvalidDecision if it may not."""
        self.check(self.agent, action)
        if not act(self.play, action):
            self.settle(ILLEGAL)

    def check(self, agent: int, action: int) -> None:
        """Raise InvalidDecision for what `agent` may not do now; who has no turn may wait."""
        check(self.play, self.layout.sizes, agent, action)

    def next(self) -> bool:
        """Let time pass until somebody has a choice; False at the end."""
        while not self.settle(verdict := play_on(self.play)):
            pass
        return verdict == TURN

    def settle(self, verdict: int) -> bool:
        """Do what an end of `play_on` asks for; False where it has to be called again.

        Raises:
            SimulationError: jobs wait for ever.
            InvalidDecision: the simulator refused an action.
        """
        if verdict == FULL:
            self.simulator.flush()
        if verdict == STUCK:
            raise stuck(self.simulator.state, self.simulator.jobs)
        if verdict == ILLEGAL:
            turn = self.play.memory.turn[0]
            raise refusal(
                int(turn["verdict"]), int(turn["refused_job"]), int(turn["refused_what"]),
                self.simulator.state, self.simulator.jobs,
            )  # fmt: skip
        return verdict != FULL

    def seen(self) -> Observation:
        """What the agent of this turn sees, in arrays of its own."""
        return seen_on(self._buffers) | self.links()

    def links(self) -> Observation:
        """The part that `rules.links` adds for the agent of this turn."""
        if self._links is None:
            return {}
        return dict(self._links.observe(self._views.view(), self.play.scratch, self.agent))

    def seen_by_all(self) -> dict[int, Observation]:
        """What all agents see now; who has no turn has only *wait* in its mask."""
        return see_everyone(self.play, self._links, self._views.view())

    def jct_mean_s(self) -> float:
        """Mean JCT of the jobs that are done, not given up without work; NaN before the first."""
        rows, jobs = self.simulator.state.job, self.simulator.jobs
        done = rows["status"] == FINISHED
        if jobs.fates is not None:
            done &= ~never_ran(jobs.duration_s, jobs.fates.withdraw_s)
        jct_s = rows["finish_s"][done] - rows["submit_s"][done]
        return float(jct_s.mean()) if done.any() else float("nan")

    def take(self) -> Gathered:
        """What was gathered in each partition since the last call."""
        return take(self.play.memory)


class SideBySide:
    """N runs of one cluster, turn by turn in one call: what agents see lies in batches.

    The runs need not have equally many jobs. Those that are over stay where they are.
    """

    def __init__(self, layout: Layout, make: Sequence[Callable[[Buffers], Turns]]) -> None:
        """Each of `make` makes a run that writes on its own row of the batch."""
        self.buffers = blank_buffers(layout, len(make))  # (N, ...) arrays
        self._links: Observation = {
            key: np.zeros((len(make), *shape), np.float32)
            for key, shape in layout.link_shapes().items()
        }
        self.runs = [
            one(Buffers(**{key: array[n] for key, array in self.buffers.members().items()}))
            for n, one in enumerate(make)
        ]
        like = self.runs[0].play
        self._addresses = np.array([handle_address(run.play, like) for run in self.runs])
        self._verdicts: IntArray = np.full(len(make), TURN, dtype=np.int64)

    @classmethod
    def fresh(
        cls, simulators: Sequence[Simulator], layout: Layout, rules: CodecRules, *, gathers: bool
    ) -> Self:
        """Runs from time 0, at their first turns."""

        def maker(simulator: Simulator) -> Callable[[Buffers], Turns]:
            return lambda buffers: Turns(simulator, layout, rules, gathers=gathers, buffers=buffers)

        made = cls(layout, [maker(each) for each in simulators])
        every: IntArray = np.arange(len(simulators))
        made._go_on(every, np.full(len(simulators), NO_ACTION))
        return made

    @classmethod
    def branches(cls, run: Turns, count: int) -> Self:
        """Forks of one run, at its turn."""
        return cls(run.layout, [run.fork] * count)

    def become(self, rows: IntArray, run: Turns) -> None:
        """Let the runs `rows`, once branches of `run`, be its branches at this turn."""
        for row in rows.tolist():
            self.runs[row].become(run)
        self._verdicts[rows] = TURN

    @property
    def playing(self) -> IntArray:
        """Runs in which an agent is to act."""
        return np.flatnonzero(self._verdicts == TURN)

    def seen(self, rows: IntArray) -> Observation:
        """What the agents of the runs `rows` see: arrays (len(rows), ...)."""
        for row in rows.tolist() if self._links else []:
            for key, value in self.runs[row].links().items():
                self._links[key][row] = value
        return {key: value[rows] for key, value in (shown(self.buffers) | self._links).items()}

    def act(self, rows: IntArray, actions: IntArray) -> None:
        """The agents of the runs `rows` act, and these runs go on to their next turns.

        Raises:
            InvalidDecision: an action is not legal.
            SimulationError: jobs of a run wait for ever.
        """
        mask = self.buffers.action_mask
        inside = (actions >= 0) & (actions < mask.shape[1])
        legal = inside & (mask[rows, np.where(inside, actions, 0)] != 0)
        for at in np.flatnonzero(~legal).tolist():
            run = self.runs[rows[at]]
            run.check(run.agent, int(actions[at]))
        self._go_on(rows, actions)

    def _go_on(self, rows: IntArray, actions: IntArray) -> None:
        verdicts = np.empty(len(rows), dtype=np.int64)
        play_all_on(self._addresses[rows], self.runs[0].play, actions, verdicts)
        for at in np.flatnonzero((verdicts != TURN) & (verdicts != OVER)).tolist():
            run = self.runs[rows[at]]
            while not run.settle(int(verdicts[at])):
                verdicts[at] = play_on(run.play)
        self._verdicts[rows] = verdicts
