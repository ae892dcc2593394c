"""Servers of a public node list: its cells, and what the configuration says where it is silent."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sim.errors import TopologyError
from sim.topology.gpu_kind import GpuKind
from sim.topology.inventory import Entry, Shape
from sim.topology.node_cells import NodeCells
from sim.topology.option_rules import MOST_GPUS_PER_SERVER, MOST_SERVERS

log = logging.getLogger(__name__)

CPU_UNITS = {"cpu_cores": 1000, "cpu_milli": 1}
MEMORY_UNITS = {"memory_gib": 1024, "memory_mib": 1}
MOST_CPU_MILLI = 10**9
MOST_MEMORY_MIB = 10**10


def node_entries(cells: NodeCells, missing: Shape) -> list[Entry]:
    """The servers of a node list, in the file's order; servers without GPUs are left out.

    Args:
        cells: the file.
        missing: what holds where a row says nothing; GPU type "": a row must say it.

    Raises:
        TopologyError: naming file, line, column, value and fix.
    """
    entries: list[Entry] = []
    names: set[str] = set()
    left_out = 0
    for row in range(len(cells.rows.rows)):
        gpus = missing.gpus
        if "gpus" in cells:
            gpus = cells.count(row, "gpus", high=MOST_GPUS_PER_SERVER)
        if gpus == 0:
            left_out += 1
            continue
        shape = replace(
            missing,
            gpus=gpus,
            gpu_type=_gpu_type(cells, row, missing.gpu_type),
            kind=_kind(cells, row),
            cpu_milli=cells.scaled(row, CPU_UNITS, high=MOST_CPU_MILLI),
            memory_mib=cells.scaled(row, MEMORY_UNITS, high=MOST_MEMORY_MIB),
        )
        entries += _row_entries(cells, row, shape, names)
        if len(entries) > MOST_SERVERS:
            raise TopologyError(f"{cells.rows.path}: more than {MOST_SERVERS} servers")
    if left_out:
        log.info("%s: %d servers without GPUs left out", cells.rows.path, left_out)
    return entries


def renamed(entries: Iterable[Entry], type_names: Mapping[str, str]) -> list[Entry]:
    """The servers with their GPU types called `type_names[type]` where that is given."""
    return [
        replace(each, shape=_called(each.shape, type_names[each.shape.gpu_type]))
        if each.shape.gpu_type in type_names
        else each
        for each in entries
    ]


def _called(shape: Shape, gpu_type: str) -> Shape:
    """The shape with its GPU type called otherwise."""
    where = "" if shape.kind is None else shape.kind.where
    if where:
        where = f"{where}: {shape.gpu_type!r}, by topology.type_names"
    return replace(shape, gpu_type=gpu_type, kind=GpuKind(where=where))


def _gpu_type(cells: NodeCells, row: int, missing: str) -> str:
    named = cells.text(row, "gpu_type") or missing
    if not named:
        raise cells.refusal(row, "gpu_type", "is blank; give the GPU type, or topology.gpu_type")
    return named


def _kind(cells: NodeCells, row: int) -> GpuKind:
    """Where the row's GPU type was named."""
    return GpuKind(where=cells.where(row, "gpu_type") if cells.text(row, "gpu_type") else "")


def _row_entries(cells: NodeCells, row: int, shape: Shape, names: set[str]) -> Iterator[Entry]:
    group = cells.text(row, "group")
    if "server" in cells:
        chosen = [cells.text(row, "server")]
        key = "server"
    else:
        count = cells.count(row, "count", high=MOST_SERVERS)
        key = "count"
        chosen = [f"{group or cells.rows.lines[row]}/{at}" for at in range(count)]
    for name in chosen:
        if not name or name in names:
            raise cells.refusal(row, key, "is blank or named twice; names of servers differ")
        names.add(name)
        yield Entry(
            name=name,
            shape=shape,
            rack=cells.text(row, "rack"),
            pod=cells.text(row, "pod"),
            group=group,
        )
