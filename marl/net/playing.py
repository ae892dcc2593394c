"""Whole runs under the compiled network: turns, answers and events without Python between them."""

from marl.codec.layout import CodecRules, Layout
from marl.net.network import ACT, CHOOSE, PLAY_ON, Net, best_action
from marl.turns.playing import TURN, Play, act, play_on
from marl.turns.plays import blank_buffers, make_play
from sim.engine.looping import Fault
from sim.jit import kernel
from sim.kernel.advance import ILLEGAL, PAUSE
from sim.routine import address_of, ask, count
from sim.view import ViewMaker


@kernel
def choose(play: Play, net: Net) -> int:
    """The greedy action of the agent whose turn it is."""
    return int(best_action(net, play.buffers, play.numbers))


@kernel
def _play(play: Play, net: Net, until: int) -> int:
    """Run on from where nobody is asked; OVER, STUCK, FULL, PAUSE (so many decisions), ILLEGAL."""
    turn = play.memory.turn[0]
    while True:
        verdict = count(net.routine[PLAY_ON], play)
        if verdict != TURN:
            return int(verdict)
        if not ask(net.routine[ACT], play, count(net.routine[CHOOSE], play, net)):
            return ILLEGAL
        if turn.decisions >= until:
            return PAUSE


def link(net: Net, play: Play) -> None:
    """Write down where what plays runs like `play` stands: it is compiled once, for all callers."""
    net.routine[CHOOSE] = address_of(choose, count, play, net, numbers=0)
    net.routine[PLAY_ON] = address_of(play_on, count, play, numbers=0)
    net.routine[ACT] = address_of(act, ask, play, numbers=1)


class NetLoop:
    """One run, played greedily."""

    def __init__(self, views: ViewMaker, layout: Layout, rules: CodecRules, net: Net) -> None:
        """For a run that begins; `net` is used by one run at a time."""
        self._net = net
        self._turns = make_play(views.view(), layout, rules, blank_buffers(layout), gathers=False)
        link(net, self._turns)

    @property
    def decisions(self) -> int:
        """Times that somebody was asked so far, or nobody had a choice."""
        return int(self._turns.memory.turn["decisions"][0])

    @property
    def fault(self) -> Fault:
        """Why an action was refused."""
        turn = self._turns.memory.turn[0]
        return int(turn["verdict"]), int(turn["refused_job"]), int(turn["refused_what"])

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(_play(self._turns, self._net, until_decision))
