"""Model graphs of Microsoft's dnn-partitioning (JSON): layers or operators, forward or training."""

import gzip
import json
from pathlib import Path
from typing import Any

from sim.dag.graph import DagError, TaskGraph, task_graph

MS_PER_S, GIB = 1e3, 2.0**30
MB_PER_COST = {"layer": 2147.483648, "operator": 12.0}


def dnn_partitioning_graph(path: Path) -> TaskGraph:
    """One task a node, with the accelerator's time and the node's memory; plain JSON or .gz.

    Edges carry a cost, and the files do not say of which link. Those of layer graphs (`layer_*`)
    are seconds at 2 GiB/s: ResNet-50's are the activations of PipeDream's profile over 2 ** 31.
    Those of operator graphs are taken for milliseconds of PCIe 3.0, 12 MB each (our choice).

    Raises:
        DagError: no such JSON, or a key is missing; or as `task_graph`.
    """
    try:
        found = json.loads(_text(path))
        nodes, edges = found["nodes"], found["edges"]
        mb_per_cost = MB_PER_COST["layer" if path.name.startswith("layer") else "operator"]
        name_of = {node["id"]: f"{node['id']} {node['name']}" for node in nodes}
        work_s = [node["fpgaLatency"] / MS_PER_S for node in nodes]
        need_gib = [node["size"] / GIB for node in nodes]
        links = [
            (_end(name_of, edge["sourceId"]), _end(name_of, edge["destId"]),
             edge["cost"] * mb_per_cost)
            for edge in edges
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise DagError(f"{path.name}: is no graph of dnn-partitioning ({error!r})") from None
    return task_graph(path.name.partition(".")[0], list(name_of.values()), work_s, links, need_gib)


def _end(name_of: dict[Any, str], number: Any) -> str:
    """The node's name; an unknown one keeps its number, for `task_graph` to refuse."""
    return name_of.get(number, str(number))


def _text(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
