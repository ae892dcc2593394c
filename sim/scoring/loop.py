"""The linear score in one compiled loop."""

from sim.engine.looping import Fault
from sim.jit import array_kernel
from sim.kernel.advance import DECIDE, FULL, ILLEGAL, PAUSE, advance_until_decision
from sim.kernel.apply import LEGAL
from sim.kernel.log import log_half_full
from sim.scoring.acting import close_decision
from sim.scoring.deciding import decide_all
from sim.scoring.plan import Plan


@array_kernel
def _play(plan: Plan, until_decision: int) -> int:
    orders, state = plan.orders[0], plan.scratch.state
    while True:
        if log_half_full(state):
            return FULL
        verdict = advance_until_decision(state)
        if verdict != DECIDE:
            return verdict
        decide_all(plan)
        if orders.verdict != LEGAL:
            return ILLEGAL
        close_decision(plan)
        if plan.scratch.game[0].decision >= until_decision:
            return PAUSE


class LinearLoop:
    """Plays the linear score (`sim.engine.looping.Loop`)."""

    def __init__(self, plan: Plan) -> None:
        """For a run that begins, and the plan of its scheduler."""
        self._plan = plan

    @property
    def decisions(self) -> int:
        """Made so far."""
        return int(self._plan.scratch.game[0]["decision"])

    @property
    def fault(self) -> Fault:
        """Why a decision was refused."""
        orders = self._plan.orders[0]
        return int(orders["verdict"]), int(orders["job"]), int(orders["what"])

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(_play(self._plan, until_decision))
