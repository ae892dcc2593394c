"""Servers of a description in a CSV file beside it: one row a server, its shape by name."""

from collections.abc import Iterator, Mapping

from sim.errors import TopologyError
from sim.topology.inventory import Entry, Shape
from sim.topology.nearest import nearest
from sim.topology.node_rows import NodeRows, read_node_rows

REQUIRED = ("server", "rack", "shape")
OPTIONAL = ("pod", "group")


def read_shaped_nodes(path: str, shapes: Mapping[str, Shape]) -> list[Entry]:
    """The servers of a file with the columns server, rack, shape and perhaps pod and group.

    Raises:
        TopologyError: naming file, line, column, value and fix.
    """
    rows = read_node_rows(path)
    known = (*REQUIRED, *OPTIONAL)
    for column in rows.header:
        if column not in known:
            raise TopologyError(
                f"{path}, line 1: column '{column}' is not known{nearest(column, known)}; "
                f"columns: {', '.join(known)}"
            )
    return list(_entries(rows, shapes))


def _entries(rows: NodeRows, shapes: Mapping[str, Shape]) -> Iterator[Entry]:
    server, rack, shape = (rows.column(name) for name in REQUIRED)
    pod, group = (rows.column(x) if x in rows.header else None for x in OPTIONAL)
    names: set[str] = set()
    for row in range(len(rows.rows)):
        name = _name(rows, row, server)
        if name in names:
            raise rows.refusal(row, server, "stands there twice; names of servers differ")
        names.add(name)
        kind = rows.text(row, shape)
        if kind not in shapes:
            hint = nearest(kind, shapes)
            raise rows.refusal(row, shape, f"is no shape{hint}; shapes: {', '.join(shapes)}")
        yield Entry(
            name=name,
            shape=shapes[kind],
            rack=_name(rows, row, rack),
            pod="" if pod is None else rows.text(row, pod),
            group="" if group is None else rows.text(row, group),
        )


def _name(rows: NodeRows, row: int, column: int) -> str:
    text = rows.text(row, column)
    if not text:
        raise rows.refusal(row, column, "is blank; give it a name")
    return text
