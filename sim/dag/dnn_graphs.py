"""Training steps of neural networks: `graph.txt` of PipeDream, JSON of dnn-partitioning."""

import gzip
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from sim.dag.graph import DagError, Edge, TaskGraph, task_graph

NODE = re.compile(
    r"(?P<name>\S+) -- (?P<op>.*) -- forward_compute_time=(?P<forward>[^,]+), "
    r"backward_compute_time=(?P<backward>[^,]+), activation_size=(?P<activation>[^,]+), "
    r"parameter_size=(?P<parameter>[^,]+)"
)
EDGE = re.compile(r"\t(?P<parent>\S+) -- (?P<child>\S+)")
INPUT = "Input"  # operators of this name load data, in some files for half a second
MS_PER_S, MB, GIB = 1e3, 1e6, 2.0**30
STATES = 3.0  # weights, gradients and momentum: each as large as the parameters


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
        DagError: a line is neither node nor edge, or a number is none; or as `task_graph`.
    """
    layers: dict[str, Layer] = {}
    left_out: set[str] = set()
    links: list[tuple[str, str]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        place = f"{path.name}, line {number}"
        node, edge = NODE.fullmatch(line), EDGE.fullmatch(line)
        if node is not None and node["op"].startswith(INPUT):
            left_out.add(node["name"])
        elif node is not None:
            layers[node["name"]] = _layer(place, node)
        elif edge is not None:
            links.append((edge["parent"], edge["child"]))
        elif line.strip():
            raise DagError(f"{place}: {line[:60]!r} is neither a node nor an edge")
    kept = [(a, b) for a, b in links if a not in left_out and b not in left_out]
    return _step(path.name.partition(".")[0], layers, kept)


def _layer(place: str, node: re.Match[str]) -> Layer:
    activation = sum(_numbers(place, node["activation"]))
    (parameter,) = _numbers(place, node["parameter"])
    return Layer(
        _numbers(place, node["forward"])[0] / MS_PER_S,
        _numbers(place, node["backward"])[0] / MS_PER_S,
        activation,
        (activation + STATES * parameter) / GIB,
    )


def _numbers(place: str, text: str) -> list[float]:
    """One number, or several as `[a; b]`."""
    try:
        return [float(part) for part in text.strip("[]").split(";")]
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
