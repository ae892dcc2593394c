"""Progress of an evaluation on the terminal: how many runs are done, and which came last."""

from collections.abc import Iterable

from evaluate_task import Outcome
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def gathered(outcomes: Iterable[Outcome], total: int) -> list[Outcome]:
    """All outcomes, once they are there; the bar is on stderr."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs, {task.fields[last]}"),
        TimeElapsedColumn(),
    )
    found: list[Outcome] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("evaluating", total=total, last="starting")
        for outcome in outcomes:
            found.append(outcome)
            labels = outcome.row.labels
            bar.update(task, advance=1, last=f"{labels.scheduler} window {labels.window}")
    return found
