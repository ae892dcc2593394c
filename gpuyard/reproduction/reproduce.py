"""Runs the tables and figures of papers again: `python scripts/reproduce.py experiment=<id>`.

Without an experiment it lists what there is. Finished runs are kept, so the same command goes on
where it was stopped. A folder gets tables, ranks, figures, and claims beside measurements.
"""

import logging
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Group

from gpuyard.evaluation.task import ours_of, task_labels
from gpuyard.launch.build import check_choice, check_confidence, check_count, check_kinds
from gpuyard.launch.errors import ConfigError, called, instead
from gpuyard.launch.start import Launch, program, start
from gpuyard.launch.sweeps import processes_of
from gpuyard.launch.terminal import table_console
from gpuyard.pages.comparison_page import CURVES, write_folder_page
from gpuyard.reproduction.node import (
    PAGE_FILE,
    Reproduction,
    asked,
    page_with,
    put_into,
    reproduction_of,
    titles,
)
from gpuyard.reproduction.planned import PROGRAM, Cell, Planned, cells_of, planned_of, standing_in
from gpuyard.reproduction.runs import (
    PARTS,
    assumed_in,
    forget_stored,
    rank_rows,
    run_missing,
    write_drawn,
    write_frame,
)
from sim.errors import GpuYardError, amount
from sim.files import ComparisonRow, write_atomically
from sim.report.arms import arm_rows, arms_csv, arms_markdown
from sim.report.comparison_report import write_comparison
from sim.report.figure_studies import league_heat, rank_figure
from sim.report.headline import FILES as HEADLINE_FILES
from sim.report.headline import headline_cells, write_headline
from sim.report.league import (
    METRIC,
    League,
    LeagueRun,
    default_reference,
    league_csv,
    league_note,
    league_of,
    league_rows,
    league_text,
    rank_in_common,
    rank_over_all,
)
from sim.report.page_table import PageTable, claims_csv, claims_markdown, measured, page_markdown
from sim.report.significance import Ranking
from sim.report.table_text import markdown, rich_tables

log = logging.getLogger(__name__)

FAILURES = "failures.txt"
FAILED = ("error", "skip")
Prepare = Callable[[Cell], Cell]


def main() -> None:
    """Run the experiment that is named; without one, list them."""
    if any(word.startswith(("experiment=", "-")) for word in sys.argv[1:]):
        reproduce()
    else:
        show_list()


@program(PROGRAM)
def reproduce(cfg: DictConfig) -> None:
    """Hand over to the experiment's own program, if it names one; else run its league."""
    launch = start(cfg, reproduces=True)
    check_confidence(launch.config)
    check_kinds(launch.config, bool, "page", "fresh")
    check_choice(launch.config, "failed", FAILED)  # before anything that takes time
    check_count("most_cells", launch.config["most_cells"], null=True)
    processes_of(launch.config["jobs"], 1)
    experiment = HydraConfig.get().runtime.choices["experiment"]
    program = program_of(launch.config.get("reproduce"), experiment=str(experiment))
    run = run_league if program is None else program
    into = launch.config["into"]
    if into is not None:
        page_with(Path(str(into)), name=str(experiment), table="")
    run(launch)
    if into is not None:
        _put_table(launch, str(experiment))
    if launch.config["page"]:
        title = str(launch.config["reproduce"]["title"])
        write_folder_page(launch.folder, launch.record, launch.config, title=title)


def _put_table(launch: Launch, experiment: str) -> None:
    """Put the table of page.md, which every program writes, where the page of results has it."""
    table = (launch.folder / PAGE_FILE).read_text(encoding="utf-8")
    page = Path(str(launch.config["into"]))
    put_into(page, name=experiment, table=table)
    print(f"the table is in {page}")


def run_league(launch: Launch, prepared: Prepare = lambda cell: cell) -> None:
    """Plan every cell, run what is missing, write, print.

    `prepared` may give a cell what its file cannot name, such as policies trained just now.

    Raises:
        ConfigError: the experiment or a value of the configuration is wrong.
        GpuYardError: runs failed and `failed` is not "skip".
    """
    config, failed = launch.config, launch.config["failed"]
    found, planned = plan(launch, prepared)
    cells = len({each.cell for each in planned})
    log.info("%s: %s, %s", found.title, amount(cells, "cell"), amount(len(planned), "run"))
    ours = ours_of([each.task for each in planned], config["ours"])
    forget_stored(launch, PARTS)
    launch.begin(RESULT_FILES, assumed=assumed_in(planned))
    rows, failures = run_missing(planned, launch.folder, jobs=config["jobs"])
    path = launch.folder / FAILURES
    path.unlink(missing_ok=True)  # of an earlier run
    if failures:
        path.write_text("\n".join(failures), encoding="utf-8")
    if failures and (failed != "skip" or not any(rows)):
        raise GpuYardError(
            f"{len(failures)} of {len(planned)} runs failed, which {path} tells; the others are "
            f"stored (failed=skip makes tables of them)"
        )
    done = [(p, ComparisonRow(p.labelled(row.labels), row.metrics))
            for p, row in zip(planned, rows, strict=True) if row is not None]  # fmt: skip
    lacking = f"{len(failures)} of {len(planned)} runs failed and are in no table: {FAILURES}."
    table_console().print(_written(launch, found, done, ours, lacking * bool(failures)))
    write_drawn(launch, done)
    print(f"results in {launch.folder}")


def _written(
    launch: Launch,
    found: Reproduction,
    done: Sequence[tuple[Planned, ComparisonRow]],
    ours: str | None,
    lacking: str,
) -> Group:
    """Write every table; return the one to be printed: the headline, or the league without ours."""
    runs = [LeagueRun(p.cell, p.workload, row) for p, row in done if not p.picks]
    confidence, level = launch.config["confidence"], launch.config["level"]
    league = write_reproduction(
        launch.folder, found, runs, ours=ours, confidence=confidence, level=level, lacking=lacking
    )
    if ours is None:
        return league
    other = found.picked_on.part if found.picked_on else ""
    cells = headline_cells(
        [run.row for run in runs],
        [row for p, row in done if p.picks],
        ours=ours,
        parts=(other, str(launch.config["part"])),
        confidence=confidence,
    )
    return write_headline(launch.folder, cells, title=found.title, confidence=confidence)


def plan(launch: Launch, prepared: Prepare) -> tuple[Reproduction, list[Planned]]:
    """What the experiment asks for, and every run of it; errors as `run_league`."""
    config = launch.config
    if HydraConfig.get().runtime.choices["experiment"] is None:
        raise ConfigError(f"name an experiment: experiment={' or experiment='.join(titles())}")
    words = asked()
    found = reproduction_of(config.get("reproduce"), experiment=words.experiment)
    cells = [prepared(cell) for cell in cells_of(found, words)[: config["most_cells"]]]
    planned = planned_of(cells, missing=config["missing"], picked_on=found.picked_on)
    if config["into"] is not None:
        check_page(found.page, planned)
    return found, planned


def check_page(tables: Sequence[PageTable], planned: Sequence[Planned]) -> None:
    """Raise ConfigError if a page's tables would be empty: what is run is in none of their rows."""
    metrics = dict.fromkeys((METRIC, *(row.metric for each in tables for row in each.rows)), 1.0)
    firsts = [each for each in planned if each.task.window == 0 and not each.picks]
    labels = [each.labelled(task_labels(each.task)) for each in firsts]
    runs = [LeagueRun(each.cell, each.workload, ComparisonRow(of, metrics))
            for each, of in zip(firsts, labels, strict=True)]  # fmt: skip
    if not page_markdown(tables, runs, confidence=0.95):
        raise ConfigError(
            "into: no row and column of reproduce.page is of schedulers and cells that would be "
            "run; leave out into=, or run some of them"
        )


def check_ahead(
    planned: Callable[[Prepare], Sequence[Planned]], names: Collection[str], ours: str | None
) -> str | None:
    """Plan a league before the policies of these names are trained; the scheduler that is ours.

    Raises:
        ConfigError: the league could not be played, or `ours` is none of it.
    """
    found = planned(lambda cell: standing_in(cell, names))
    return ours_of([each.task for each in found], ours)


def show_list() -> None:
    """What can be reproduced."""
    found = titles()
    width = max(map(len, found), default=0)
    for name, title in found.items():
        print(f"{name:{width}}  {title}")
    print(f"run one: {' '.join(called(PROGRAM))} experiment=NAME (in a minute: debug=quick)")


Program = Callable[[Launch], None]


def program_of(node: Any, *, experiment: str) -> Program | None:
    """What runs this experiment: `run(launch)` of the module that `reproduce.program` names.

    The program reads the rest of the node, writes to `launch.folder`, keeps what is finished there
    so that the same command goes on, and says what it does on standard error.

    Returns:
        None where the node names no program: its cells are runs of schedulers.

    Raises:
        ConfigError: there is no such module, or it has no `run`.
    """
    name = node.get("program") if isinstance(node, Mapping) else None
    if name is None:
        return None
    known = known_programs()
    if name not in known:
        raise ConfigError(
            f"experiment={experiment}: reproduce.program is {name!r}; {instead(name, known)}"
        )
    run: Program = import_module(f"{__package__}.{name}").run
    return run


def known_programs() -> list[str]:
    """Modules of this folder that define `run(launch)`, sorted."""
    paths = sorted(Path(__file__).resolve().parent.glob("*.py"))
    return [path.stem for path in paths if "\ndef run(launch" in path.read_text("utf-8")]


RESULT_FILES = (
    "comparison.csv", "comparison.md", "jct_bars.png", "league.csv", "league.md", "league.png",
    "ranks.csv", "ranks.png", "ranks_common.png", "paper.csv", "paper.md", "arms.csv", "arms.md",
    PAGE_FILE, CURVES, *HEADLINE_FILES,
)  # fmt: skip


def write_reproduction(
    folder: Path,
    found: Reproduction,
    runs: Sequence[LeagueRun],
    *,
    ours: str | None,
    confidence: float,
    level: float,
    lacking: str = "",
) -> Group:
    """Write every file from the runs that there are, cell by cell; return the tables to be printed.

    `ours` divides the others in comparison.md (None: no ratio); `lacking` is a sentence on runs
    that are not there, which stands below tables.
    """
    rows = [run.row for run in runs]
    write_comparison(folder, rows, ours=ours, confidence=confidence, lacking=lacking)
    if found.claims:
        claims = measured(found.claims, runs, confidence=confidence)
        write_atomically(folder / "paper.csv", claims_csv(claims))
        write_atomically(folder / "paper.md", claims_markdown(claims).encode())
    if found.arms:
        arms = arm_rows(runs, references=found.arms, confidence=confidence)
        write_atomically(folder / "arms.csv", arms_csv(arms))
        text = f"# {found.title}\n\n{arms_markdown(arms, confidence=confidence)}"
        write_atomically(folder / "arms.md", text.encode())
    page = page_markdown(found.page, runs, confidence=confidence)
    write_atomically(folder / PAGE_FILE, page.encode())
    return _write_league(folder, found, runs, confidence, level, lacking)


def _write_league(
    folder: Path,
    found: Reproduction,
    runs: Sequence[LeagueRun],
    confidence: float,
    level: float,
    lacking: str,
) -> Group:
    league = league_of(runs)
    everywhere, common = rank_over_all(league, level=level), rank_in_common(league, level=level)
    if everywhere is not None and common is not None and everywhere.names == common.names:
        common = None  # it would say the same again
    _write_ranks(folder, league, {"ranks": everywhere, "ranks_common": common})
    reference = found.ratio_to or default_reference(league, everywhere)
    table = league_rows(
        league, everywhere=everywhere, common=common, reference=reference, confidence=confidence
    )
    names = [row.scheduler for row in table]
    cells = list(dict.fromkeys(run.cell for run in runs))
    league_heat(league, names=names, cells=cells, path=folder / "league.png")
    note = league_note(
        table, reference=reference, chosen=found.ratio_to is None,
        rankings=(everywhere, common), confidence=confidence,
    )  # fmt: skip
    write_atomically(folder / "league.csv", league_csv(table))
    text = league_text(table, f"{note} {lacking}".strip(), confidence=confidence)
    whole = f"# {found.title}\n\n{markdown(text, texts=2)}"
    write_atomically(folder / "league.md", whole.encode())
    return rich_tables(text, texts=2)


def _write_ranks(folder: Path, league: League, rankings: dict[str, Ranking | None]) -> None:
    """ranks.csv, and a figure for each ranking that there is."""
    rows = []
    for stem, found in rankings.items():
        if found is None:
            continue
        over = "every cell" if stem == "ranks" else "runs in common"
        rows += [{"over": over, **row} for row in rank_rows(found)]
        information = {name: league.labels(name).information for name in found.names}
        path = folder / f"{stem}.png"
        rank_figure(found, path=path, over="windows or stretches", information=information)
    if rows:
        write_frame(folder / "ranks.csv", rows)
