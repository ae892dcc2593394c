"""Plays as Python handles them: made, forked, checked, seen; and turns for who sees views."""

from dataclasses import fields, replace

import numpy as np

from marl.env.actions import KINDS, ROUTINES, Sizes
from marl.env.layout import WORKER, CodecRules, Layout, LinkObserver, Observation
from marl.env.memory import Memory, make_memory
from marl.env.observe import Buffers
from marl.env.playing import Play, choose, find_turn, is_legal, link, look_at, open_epoch, pause_s
from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.errors import InvalidDecision
from sim.kernel.layout import State
from sim.scoring.scratch import Mind, Scratch, scratch_of
from sim.view import ClusterView, state_of

FIXED = ("state", "job", "belief")  # of the scratch: forks keep them, or have their own state
# Axes of what these rules do not show.
ABSENT = {each.rows: len(each.axes) + 1 for each in KINDS if each.rule}
ABSENT |= {"all_gpus": 4, "all_servers": 3, "all_racks": 2}
DTYPES: dict[str, type[np.int64 | np.int8]] = {  # the others are float32
    "server_rack": np.int64, "all_racks": np.int64, "action_mask": np.int8,
}  # fmt: skip


def blank_buffers(layout: Layout, *many: int, servers: bool = True) -> Buffers:
    """Buffers of zeros; with `many`, arrays of so many; `servers`: these and GPUs are looked at."""
    shapes = {key: (0,) * axes for key, axes in ABSENT.items()} | layout.shapes()
    if not servers:
        shapes["gpus"] = (0,) * len(shapes["gpus"])
    return Buffers(
        **{
            key: np.zeros((*many, *shapes[key]), DTYPES.get(key, np.float32))
            for key in (each.name for each in fields(Buffers))
        }
    )


def make_play(
    view: ClusterView, layout: Layout, rules: CodecRules, buffers: Buffers, *, gathers: bool
) -> Play:
    """The play of a run in which nobody has acted, to be linked (`marl.env.playing.link`).

    `view` needs `marl.env.layout.NEEDS`.
    """
    jobs = view.jobs.num_gpus
    mind = Mind(
        window=rules.window,
        patience_s=float(rules.patience_s),
        use_durations=True,
        rest_share=float(rules.rest_share),
        look_ahead=True,
        rest_most_s=np.inf if rules.rest_most_s is None else float(rules.rest_most_s),
    )
    scratch = scratch_of(view, mind)
    return Play(
        scratch=scratch,
        routine=np.zeros(ROUTINES, dtype=np.int64),
        memory=make_memory(
            jobs=len(jobs),
            partitions=view.num_partitions,
            actions=layout.actions,
            window=rules.window,
            largest_gang=min(int(jobs.max()), view.topology.num_gpus),
            running=len(state_of(view).running),
        ),
        buffers=buffers,
        racks=_racks(scratch),
        numbers=layout.sizes.table(),
        max_forwards=int(view.max_forwards),
        only_placeable=bool(rules.only_placeable),
        sharing=bool(rules.sharing),
        alone=bool(rules.alone),
        blind_peers=bool(rules.blind_peers),
        by_worker=rules.granularity == WORKER,
        interval_s=float(rules.interval_s),
        gathers=gathers,
    )


def _racks(scratch: Scratch) -> IntArray:
    """(S,) racks of the servers in `own`: not always neighbours, numbered from 0 all the same."""
    state, count = scratch.state, len(scratch.state.rack)
    first = state.server["partition"][state.own] * count
    codes, places = np.unique(first + state.server["rack"][state.own], return_inverse=True)
    return places - np.searchsorted(codes, first)


def forked(play: Play, state: State, buffers: Buffers) -> Play:
    """The same turn of the run in `state`, a copy of the play's own, seen on another buffers."""
    own: Scratch = play.scratch.copied(shared=FIXED)
    buffers.overwrite(play.buffers)
    return replace(
        play, scratch=replace(own, state=state), memory=play.memory.copied(), buffers=buffers
    )


def seen_on(buffers: Buffers) -> Observation:
    """What is in the buffers, in arrays of its own."""
    return {key: value.copy() for key, value in shown(buffers).items()}


def shown(buffers: Buffers) -> Observation:
    """The arrays of the buffers, or of a batch of them, that the rules show."""
    return {key: value for key, value in buffers.members().items() if value.size}


def check(play: Play, sizes: Sizes, agent: int, action: int) -> None:
    """Raise InvalidDecision for an action that is not legal now."""
    if not is_legal(play, agent, action):
        now_s = play.scratch.state.world["now_s"][0]
        raise InvalidDecision(
            f"agent {agent}: action {action} ({sizes.words(action)}) is not legal at "
            f"t={now_s:.1f} s; choose an action whose mask is 1"
        )


def see_everyone(
    play: Play, links: LinkObserver | None, view: ClusterView
) -> dict[int, Observation]:
    """What all agents see; who has no turn has only *wait* in its mask."""
    turn = play.memory.turn
    turn["agent"] = -1
    last, amid, count = int(turn["last"][0]), bool(turn["begun"][0] > 0), len(play.memory.waited)
    seen: dict[int, Observation] = {}
    for agent in (*range(last, count), *range(last)):
        silent = turn["agent"][0] >= 0 or play.memory.waited[agent] != 0
        look_at(play, agent, bool(silent or (amid and agent != last)))
        seen[agent] = with_links(play, links, view, agent)
    return seen


def with_links(
    play: Play, links: LinkObserver | None, view: ClusterView, agent: int
) -> Observation:
    """What is in the buffers of `agent`, and of its links where `rules.links` asks for them."""
    seen = seen_on(play.buffers)
    if links is not None:
        seen |= links.observe(view, play.scratch, agent)
    return seen


def ordered(memory: Memory) -> Decision:
    """What the last action orders."""
    counts = (memory.turn[key][0] for key in ("preempts", "forwards", "starts"))
    preempts, forwards, starts = map(int, counts)  # of a row alone they take ten times as long
    gpus = memory.start_gpus[: memory.start_first[starts]].copy()
    return Decision(
        starts=(Start(int(memory.start_job[0]), gpus),) if starts else (),
        preempts=tuple(memory.preempt[:preempts].tolist()),
        forwards=(Forward(*memory.forward[0].tolist()),) if forwards else (),
        again=True,
    )


class Rounds:
    """The turns of one decision epoch after the other, until every agent waits.

    The rules are those of `marl.env.playing`; `marl.env.turns` plays a whole run by them.
    """

    def __init__(self, *, layout: Layout, rules: CodecRules, servers: bool = True) -> None:
        """`layout` gives the padded sizes of observations; `servers`: somebody reads of them."""
        self.layout = layout
        self.rules = rules
        self._buffers = blank_buffers(layout, servers=servers)
        self._play: Play | None = None
        self._links: LinkObserver | None = None

    def restart(self) -> None:
        """Forget the run: call before the first view of another."""
        self._play = None

    def open(self) -> None:
        """A new epoch: everybody may act."""
        if self._play is not None:
            open_epoch(self._play)

    def play(self, view: ClusterView) -> Play:
        """State, memory and buffers as compiled code takes them."""
        if self._play is None:
            self._play = make_play(view, self.layout, self.rules, self._buffers, gathers=False)
            link(self._play)
            self._links = LinkObserver(view, self.layout) if self.layout.edges else None
        return self._play

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
        return ordered(memory)
