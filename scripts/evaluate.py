"""Compare schedulers on paired windows: `python scripts/evaluate.py checkpoint=DIR windows=5`."""

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import compress

import hydra
from evaluate_report import remove_results, write_evaluation, write_rivals
from evaluate_task import (
    Outcome,
    Task,
    assumed_of,
    setting_text,
    task_labels,
    warn_of_task,
    windows_played,
)
from launch import run_main, start
from launch_errors import ConfigError
from lineup import lineup_of
from omegaconf import DictConfig
from plain_rules import check_confidence
from run_count import RunCount
from terminal import table_console
from workers import outcomes_of

from sim.report.run_folder import write_record

log = logging.getLogger(__name__)


@hydra.main(version_base=None, config_path="../conf", config_name="evaluate")
def main(cfg: DictConfig) -> None:
    """Compose the line-up, run every scheduler on every window, write, print."""
    launch = start(cfg)
    config = launch.config
    remove_results(launch.folder)
    check_confidence(config)
    tasks = _tasks(config)
    ours = _ours(config["ours"], tasks)
    assumed = assumed_of(tasks[0].setting)
    write_record(launch.folder, replace(launch.record, assumed=assumed))
    outcomes = _counted(outcomes_of(tasks, config["jobs"]), len(tasks))
    tables, focus = write_evaluation(
        launch.folder, outcomes, ours=ours, confidence=config["confidence"], assumed=assumed
    )
    table_console().print(tables)
    if config["rivals"] and ours is not None:
        table_console().print(
            write_rivals(
                launch.folder,
                outcomes,
                ours=ours,
                part=config["part"],
                confidence=config["confidence"],
            )
        )
    log.info("metrics.json holds the means over windows of %s", focus)
    print(f"results in {launch.folder}")


def _counted(outcomes: Iterable[Outcome], total: int) -> list[Outcome]:
    """All outcomes, once they are there."""
    found: list[Outcome] = []
    with RunCount("evaluating", total) as count:
        for outcome in outcomes:
            found.append(outcome)
            labels = outcome.row.labels
            count.tell(f"{labels.scheduler} window {labels.window}")
    return found


def _tasks(config: dict[str, object]) -> list[Task]:
    """Window by window, so that a worker meets the same window again.

    Raises:
        ConfigError: `windows` is below 1, or two entries make the same scheduler.
    """
    windows = config["windows"]
    if type(windows) is not int or windows < 1:
        raise ConfigError(f"windows is {windows!r}; it must be a whole number from 1")
    entries = [(contender, setting_text(config, contender)) for contender in lineup_of(config)]
    tasks = [
        Task(setting=setting, contender=contender, part=str(config["part"]), window=window)
        for window in range(windows_played(windows, entries[0][1], str(config["part"])))
        for contender, setting in entries
    ]
    first = tasks[: len(entries)]
    for task in first:
        warn_of_task(task)
    names = [(labels.scheduler, labels.agents) for labels in map(task_labels, first)]
    (scheduler, agents), count = Counter(names).most_common(1)[0]
    if count > 1:
        twice = [name == (scheduler, agents) for name in names]
        places = [task.contender.place for task in compress(first, twice)]
        raise ConfigError(
            f"{' and '.join(places)} make the same scheduler {scheduler}; leave one out or give "
            f"it a name"
        )
    return tasks


def _ours(wanted: str | None, tasks: list[Task]) -> str | None:
    """The scheduler that the others are divided by: the one wanted, else that of role ours.

    Raises:
        ConfigError: none of the schedulers has the name wanted.
    """
    names = {task_labels(task).scheduler: task.contender.role for task in tasks}
    if wanted is not None and wanted not in names:
        raise ConfigError(f"ours is {wanted!r}; the schedulers here are {', '.join(names)}")
    return wanted or next((name for name, role in names.items() if role == "ours"), None)


if __name__ == "__main__":
    run_main(main)
