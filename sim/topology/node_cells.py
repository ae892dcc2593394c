"""Cells of a node list by our names: which columns of the file hold what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.errors import TopologyError
from sim.topology.nearest import nearest
from sim.topology.node_rows import NodeRows

COLUMNS = (
    "server", "count", "gpus", "gpu_type", "cpu_cores", "cpu_milli", "memory_gib", "memory_mib",
    "rack", "pod", "group",
)  # fmt: skip
JOINED = ("rack", "pod")  # may be several columns
EITHER = (("server", "count"), ("cpu_cores", "cpu_milli"), ("memory_gib", "memory_mib"))
Columns = Mapping[str, str | Sequence[str] | None]


@dataclass(frozen=True)
class NodeCells:
    """A node list and the places of our columns in it."""

    rows: NodeRows
    places: Mapping[str, tuple[int, ...]]  # one place each, but for JOINED

    def __contains__(self, key: str) -> bool:
        """Whether the file has a column for `key`."""
        return key in self.places

    def text(self, row: int, key: str) -> str:
        """Text at a key, several columns joined by a slash; blank where the file has no column."""
        return "/".join(self.rows.text(row, place) for place in self.places.get(key, ()))

    def count(self, row: int, key: str, *, high: int) -> int:
        """A whole number at a key that the file has."""
        return self.rows.count(row, self.places[key][0], high=high)

    def scaled(self, row: int, units: Mapping[str, int], *, high: int) -> int | None:
        """An amount in its smallest unit from whichever key of `units` the file has, or None."""
        for key, factor in units.items():
            if key in self.places:
                amount = self.rows.number(row, self.places[key][0], high=high / factor)
                return round(amount * factor)
        return None

    def where(self, row: int, key: str) -> str:
        """File, line and column of a cell that the file has."""
        return self.rows.where(row, self.places[key][0])

    def refusal(self, row: int, key: str, rule: str) -> TopologyError:
        """The error that the cell at a key breaks `rule`."""
        return self.rows.refusal(row, self.places[key][0], rule)


def node_cells(rows: NodeRows, columns: Columns) -> NodeCells:
    """Find each mapped column in the file's header.

    Raises:
        TopologyError: if a key is unknown, keys contradict, or a column is absent.
    """
    for key in columns:
        if key not in COLUMNS:
            raise TopologyError(
                f"topology.columns.{key} is not a key{nearest(key, COLUMNS)}; "
                f"keys: {', '.join(COLUMNS)}"
            )
    places: dict[str, tuple[int, ...]] = {}
    for key, wanted in columns.items():
        if wanted is None:
            continue
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        if not names or (len(names) > 1 and key not in JOINED):
            raise TopologyError(f"topology.columns.{key} is {names}; name one column")
        places[key] = tuple(rows.column(str(name)) for name in names)
    _check_keys(places)
    return NodeCells(rows, places)


def _check_keys(places: Mapping[str, tuple[int, ...]]) -> None:
    for one, other in EITHER:
        if one in places and other in places:
            raise TopologyError(
                f"topology.columns has {one} and {other}; name a column for one of them"
            )
    if "server" not in places and "count" not in places:
        raise TopologyError("topology.columns has neither server nor count; name one of them")
    if "pod" in places and "rack" not in places:
        raise TopologyError("topology.columns has pod and no rack; name the racks' column too")
