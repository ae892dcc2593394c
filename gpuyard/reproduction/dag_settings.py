"""What an experiment on plans for DAGs says: checked, and smaller with `debug=quick`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hydra.core.hydra_config import HydraConfig

from gpuyard.launch.errors import ConfigError, nearest
from gpuyard.launch.start import Launch

KEYS = (
    "title", "program", "seeded", "budget", "starts", "ours", "learned", "per_server",
    "least_share", "kinds", "quick", "families", "methods",
)  # fmt: skip
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
        return f"{self.family} {self.graph.partition('.')[0]} {self.network} {self.draw}"


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
    """Check the node and spread it into cells.

    Raises:
        ConfigError: naming key, value and what is allowed.
    """
    node = dict(launch.config["reproduce"])
    _check_keys("reproduce", node, KEYS)
    quick = dict(node.get("quick") or {})
    _check_keys("reproduce.quick", quick, QUICK_KEYS)
    if HydraConfig.get().runtime.choices.get("debug") is None:
        quick = {}
    node["budget"] = quick.get("budget", node["budget"])
    for key in ("budget", "starts", "per_server"):
        _check_count(f"reproduce.{key}", node[key])
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
        raise ConfigError("reproduce.families has no family; choose at least one")
    return Settings(node, tuple(cells), launch.config["seed"])


def _cells(name: str, family: Mapping[str, Any], quick: Mapping[str, int]) -> list[Cell]:
    place = f"reproduce.families.{name}"
    _check_keys(place, family, FAMILY_KEYS)
    graphs, gpus = [str(graph) for graph in family["graphs"]], list(family["gpus"])
    if len(gpus) == 1:
        gpus *= len(graphs)
    if len(gpus) != len(graphs):
        raise ConfigError(
            f"{place}.gpus has {len(gpus)} numbers for {len(graphs)} graphs; give one, or one each"
        )
    pairs = list(zip(graphs, gpus, strict=True))
    if quick:
        small = [p for p in pairs if not p[0].isdigit() or int(p[0]) <= quick["most_tasks"]]
        pairs = small[: quick["most_graphs"]]
    draws = quick.get("draws", family["draws"])
    _check_count(f"{place}.draws", draws)
    return [
        Cell(name, graph, network, draw, count, between, family["inside_gbps"])
        for graph, count in pairs
        for network, between in family["networks"].items()
        for draw in range(draws)
    ]


def _check_count(key: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{key} is {value!r}; it must be a whole number from 1")


def _check_keys(place: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in found:
        if key not in known:
            hint = nearest(str(key), known)
            fix = f"did you mean {hint}?" if hint else f"it takes {', '.join(known)}"
            raise ConfigError(f"{place}: no such key {key!r}; {fix}")
