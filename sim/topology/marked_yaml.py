"""YAML with the line of every value, so that errors can say where; plain data only."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sim.errors import TopologyError

# Plain values; dates and bytes come through as they are and are refused where they are read.
Value = Any


@dataclass(frozen=True)
class Marked:
    """A value and its line: a scalar, a list of `Marked`, or a dict of text to `Marked`."""

    value: Value
    line: int  # from 1


def read_marked_yaml(path: str) -> Marked:
    """Read one YAML document.

    Raises:
        TopologyError: naming file and line, if it cannot be read or decoded, is no YAML, names a
            key twice, or uses anchors (whose copies have no line of their own).
    """
    text = _text(path)
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise TopologyError(f"{path}: the file is empty; docs/clusters.md shows an example")
        return _marked(loader, node, path, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise TopologyError(f"{path}, line {line}: is not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TopologyError(
            f"{path}, line {line}: is not YAML: character {error.character:#x} is not allowed"
        ) from error
    except yaml.YAMLError as error:
        raise TopologyError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise TopologyError(f"{path}: is nested too deeply to be a description") from error


def _text(path: str) -> str:
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise TopologyError(
            f"{path}: cannot be read ({error.strerror}); set topology.path to a description"
        ) from error
    return decoded(data, path)


def decoded(data: bytes, path: str) -> str:
    """UTF-8 text, with or without a byte-order mark.

    Raises:
        TopologyError: naming the line and the byte that is no UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TopologyError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text; "
            f"save the file in the encoding UTF-8"
        ) from error


def _marked(loader: yaml.SafeLoader, node: yaml.Node, path: str, seen: set[int]) -> Marked:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise TopologyError(f"{path}, line {line}: anchors are not supported; write the value out")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return Marked([_marked(loader, each, path, seen) for each in node.value], line)
    if isinstance(node, yaml.MappingNode):
        return Marked(_entries(loader, node, path, seen), line)
    try:
        return Marked(loader.construct_object(node), line)
    except ValueError as error:  # a number or a date that Python cannot hold
        raise TopologyError(f"{path}, line {line}: {node.value[:40]!r}: {error}") from error


def _entries(
    loader: yaml.SafeLoader, node: yaml.MappingNode, path: str, seen: set[int]
) -> dict[str, Marked]:
    entries: dict[str, Marked] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key, str):
            raise TopologyError(f"{path}, line {line}: a key must be a plain word")
        if key in entries:
            raise TopologyError(f"{path}, line {line}: the key {key} stands there twice")
        entries[key] = _marked(loader, value_node, path, seen)
    return entries
