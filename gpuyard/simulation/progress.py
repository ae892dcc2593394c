"""Progress of a simulated run: a bar on a terminal, else a line now and then."""

import sys
import time
from typing import TYPE_CHECKING

from sim.protocols import Scheduler
from sim.run import Run
from sim.simulator import Simulator, simulate

if TYPE_CHECKING:
    from rich.progress import Progress


DAY_S = 86400.0
LINE_EVERY_S = 30.0  # where standard error is no terminal
DRAW_EVERY_S = 0.25


def run_with_progress(
    simulator: Simulator, scheduler: Scheduler, seed: int, *, compiled: bool
) -> Run:
    """Simulate to the end, telling on standard error how far the run is.

    With `compiled` in a compiled form of the scheduler, where it has one (`simulate`).
    Simulated days, jobs done, jobs/s, simulated over wall time, waiting jobs, time left.
    """
    if not sys.stderr.isatty():
        tell = Lines(simulator, scheduler.name).tell
        return simulate(simulator, scheduler, seed, tell, compiled=compiled)
    with _bar() as bar:
        tell = Bar(simulator, scheduler.name, bar).tell
        return simulate(simulator, scheduler, seed, tell, compiled=compiled)


class Meter:
    """Turns the reports of a simulation into speeds, at most once every `every_s`."""

    def __init__(self, simulator: Simulator, every_s: float) -> None:
        """Start the clock."""
        self.total = len(simulator.jobs)
        self.from_s = float(simulator.jobs.submit_s[0])
        self._simulator = simulator
        self._every_s = every_s
        self._began = self._told = time.perf_counter()

    def due(self) -> bool:
        """Whether it is time to tell something."""
        now = time.perf_counter()
        if now - self._told < self._every_s:
            return False
        self._told = now
        return True

    def words(self, done: int, now_s: float) -> str:
        """How far, how fast, how long still; the rest is judged by the jobs that are done."""
        wall_s = max(time.perf_counter() - self._began, 1e-9)
        passed_s = max(now_s - self.from_s, 0.0)
        waiting = int(self._simulator.state.world["num_queued"][0])
        from gpuyard.launch.terminal import clock_text  # rich

        left = clock_text(wall_s * (self.total - done) / done) if done else "?"
        return (
            f"day {passed_s / DAY_S:.1f}, {done / wall_s:,.0f} jobs/s, "
            f"{passed_s / wall_s:,.0f} x real time, {waiting:,} waiting, {left} left"
        )


class Lines:
    """One line on standard error every LINE_EVERY_S."""

    def __init__(self, simulator: Simulator, name: str) -> None:
        """Say nothing yet: short runs stay silent."""
        self._meter = Meter(simulator, LINE_EVERY_S)
        self._name = name

    def tell(self, done: int, now_s: float) -> None:
        """Called by the simulation about every 1,000 decisions."""
        if self._meter.due():
            share = done / self._meter.total
            words = f"{done:,}/{self._meter.total:,} jobs ({share:.0%})"
            print(f"{self._name}: {words}, {self._meter.words(done, now_s)}", file=sys.stderr)


class Bar:
    """A bar that is redrawn every DRAW_EVERY_S, by the simulation itself: no thread beside it."""

    def __init__(self, simulator: Simulator, name: str, bar: "Progress") -> None:
        """Draw the empty bar."""
        self._meter = Meter(simulator, DRAW_EVERY_S)
        self._bar = bar
        self._task = bar.add_task(name, total=self._meter.total, words="starting")
        bar.refresh()

    def tell(self, done: int, now_s: float) -> None:
        """Called by the simulation about every 1,000 decisions."""
        if self._meter.due():
            words = self._meter.words(done, now_s)
            self._bar.update(self._task, completed=done, words=words, refresh=True)


def _bar() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from gpuyard.launch.terminal import error_console

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("jobs, {task.fields[words]}"),
    )
    return Progress(*columns, console=error_console(), transient=True, auto_refresh=False)
