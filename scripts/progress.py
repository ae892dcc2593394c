"""Progress of a simulated run on the terminal."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sim.protocols import Scheduler
from sim.run import Run
from sim.simulator import Simulator, simulate


def run_with_progress(simulator: Simulator, scheduler: Scheduler, seed: int) -> Run:
    """Simulate to the end, showing jobs done, simulated days and speed."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jobs, day {task.fields[day]:.1f}"),
        TimeElapsedColumn(),
    )
    total = len(simulator.jobs)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(scheduler.name, total=total, day=0.0)
        run = simulate(
            simulator,
            scheduler,
            seed,
            lambda done, now_s: bar.update(task, completed=done, day=now_s / 86400.0),
        )
        bar.update(task, completed=total)
    return run
