"""Racks for servers of which no file says where they stand: a stated rule, not a fact."""

from collections.abc import Sequence
from dataclasses import replace

from sim.topology.inventory import Entry
from sim.topology.option_rules import check_counts


def racked(entries: Sequence[Entry], servers_per_rack: int) -> list[Entry]:
    """Put servers into racks of `servers_per_rack`, one GPU type a rack.

    Servers are sorted by GPU type, then by group, both in the order in which they first appear;
    within these they keep their order. Racks are filled in this order, and each GPU type begins a
    new rack, so that the last rack of a type may hold fewer.
    """
    check_counts({"servers_per_rack": servers_per_rack})
    types = {kind: at for at, kind in enumerate(dict.fromkeys(e.shape.gpu_type for e in entries))}
    groups = {group: at for at, group in enumerate(dict.fromkeys(e.group for e in entries))}
    ordered = sorted(entries, key=lambda entry: (types[entry.shape.gpu_type], groups[entry.group]))
    seen = dict.fromkeys(types, 0)
    placed = []
    for entry in ordered:
        kind = entry.shape.gpu_type
        placed.append(replace(entry, rack=f"{kind}/{seen[kind] // servers_per_rack}"))
        seen[kind] += 1
    return placed
