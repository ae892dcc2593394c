"""Plans for DAGs: every search on every problem, as an experiment of `reproduce.py` asks."""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from hydra.core.hydra_config import HydraConfig

from gpuyard.launch.build import build, check_count, check_keys, check_texts
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import RunCount, table_console
from gpuyard.reproduction.dag_report import RESULT_FILES, write_dag_report
from gpuyard.reproduction.planned import name_of_all
from gpuyard.reproduction.runs import PARTS, forget_stored
from sim.dag.families import Family
from sim.dag.list_scheduling import heft
from sim.dag.model_graphs import graph_name
from sim.dag.plan import gap_correlation, lower_bound_s, schedule
from sim.dag.problem import DagProblem, GpuModel, dag_problem, drawn_machines
from sim.dag.search import Meter, Search, random_start, start_plans
from sim.errors import amount
from sim.files import write_atomically

KEYS = (
    "title", "program", "seeded", "budget", "starts", "ours", "learned", "per_server",
    "least_share", "kinds", "quick", "families", "methods",
)  # fmt: skip
QUICK = "quick"  # the one that may be left out
KIND = ("speed over a V100", "GiB")
FAMILY_KEYS = ("source", "graphs", "draws", "gpus", "networks", "inside_gbps")
QUICK_KEYS = ("budget", "most_tasks", "most_graphs", "draws")


@dataclass(frozen=True)
class Cell:
    """One problem before it is drawn."""

    family: str
    graph: str  # a number of tasks or a file, which the family reads
    network: str  # like "busy"
    draw: int
    gpus: int
    between_gbps: float
    inside_gbps: float

    @property
    def name(self) -> str:
        """In results."""
        return f"{self.family} {graph_name(self.graph)} {self.network} {self.draw}"

    @property
    def dag(self) -> str:
        """DAG and GPUs, which all networks share."""
        return f"{self.family} {graph_name(self.graph)} {self.draw}"


@dataclass(frozen=True)
class Settings:
    """The node `reproduce`, checked."""

    node: dict[str, Any]
    cells: tuple[Cell, ...]
    seed: int

    def __getitem__(self, key: str) -> Any:
        """A value of the node."""
        return self.node[key]


def settings_of(launch: Launch) -> Settings:
    """Check the node, ConfigError where it is wrong, and spread it into cells."""
    node = dict(launch.config["reproduce"])
    _check_node(node)
    quick = dict(node.get(QUICK) or {})
    check_keys("reproduce.quick", quick, QUICK_KEYS, needed=())
    if HydraConfig.get().runtime.choices.get("debug") is None:
        quick = {}
    node["budget"] = quick.get("budget", node["budget"])
    for key in ("budget", "starts", "per_server"):
        check_count(f"reproduce.{key}", node[key])
    node["methods"] = {name: each for name, each in node["methods"].items() if each is not None}
    if node["ours"] not in node["methods"]:
        raise ConfigError(
            f"reproduce.ours is {node['ours']!r}; it must be one of {', '.join(node['methods'])}"
        )
    cells = [
        cell
        for name, family in node["families"].items()
        if family is not None
        for cell in _cells(name, family, quick)
    ]
    if not cells:
        raise ConfigError(
            "reproduce.families has no graph left (debug leaves out those of more tasks than "
            "reproduce.quick.most_tasks); choose at least one family with one"
        )
    return Settings(node, tuple(cells), launch.config["seed"])


def _check_node(node: Mapping[str, Any]) -> None:
    """Refuse what lacks a key, or is of another kind; ConfigError as for `settings_of`."""
    check_keys("reproduce", node, KEYS, needed=[key for key in KEYS if key != QUICK])
    check_texts("reproduce.learned", node["learned"], "of methods, like [policy_gradient]")
    for key in ("methods", "families", "kinds"):
        if not isinstance(node[key], Mapping) or not node[key]:
            raise ConfigError(f"reproduce.{key} is {node[key]!r}; give at least one by name")
    for name, kind in node["kinds"].items():
        if not isinstance(kind, list) or len(kind) != len(KIND):
            raise ConfigError(f"reproduce.kinds.{name} is {kind!r}; give [{', '.join(KIND)}]")


def _cells(name: str, family: Mapping[str, Any], quick: Mapping[str, int]) -> list[Cell]:
    place = f"reproduce.families.{name}"
    check_keys(place, family, FAMILY_KEYS, needed=FAMILY_KEYS)
    graphs, gpus = [str(graph) for graph in family["graphs"]], list(family["gpus"])
    if len(gpus) == 1:
        gpus *= len(graphs)
    if len(gpus) != len(graphs):
        raise ConfigError(
            f"{place}.gpus has {len(gpus)} numbers for {len(graphs)} graphs; give one, or one each"
        )
    pairs = list(zip(graphs, gpus, strict=True))
    if quick:
        most = quick.get("most_tasks", np.inf)
        small = [p for p in pairs if not p[0].isdigit() or int(p[0]) <= most]
        pairs = small[: quick.get("most_graphs")]
    draws = quick.get("draws", family["draws"])
    check_count(f"{place}.draws", draws)
    return [
        Cell(name, graph, network, draw, count, between, family["inside_gbps"])
        for graph, count in pairs
        for network, between in family["networks"].items()
        for draw in range(draws)
    ]


def run(launch: Launch) -> None:
    """Run what is missing, write tables and figures, print.

    Raises:
        ConfigError: the node `reproduce` is wrong.
        DagError: a problem cannot be made.
    """
    settings = settings_of(launch)
    launch.begin(RESULT_FILES, assumed=_assumed(settings))
    forget_stored(launch, PARTS)
    rows = run_missing_searches(launch, settings)
    tables = write_dag_report(
        launch.folder,
        settings.node,
        rows,
        confidence=launch.config["confidence"],
        level=launch.config["level"],
    )
    table_console().print(tables)
    print(f"results in {launch.folder}")


def _assumed(settings: Settings) -> tuple[str, ...]:
    """What the page says before its results."""
    networks = dict.fromkeys((cell.family, cell.network) for cell in settings.cells)
    families = dict.fromkeys(family for family, _ in networks)
    draws = max(cell.draw for cell in settings.cells) + 1
    first = "HEFT's plan and random ones" if settings["seeded"] else "the same random plans"
    kinds = ", ".join(
        f"{kind} {speed:g} x V100, {room:g} GiB"
        for kind, (speed, room) in settings["kinds"].items()
    )
    return (
        f"DAGs and networks: {'; '.join(_networks(networks, family) for family in families)}",
        f"each drawn {draws} time{'s' if draws > 1 else ''}, from seed {settings.seed}",
        f"GPUs, {settings['per_server']} a server: {kinds}",
        f"links between servers have {settings['least_share'] * 100:g} to 100 % of their rate",
        "tasks take the times that plans are judged by, without noise",
        f"every search may judge {settings['budget']} plans, from {first}",
    )


def _networks(networks: Iterable[tuple[str, str]], family: str) -> str:
    return f"{family} ({', '.join(network for name, network in networks if name == family)})"


log = logging.getLogger(__name__)

PLANS_COMPARED = 40  # random ones, for the correlation of plan distance and finish-time gap
POINTS = 50  # of the history that is kept

Row = dict[str, Any]  # one search on one problem


class Bench:
    """Draws problems and runs searches on them."""

    def __init__(self, launch: Launch, settings: Settings) -> None:
        """Nothing is read yet."""
        self._launch = launch
        self._settings = settings
        self._families: dict[str, Family] = {}
        self._last: tuple[Cell, DagProblem] | None = None

    @cached_property
    def searches(self) -> dict[str, Search]:
        """By name; built when the first one is needed."""
        return {
            name: build(self._launch.config, f"reproduce.methods.{name}")
            for name in self._settings["methods"]
        }

    def problem(self, cell: Cell) -> DagProblem:
        """The DAG and the machines of a cell: the same whatever else is run."""
        if self._last is None or self._last[0] != cell:
            if cell.family not in self._families:
                key = f"reproduce.families.{cell.family}.source"
                self._families[cell.family] = build(self._launch.config, key)
            # Another network gives the same DAG and the same GPUs: only the rates differ.
            rng = self._rng(cell.family, cell.graph, str(cell.draw))
            graph = self._families[cell.family].graph(cell.graph, rng)
            kinds = self._settings["kinds"].items()
            gpus = drawn_machines(
                tuple(GpuModel(name, speed, room) for name, (speed, room) in kinds),
                gpus=cell.gpus,
                per_server=self._settings["per_server"],
                inside_gbps=cell.inside_gbps,
                between_gbps=cell.between_gbps,
                least_share=self._settings["least_share"],
                rng=rng,
            )
            self._last = (cell, dag_problem(graph, gpus))
        return self._last[1]

    def run(self, cell: Cell, method: str) -> Row:
        """One search: the same start plans for all, a stream of chance of its own."""
        problem = self.problem(cell)
        starts = start_plans(
            problem,
            self._settings["starts"],
            seeded=self._settings["seeded"],
            rng=self._rng(cell.name, "starts"),
        )
        meter = Meter(problem, self._settings["budget"])
        began = time.process_time()
        self.searches[method].search(starts, meter, self._rng(cell.name, method))
        took_s = time.process_time() - began
        return self.about(cell) | {
            "method": method,
            "seeded": self._settings["seeded"],
            "budget": meter.budget,
            "judged": meter.budget - meter.left,
            "makespan_s": meter.best.makespan_s,
            "cpu_s": took_s,
            "history_s": _thinned(meter.history_s),
        }

    def about(self, cell: Cell) -> Row:
        """What a problem is, with its bound and HEFT's plan."""
        problem = self.problem(cell)
        rng = self._rng(cell.name, "pairs")
        plans = [random_start(problem, rng).plan for _ in range(PLANS_COMPARED)]
        return {
            "problem": cell.name,
            "family": cell.family,
            "network": cell.network,
            "graph": problem.name,
            "tasks": problem.num_tasks,
            "edges": len(problem.graph.parent),
            "gpus": problem.num_gpus,
            "lower_bound_s": lower_bound_s(problem),
            "heft_s": schedule(problem, heft(problem)).makespan_s,
            "spd_ftg_r": gap_correlation(problem, plans),
        }

    def part(self, cell: Cell, method: str) -> str:
        """As `name_of_all` says: of the cell, the search and the files that they read."""
        node = self._settings.node
        decides = [
            vars(cell), node["families"][cell.family]["source"], node["methods"][method], method,
            self._settings.seed,
            *(node[key] for key in ("seeded", "budget", "starts", "per_server", "least_share",
                                    "kinds")),
        ]  # fmt: skip
        return name_of_all([json.dumps(decides)])

    def _rng(self, *words: str) -> np.random.Generator:
        codes = [crc32(word.encode()) for word in words]
        return np.random.default_rng([self._settings.seed, *codes])


def run_missing_searches(launch: Launch, settings: Settings) -> list[Row]:
    """Every search on every problem, problem by problem; stored ones are read.

    Raises:
        ConfigError: a stored file is broken.
    """
    bench, folder = Bench(launch, settings), launch.folder / PARTS
    folder.mkdir(parents=True, exist_ok=True)
    work = [(cell, method) for cell in settings.cells for method in settings["methods"]]
    paths = [folder / bench.part(cell, method) for cell, method in work]
    done = sum(path.is_file() for path in paths)
    log.info("%s, %d of them done before", amount(len(work), "run"), done)
    rows: list[Row] = []
    with RunCount("planning", len(work), done=done) as count:
        for (cell, method), path in zip(work, paths, strict=True):
            if not path.is_file():
                write_atomically(path, json.dumps(bench.run(cell, method)).encode())
                count.tell(f"{cell.name}, {method}")
            rows.append(_read(path) | {"dag": cell.dag})
    return rows


def _read(path: Path) -> Row:
    try:
        row: Row = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ConfigError(f"{path} is no result of a run; remove it to run it again") from None
    return row


def _thinned(history: np.ndarray) -> list[float]:
    """The best makespan after 1/POINTS, 2/POINTS, ... of the plans."""
    places = np.ceil(np.linspace(len(history) / POINTS, len(history), POINTS)).astype(int) - 1
    return [float(value) for value in history[np.clip(places, 0, None)]]
