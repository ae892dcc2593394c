"""The loop of a plan."""

from sim.compiled.building import make_memory
from sim.compiled.plan import Plan
from sim.compiled.preemptive_loop import play_preemptive
from sim.compiled.queue_loop import play_queue
from sim.compiled.seats import open_all
from sim.jobs import JobTable
from sim.kernel.apply import LEGAL
from sim.kernel.layout import State
from sim.looping import Fault
from sim.physics.physics import Physics


class PlanLoop:
    """Plays a plan (`sim.looping.Loop`); its starts need no check, so none is refused."""

    fault: Fault = (LEGAL, -1, -1)

    def __init__(self, *, plan: Plan, state: State, jobs: JobTable, belief: Physics) -> None:
        """Memory for a run that begins."""
        self._state = state
        self._memory = make_memory(plan=plan, state=state, jobs=jobs, belief=belief)
        open_all(self._memory)
        self._play = play_preemptive if plan.preempts else play_queue

    @property
    def decisions(self) -> int:
        """Made so far."""
        return int(self._memory.game[0]["decisions"])

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL or PAUSE."""
        return int(self._play(self._state, self._memory, until_decision))
