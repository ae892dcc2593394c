"""Running a plan to its end from Python."""

from collections.abc import Callable

from sim.compiled.layout import Memory
from sim.compiled.preemptive_loop import play_preemptive
from sim.compiled.queue_loop import PAUSE, play_queue
from sim.compiled.seats import open_all
from sim.kernel.advance import FULL
from sim.kernel.layout import State

Progress = Callable[[int, float], None]  # (jobs finished, simulated seconds)
EVERY = 1000  # decisions between two calls of `progress`, as where Python decides
NEVER = 2**62


def drive(
    state: State, memory: Memory, flush: Callable[[], None], progress: Progress | None
) -> tuple[int, int]:
    """Play until nothing happens any more.

    Args:
        state: of a run at its beginning.
        memory: made for it.
        flush: empties the log's buffers.
        progress: called about every 1,000 decisions.

    Returns:
        OVER or STUCK (`sim.kernel.advance`), and the number of decisions.
    """
    open_all(memory)
    play = play_preemptive if memory.game[0]["preempts"] else play_queue
    stop = NEVER if progress is None else EVERY
    while True:
        verdict = play(state, memory, stop)
        if verdict == FULL:
            flush()
        elif verdict == PAUSE and progress is not None:
            stop += EVERY
            world = state.world[0]
            progress(len(state.job) - int(world["num_left"]), float(world["now_s"]))
        else:
            return int(verdict), int(memory.game[0]["decisions"])
