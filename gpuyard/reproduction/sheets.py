"""Tables of what other programs leave: `python scripts/reproduce.py experiment=generators`.

Each of `runs` (name -> a program and its overrides) is made once, in the order of the file, each
in a folder of its own. Then rows of the CSV files called `sheet` that they left are the cells of a
table; without `sheet` the experiment's league is played, which may name what they left.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from gpuyard.evaluation.lineup import STARTED, entries_of
from gpuyard.evaluation.task import ours_of
from gpuyard.launch.build import check_keys, check_texts, resolve
from gpuyard.launch.errors import ConfigError, instead, programs_with
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import table_console
from gpuyard.reproduction.ahead import told_at
from gpuyard.reproduction.node import PAGE_FILE, asked, write_page
from gpuyard.reproduction.planned import Cell
from gpuyard.reproduction.reproduce import plan, run_league
from gpuyard.reproduction.runs import forget_stored, run_once
from marl.policy import SHIPPED
from sim.report.table_text import TableText, rich_tables

RUNS, RUN, NOTHING = "runs", "run", "-"
KEYS = ("program", "title", RUNS, "quick", "sheet", "rows", "columns", "cell")
NAMED = ("traces",)  # folders that the words of runs name


def run(launch: Launch) -> None:
    """Run what is missing, then make the table or play the league; GpuYardError: a run failed."""
    node = launch.config["reproduce"]
    if "sheet" in node:
        check_keys("reproduce", node, (*KEYS, *NAMED), needed=KEYS)
    folder, quick = launch.folder / RUNS, node["quick"] if asked().debug else {}
    runs = {}
    for name, words in node[RUNS].items():
        place = f"reproduce.runs.{name}"
        check_texts(place, words, "of a program and its overrides", empty=False)
        runs[name] = [*words, *quick.get(name, ())]
        known = programs_with("hydra", chosen=True)  # all
        if words[0] not in known:
            raise ConfigError(f"{place}: {words[0]!r} is no program; {instead(words[0], known)}")
        with told_at(place):
            resolve(composed_of(runs[name][0], runs[name][1:]))
    if "sheet" not in node:
        _check_league(launch, folder)
    forget_stored(launch, RUNS)
    for name, words in runs.items():
        run_once(folder / name, words)
    if "sheet" not in node:
        run_league(launch)
        return
    launch.begin((PAGE_FILE,))
    found = sheets_of(folder, list(node[RUNS]), str(node["sheet"]))
    text = sheet_text(found, node)
    write_page(launch.folder, text)
    table_console().print(rich_tables(text, texts=1))
    print(f"results in {launch.folder}")


def _check_league(launch: Launch, folder: Path) -> None:
    """Plan the league before the runs; what ships plays for what they will leave in `folder`.

    A league whose entries name what they leave is planned after them.

    Raises:
        ConfigError: the league could not be played, or `ours` is none of it.
    """

    def prepared(cell: Cell) -> Cell:
        config = _without(cell.config, folder)
        if cell.config["checkpoint"] != config["checkpoint"]:
            config["checkpoint"] = SHIPPED[0]
        return replace(cell, config=config)

    if str(folder) not in json.dumps(entries_of(launch.config)):
        planned, ours = plan(launch, prepared)[1], launch.config["ours"]
        ours_of([each.task for each in planned], None if ours == STARTED else ours)


def _without(found: Any, folder: Path) -> Any:
    """A configuration with null for paths in a folder where nothing is."""
    if isinstance(found, Mapping):
        return {key: _without(value, folder) for key, value in found.items()}
    if isinstance(found, list):
        return [_without(value, folder) for value in found]
    late = isinstance(found, str) and folder in Path(found).parents and not Path(found).exists()
    return None if late else found


def sheets_of(folder: Path, names: Sequence[str], sheet: str) -> pd.DataFrame:
    """The rows that the runs left, below each other; the column `run` has the name of each."""
    return pd.concat([pd.read_csv(folder / name / sheet).assign(**{RUN: name}) for name in names])


def sheet_text(found: pd.DataFrame, node: Mapping[str, Any]) -> TableText:
    """A line of `rows` and a column of `columns` choose a row of the sheets by its values.

    Both map a heading to values by the sheets' columns; `cell` formats what was chosen, and where
    nothing was there is `-`.

    Raises:
        ConfigError: there is no such column, or several rows have these values.
    """
    headers, lines = ("", *node["columns"]), []
    for label, values in node["rows"].items():
        chosen = [_chosen(found, {**values, **more}) for more in node["columns"].values()]
        lines.append((label, *(str(node["cell"]).format(**row) if row else NOTHING
                               for row in chosen)))  # fmt: skip
    return TableText(headers, ((str(node["title"]), tuple(lines)),), "")


def _chosen(found: pd.DataFrame, values: Mapping[str, Any]) -> dict[str, Any]:
    """The row with these values; empty where there is none."""
    for key, value in values.items():
        if key not in found:
            known = instead(key, map(str, found))
            raise ConfigError(f"reproduce: the sheets have no {key!r}; {known}")
        found = found[found[key].astype(str) == str(value)]
    if len(found) > 1:
        raise ConfigError(f"reproduce: {len(found)} rows of the sheets have {dict(values)}")
    return {str(key): value for row in found.to_dict("records") for key, value in row.items()}
