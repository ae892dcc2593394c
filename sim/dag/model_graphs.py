"""Graphs of models from files: profiles of PipeDream, and those of dnn-partitioning."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sim.arrays import FloatArray
from sim.dag.problem import DagError, Edge, TaskGraph, task_graph
from sim.text_files import read_text

NODE = re.compile(
    r"(?P<name>\S+) -- (?P<op>.*) -- forward_compute_time=(?P<forward>[^,]+), "
    r"backward_compute_time=(?P<backward>[^,]+), activation_size=(?P<activation>[^,]+), "
    r"parameter_size=(?P<parameter>[^,]+)"
)
EDGE = re.compile(r"\t(?P<parent>\S+) -- (?P<child>\S+)")
INPUT = "Input"  # operators of this name load data, in some files for half a second
MS_PER_S, MB, GIB = 1e3, 1e6, 2.0**30
STATES = 3.0  # weights, gradients and momentum: each as large as the parameters


OTHER_FILE = "name a file of the family's folder"
ENDINGS = re.compile(r"(\.graph)?\.(txt|json)(\.gz)?$")


def graph_name(which: str) -> str:
    """A file's name without what says its form; a number of tasks as it is."""
    return ENDINGS.sub("", which)


class Layer(NamedTuple):
    """One node of the profile."""

    forward_s: float
    backward_s: float
    activation_bytes: float
    need_gib: float


def pipedream_graph(path: Path) -> TaskGraph:
    """Two tasks a layer, forward `NAME` and backward `NAME*`, with the profile's times.

    A forward task hands its activation to the layers behind it and to its own backward task;
    gradients go back along the same edges and are as large. A task needs memory for the activation
    and three times the parameters. Input nodes are left out.

    Raises:
        DagError: the file cannot be read, a line is neither node nor edge, a node stands there
            twice, or a number is none; or as `task_graph`.
    """
    layers: dict[str, Layer] = {}
    left_out: set[str] = set()
    links: list[tuple[str, str]] = []
    text = read_text(str(path), DagError, OTHER_FILE)
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{path.name}, line {number}"
        node, edge = NODE.fullmatch(line), EDGE.fullmatch(line)
        if node is not None and node["name"] in (*left_out, *layers):
            raise DagError(
                f"{place}: {node['name']!r} is a node already; give each a name of its own"
            )
        if node is not None and node["op"].startswith(INPUT):
            left_out.add(node["name"])
        elif node is not None:
            layers[node["name"]] = _layer(place, node)
        elif edge is not None:
            links.append((edge["parent"], edge["child"]))
        elif line.strip():
            raise DagError(f"{place}: {line[:60]!r} is neither a node nor an edge")
    kept = [(a, b) for a, b in links if a not in left_out and b not in left_out]
    return _step(graph_name(path.name), layers, kept)


def _layer(place: str, node: re.Match[str]) -> Layer:
    forward_ms, backward_ms, activation, parameter = (
        _sum(place, node[key]) for key in ("forward", "backward", "activation", "parameter")
    )
    need_gib = (activation + STATES * parameter) / GIB
    return Layer(forward_ms / MS_PER_S, backward_ms / MS_PER_S, activation, need_gib)


def _sum(place: str, text: str) -> float:
    """Of one number, or of several as `[a; b]`."""
    try:
        return sum(float(part) for part in text.strip("[]").split(";"))
    except ValueError:
        raise DagError(f"{place}: {text!r} is not a number") from None


def _step(name: str, layers: dict[str, Layer], links: list[tuple[str, str]]) -> TaskGraph:
    """Forwards, then backwards, and their edges."""
    edges: list[Edge] = [
        (layer, f"{layer}*", found.activation_bytes / MB) for layer, found in layers.items()
    ]
    for parent, child in links:
        mb = layers[parent].activation_bytes / MB if parent in layers else 0.0
        edges += [(parent, child, mb), (f"{child}*", f"{parent}*", mb)]
    forward = [found.forward_s for found in layers.values()]
    backward = [found.backward_s for found in layers.values()]
    need = [found.need_gib for found in layers.values()]
    tasks = [*layers, *(f"{layer}*" for layer in layers)]
    return task_graph(name, tasks, [*forward, *backward], edges, need * 2)


ENDS = ("sourceId", "destId")


def dnn_partitioning_graph(path: Path) -> TaskGraph:
    """One task a node, with the accelerator's time and the node's memory; plain JSON or .gz.

    Edges carry a cost and a size in bytes. The cost is the time that the size takes at 2 GiB/s, in
    seconds in files of layers, in milliseconds in those of operators. In files of layers the sizes
    of backward edges are those of other edges: ResNet-50's costs are the activations of PipeDream's
    profile there, too. So what an edge hands on is its cost times what most edges have a unit of.

    Raises:
        DagError: the file cannot be read, is no such JSON, a key is missing, or a number is none;
            or as `task_graph`.
    """
    try:
        found = json.loads(read_text(str(path), DagError, OTHER_FILE))
        nodes, edges = found["nodes"], found["edges"]
        names = [f"{node['id']} {node['name']}" for node in nodes]
        name_of = dict(zip((node["id"] for node in nodes), names, strict=True))
        work_s = _column(path, nodes, "fpgaLatency") / MS_PER_S
        need_gib = _column(path, nodes, "size") / GIB
        mb = _column(path, edges, "cost") * _bytes_per_cost(path, edges) / MB
        links = [  # an end that is no node keeps its number, for `task_graph` to refuse
            (*(name_of.get(edge[end], str(edge[end])) for end in ENDS), each)
            for edge, each in zip(edges, mb.tolist(), strict=True)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DagError(f"{path.name}: is no graph of dnn-partitioning ({error!r})") from None
    return task_graph(graph_name(path.name), names, work_s, links, need_gib)


def _column(path: Path, rows: Sequence[Mapping[str, Any]], key: str) -> FloatArray:
    for row in rows:
        if isinstance(row[key], bool) or not isinstance(row[key], int | float):
            raise DagError(f"{path.name}: {key} is {row[key]!r}, no number, in {dict(row)}")
    return np.array([row[key] for row in rows], dtype=np.float64)


def _bytes_per_cost(path: Path, edges: Sequence[Mapping[str, Any]]) -> float:
    cost, size = _column(path, edges, "cost"), _column(path, edges, "size")
    known = (cost > 0) & (size > 0)
    if cost.any() and not known.any():
        raise DagError(
            f"{path.name}: no edge has both a cost and a size above 0, so no cost a unit"
        )
    return float(np.median(size[known] / cost[known])) if known.any() else 0.0
