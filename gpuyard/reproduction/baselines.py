"""Settings of the baselines, on validation windows: `reproduce.py experiment=baselines`.

Every setting of the line-up plays every cell; `rows` of the node are those of its page.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gpuyard.evaluation.lineup import entries_of, sweeps
from gpuyard.evaluation.task import assumed_of
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.node import PAGE_FILE, asked, reproduction_of, write_page
from gpuyard.reproduction.planned import Cell, Planned, cells_of, planned_of
from gpuyard.reproduction.runs import PARTS, forget_stored, run_all, write_drawn, write_frame
from gpuyard.reproduction.sheets import sheet_text
from sim.errors import amount
from sim.report.job_times import Interval
from sim.report.league import METRIC, LeagueRun, Place, by_block, ratio_over
from sim.report.table_text import TableText, ratio_text, rich_tables, write_markdown
from sim.times import HOUR_S

HEADERS = ("baseline", "setting", "mean JCT [h]", "over the best")


def tuning_rows(
    runs: Sequence[LeagueRun], *, between: str, confidence: float
) -> list[dict[str, Any]]:
    """Rows of `tuned.csv`: baselines in order of appearance, the best setting of each first.

    Settings are ranked by their geometric mean JCT, so that every cell counts alike, however long
    its jobs are. `ratio`: paired mean JCT over that of the best; `jct_mean_s`: arithmetic mean. The
    runs are of schedulers named `baseline<between>setting`; all ran at the same places.
    """
    times: dict[str, dict[str, dict[Place, float]]] = defaultdict(lambda: defaultdict(dict))
    at, cluster_of = ({run.place: run for run in runs},
                      {run.block: run.cluster for run in runs})  # fmt: skip
    for run in runs:
        baseline, _, setting = run.row.labels.scheduler.partition(between)
        times[baseline][setting][run.place] = float(run.row.metrics[METRIC])
    rows = []
    for baseline, settings in times.items():
        mean = {key: float(np.mean(np.log(list(v.values())))) for key, v in settings.items()}
        order = sorted(settings, key=mean.__getitem__)  # equal ones as in the file
        best = settings[order[0]]
        for setting in order:
            found = settings[setting]
            ratio = Interval(1.0, 1.0, 1.0, len(found))
            if setting != order[0]:
                # Cells that differ in load play the same jobs: they are one run.
                logs = {p: float(np.log(found[p] / best_s)) for p, best_s in best.items()}
                ratio = ratio_over(by_block(logs, at), cluster_of, confidence)
            rows.append({
                "baseline": baseline, "setting": setting, "best": int(setting == order[0]),
                "ratio": ratio.centre, "ratio_low": ratio.low, "ratio_high": ratio.high,
                "jct_mean_s": float(np.mean(list(found.values()))), "runs": len(found),
            })  # fmt: skip
    return rows


def _text(rows: Sequence[Mapping[str, Any]], part: str) -> TableText:
    """The same for people, with the part of the trace that the windows are of."""
    cells = tuple(
        (row["baseline"], row["setting"], f"{row['jct_mean_s'] / HOUR_S:.3g}",
         "best" if row["best"] else ratio_text(Interval(*(
             row[key] for key in ("ratio", "ratio_low", "ratio_high", "runs")))))
        for row in rows
    )  # fmt: skip
    return TableText(HEADERS, ((f"Settings of each baseline, {part} windows", cells),), "")


log = logging.getLogger(__name__)

CSV, MARKDOWN = "tuned.csv", "tuned.md"
BETWEEN = ": "  # of an entry's name and its setting


def run(launch: Launch) -> None:
    """Run every setting on every cell and validation window, write and print the best."""
    planned = _planned(launch)
    tasks = [each.task for each in planned if each.cell == planned[0].cell]
    launch.begin((CSV, MARKDOWN, PAGE_FILE), assumed=assumed_of(tasks[0].setting, tasks))
    forget_stored(launch, PARTS)
    found = run_all(planned, launch.folder, jobs=launch.config["jobs"])
    write_drawn(launch, zip(planned, found, strict=True))
    runs = [LeagueRun(p.cell, p.workload, row) for p, row in zip(planned, found, strict=True)]
    rows = tuning_rows(runs, between=BETWEEN, confidence=launch.config["confidence"])
    write_frame(launch.folder / CSV, rows)
    text = _text(rows, str(launch.config["part"]))
    write_markdown(launch.folder / MARKDOWN, text)
    write_page(launch.folder, sheet_text(pd.DataFrame(rows), launch.config["reproduce"]))
    table_console().print(rich_tables(text))
    print(f"results in {launch.folder}")


def _planned(launch: Launch) -> list[Planned]:
    """Every run: the line-up's entries, one contender a setting, named after it."""
    words = asked()
    found = reproduction_of(launch.config["reproduce"], experiment=words.experiment)
    spread = [_spread(cell) for cell in cells_of(found, words)[: launch.config["most_cells"]]]
    planned = planned_of(spread, missing=launch.config["missing"])
    log.info("%s, %s", amount(len(spread), "cell"), amount(len(planned), "run"))
    return planned


def _spread(cell: Cell) -> Cell:
    """The cell with one entry a setting instead of values with commas."""
    entries: list[dict[str, object]] = []
    for number, entry in enumerate(entries_of(cell.config)):
        name, words = entry.get("name"), entry["overrides"]
        if not name:
            raise ConfigError(f"lineup.entries[{number}] has no name; tuning needs one for it")
        for chosen in sweeps(words):
            label = name + BETWEEN + _setting(chosen, words)
            entries.append({**entry, "overrides": list(chosen), "name": label})
    return cell.entering(entries)


def _setting(chosen: Sequence[str], words: Sequence[str]) -> str:
    """What was swept, like `quantum_gpu_s=3600`."""
    swept = [word for word, whole in zip(chosen, words, strict=True) if word != whole]
    pairs = [word.partition("=") for word in swept]
    return " ".join(f"{key.rpartition('.')[2]}={value}" for key, _, value in pairs)
