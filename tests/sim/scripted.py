"""A scheduler that says what it is told to say."""

from collections.abc import Callable
from typing import Any

from sim.decision import WAIT, Decision
from sim.simulator import Simulator, simulate
from sim.view import ClusterView, Signal


class Scripted:
    """Answers the n-th question with the n-th decision, then waits; or asks a function."""

    name = "scripted"

    def __init__(
        self, *script: Decision | Callable[[ClusterView], Decision], needs: Signal = Signal.NONE
    ) -> None:
        self.script, self.needs = script, needs
        self.asked_s: list[float] = []

    def reset(self, seed: int) -> None:
        del seed
        self.asked_s = []

    def decide(self, view: ClusterView) -> Decision:
        self.asked_s.append(view.now_s)
        if len(self.asked_s) > len(self.script):
            return WAIT
        answer = self.script[len(self.asked_s) - 1]
        return answer(view) if callable(answer) else answer


class Seen(Exception):
    """What a look saw."""


def looked(
    yard: Simulator, look: Callable[[ClusterView], Any], *first: Decision, needs: Signal
) -> Any:
    """What `look` returns at the decision after these; the run ends there."""

    def decide(view: ClusterView) -> Decision:
        raise Seen(look(view))

    try:
        simulate(yard, Scripted(*first, decide, needs=needs), 0, None)
    except Seen as seen:
        return seen.args[0]
    raise AssertionError("nobody was asked")
