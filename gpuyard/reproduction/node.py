"""What an experiment says of its reproduction: the node `reproduce` of its file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from gpuyard.evaluation.lineup import sweeps
from gpuyard.launch.build import check_count, check_keys, check_texts
from gpuyard.launch.errors import CONF, ConfigError
from gpuyard.launch.own import own_folders
from sim.files import write_atomically
from sim.report.page_table import BEGIN, SHOWN, Claim, PageRow, PageTable, with_table
from sim.report.table_text import TableText, markdown_table

SHEET = ("rows", "columns", "cell")
OF_PROGRAMS = ("program", "policies", "runs", "quick", *SHEET)  # read by the program that is named
KEYS = ("title", "paper", "cells", "ratio_to", "arms", "picked_on", "page", *OF_PROGRAMS)
CELL_KEYS = ("overrides", "needs_file", "name")
PICKED_ON_KEYS = ("part", "windows")
CLAIM_KEYS = tuple(field.name for field in fields(Claim))


@dataclass(frozen=True)
class CellSpec:
    """One cell before it is composed."""

    number: int  # from 0, in the order of the file; what `cells` of a line-up's entry names
    overrides: tuple[str, ...]
    name: str | None  # in results; None: by what tells it from the others
    needs_file: str | None  # the cell is left out where this file is not there


@dataclass(frozen=True)
class PickedOn:
    """Windows on which the best of a kind of rival is chosen, besides those of the results."""

    part: str
    windows: int  # at most as many as the results have


@dataclass(frozen=True)
class Reproduction:
    """What one experiment reproduces, and how."""

    title: str
    claims: tuple[Claim, ...]
    cells: tuple[CellSpec, ...]
    ratio_to: str | None  # scheduler that the others' mean JCT is divided by
    arms: tuple[str, ...] = ()  # arms that the arms of a scheduler are divided by; none: no table
    picked_on: PickedOn | None = None  # None: the best are chosen on the results' own windows
    page: tuple[PageTable, ...] = ()  # of the page of results; none: mean JCT, cell by cell


def reproduction_of(node: Any, *, experiment: str) -> Reproduction:
    """Check and read the node; a cell's override with several values stands for several cells.

    Raises:
        ConfigError: naming the key, the value and what is allowed.
    """
    place = f"experiment={experiment}"
    if not isinstance(node, Mapping):
        raise ConfigError(
            f"{place} has no node `reproduce`; those that have one: {', '.join(titles())}"
        )
    check_keys(f"{place}, reproduce", node, KEYS, needed=("title", "cells"))
    cells = node["cells"]
    if not isinstance(cells, list) or not cells:
        raise ConfigError(f"{place}: reproduce.cells is {cells!r}; it must list lists of overrides")
    found: list[CellSpec] = []
    for number, cell in enumerate(cells):
        found += _cells(f"{place}: reproduce.cells[{number}]", cell, first=len(found))
    paper = [] if node.get("paper") is None else node["paper"]
    if not isinstance(paper, list):
        raise ConfigError(f"{place}: reproduce.paper is {paper!r}; it must be a list of claims")
    claims = [
        _claim(f"{place}: reproduce.paper[{number}]", claim) for number, claim in enumerate(paper)
    ]
    arms = node.get("arms")
    if arms is not None:
        words = "of arms to divide by, like [none]"
        check_texts(f"{place}: reproduce.arms", arms, words, empty=False)
    return Reproduction(
        title=str(node["title"]),
        claims=tuple(claims),
        cells=tuple(found),
        ratio_to=node.get("ratio_to"),
        arms=tuple(arms or ()),
        picked_on=_picked_on(f"{place}: reproduce.picked_on", node.get("picked_on")),
        page=page_tables(f"{place}: reproduce.page", node.get("page")),
    )


def titles() -> dict[str, str]:
    """Experiment -> title, of those with the node, own ones last, in order of names."""
    found = {}
    for top in (folder / "experiment" for folder in (CONF, *own_folders(Path.cwd()))):
        for path in sorted(top.rglob("*.yaml")):
            title = OmegaConf.select(OmegaConf.load(path), "reproduce.title")
            if title is not None:
                found[path.relative_to(top).with_suffix("").as_posix()] = str(title)
    return found


def last_of_each(overrides: Iterable[str]) -> list[str]:
    """Overrides without those whose key is set again later: Hydra refuses a group set twice."""
    kept: dict[str, str] = {}
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        kept.pop(override.key_or_group, None)
        kept[override.key_or_group] = str(override.input_line)
    return list(kept.values())


def _cells(place: str, cell: Any, *, first: int) -> list[CellSpec]:
    whole = cell if isinstance(cell, Mapping) else {"overrides": cell}
    check_keys(place, whole, CELL_KEYS, needed=("overrides",))
    check_texts(place, whole["overrides"], "of overrides like load=0.9")
    return [
        CellSpec(first + number, overrides, whole.get("name"), whole.get("needs_file"))
        for number, overrides in enumerate(sweeps(whole["overrides"]))
    ]


def _picked_on(place: str, found: Any) -> PickedOn | None:
    if found is None:
        return None
    check_keys(place, found, PICKED_ON_KEYS, needed=PICKED_ON_KEYS)
    check_count(f"{place}.windows", found["windows"])
    return PickedOn(part=str(found["part"]), windows=found["windows"])


def _claim(place: str, claim: Any) -> Claim:
    check_keys(place, claim, CLAIM_KEYS, needed=("what", "scheduler", "metric", "claim"))
    return Claim(**{"against": None, **claim})


CHOOSERS = ("experiment", "debug")  # groups that are dealt with apart from other words
SKIPPED = ("defaults", "hydra")
# Keys that say what is compared and how it is shown, not what happens in a run.
NOT_OF_A_RUN = (
    "lineup", "windows", "jobs", "ours", "confidence", "reproduce", "checkpoint",
    "missing", "failed", "fresh", "part", "level", "most_cells", "agent_counts",
    "page", "into",
)  # fmt: skip
OF_NO_TRAINING = ("reproduce", "hydra", "seed", *NOT_OF_A_RUN)
SIZES = ("topology", "workload.num_jobs", "workload.max_gang")  # what trainings take of `debug`


@dataclass(frozen=True)
class Asked:
    """The words of the command line."""

    experiment: str
    debug: str | None
    chosen: tuple[str, ...]  # those of CHOOSERS
    words: tuple[str, ...]  # all others

    def later(self, *more: str) -> list[str]:
        """What comes after the overrides of a cell."""
        return [*debug_overrides(self.debug), *more, *self.words]

    def of_training(self, own: Iterable[str], quick: Iterable[str]) -> list[str]:
        """Words of every training: its own, `quick` in small, the cluster and jobs of the user."""
        small = [word for word in debug_overrides(self.debug) if key_of(word) in SIZES]
        shared = [w for w in self.words if key_of(w).split(".")[0] not in OF_NO_TRAINING]
        return [*own, *small, *(quick if self.debug else ()), *shared]


def asked() -> Asked:
    """The words of this program's user."""
    hydra_config = HydraConfig.get()
    choices = hydra_config.runtime.choices
    words = [str(word) for word in hydra_config.overrides.task]
    chosen = tuple(word for word in words if key_of(word) in CHOOSERS)
    others = tuple(word for word in words if key_of(word) not in CHOOSERS)
    return Asked(str(choices["experiment"]), choices["debug"], chosen, others)


def key_of(word: str) -> str:
    """What an override sets."""
    return word.partition("=")[0].lstrip("+~")


def run_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved configuration that decides what happens in a run."""
    return {key: value for key, value in config.items() if key not in NOT_OF_A_RUN}


def debug_overrides(choice: str | None) -> list[str]:
    """`conf/debug/<choice>.yaml` as words of a command line: groups first, then values."""
    if choice is None:
        return []
    plain = OmegaConf.to_container(OmegaConf.load(CONF / "debug" / f"{choice}.yaml"))
    assert isinstance(plain, dict)  # a YAML file of keys
    return [*_groups(plain.get("defaults", [])), *_values(plain, "")]


def _groups(defaults: list[Any]) -> Iterator[str]:
    """`- override /topology: small` as `topology=small`."""
    for entry in defaults:
        if isinstance(entry, Mapping):
            for key, option in entry.items():
                yield f"{str(key).removeprefix('override ').lstrip('/')}={option}"


def _values(found: Mapping[Any, Any], prefix: str) -> Iterator[str]:
    for key, value in found.items():
        if not prefix and key in SKIPPED:
            continue
        if isinstance(value, Mapping):
            yield from _values(value, f"{prefix}{key}.")
        else:
            yield f"++{prefix}{key}={'null' if value is None else value}"


PAGE_FILE = "page.md"
TABLE_KEYS = tuple(each.name for each in fields(PageTable))
ROW_KEYS = tuple(each.name for each in fields(PageRow))


def page_tables(place: str, node: Any) -> tuple[PageTable, ...]:
    """The tables in order; none where the node is missing.

    Raises:
        ConfigError: naming the key, the value and what is allowed.
    """
    if node is None:
        return ()
    if not isinstance(node, list):
        raise ConfigError(f"{place} is {node!r}; it must list tables, each with rows")
    return tuple(_table(f"{place}[{number}]", table) for number, table in enumerate(node))


def write_page(folder: Path, text: TableText, arms: Sequence[str] = ()) -> None:
    """Write page.md: the tables of `text` as one, the first column the names of the `arms`."""
    headers = [*(["arm"] if arms else []), *text.headers]
    names = [[arm] for arm in arms] or [[]] * len(text.settings)
    rows = [
        [*name, *row]
        for name, (_, group) in zip(names, text.settings, strict=True)
        for row in group
    ]
    write_atomically(folder / PAGE_FILE, "\n".join([*markdown_table(headers, rows), ""]).encode())


def put_into(page: Path, *, name: str, table: str) -> None:
    """Change the table of a page that lies between marks with the name of the experiment.

    Raises:
        ConfigError: there is no such page, it has no such marks, or there is nothing to put there.
    """
    if not table.strip():
        raise ConfigError(
            f"{PAGE_FILE} is empty: nothing that a row of reproduce.page tells of was run; {page} "
            "stays as it is"
        )
    write_atomically(page, page_with(page, name=name, table=table).encode())


def page_with(page: Path, *, name: str, table: str) -> str:
    """The text of a page, with `table` between the marks; ConfigError as for `put_into`."""
    if not page.is_file():
        raise ConfigError(
            f"into is {page}, which is no file; name a page like docs/results/dally.md"
        )
    text = with_table(page.read_text(encoding="utf-8"), name, table)
    if text is None:
        raise ConfigError(f"{page} has no line `{BEGIN.format(name)}` with an end below it")
    return text


def _table(place: str, table: Any) -> PageTable:
    check_keys(place, table, TABLE_KEYS, needed=("rows",))
    rows = table["rows"]
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(f"{place}.rows is {rows!r}; it must list rows with label and scheduler")
    for at, row in [("", table), *((f".rows[{at}]", row) for at, row in enumerate(rows))]:
        if row.get("show", SHOWN[0]) not in SHOWN:
            raise ConfigError(
                f"{place}{at}.show is {row['show']!r}; it must be {' or '.join(SHOWN)}"
            )
        if row is not table:
            check_keys(f"{place}{at}", row, ROW_KEYS, needed=("label", "scheduler"))
    columns = table.get("columns") or {}
    if not isinstance(columns, Mapping):
        raise ConfigError(f"{place}.columns is {columns!r}; it must map cells to headings")
    return PageTable(**{**table, "rows": tuple(PageRow(**row) for row in rows), "columns": columns})
