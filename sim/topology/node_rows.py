"""YAML and CSV node lists with the line of every value, so that errors can say where."""

import math
from dataclasses import dataclass, replace
from typing import Any

import yaml

from sim.arrays import plain_number
from sim.errors import TopologyError, nearest
from sim.text_files import quoted_rows, read_text

# Plain values; dates and bytes come through as they are and are refused where they are read.
Value = Any


@dataclass(frozen=True)
class Marked:
    """A value and its line, or its key's: a scalar, a list of `Marked`, or a dict of them."""

    value: Value
    line: int  # from 1


def read_marked_yaml(path: str) -> Marked:
    """Read one YAML document.

    Raises:
        TopologyError: naming file and line, if it cannot be read or decoded, is no YAML, names a
            key twice, or uses anchors (whose copies have no line of their own).
    """
    text = read_text(path, TopologyError, "set topology.path to a description")
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
        entries[key] = replace(_marked(loader, value_node, path, seen), line=line)
    return entries


@dataclass(frozen=True)
class NodeRows:
    """N rows of comma-separated text below a header; all as wide as the header."""

    path: str
    header: list[str]
    rows: list[list[str]]
    lines: list[int]  # (N,) 1-based line at which each row starts

    def column(self, name: str, key: str = "") -> int:
        """Place of the column called `name`, as the configuration says at `key`.

        Raises:
            TopologyError: if it is absent, with the nearest name, or there twice.
        """
        if self.header.count(name) == 1:
            return self.header.index(name)
        if name in self.header:
            raise TopologyError(f"{self.path}, line 1: two columns are called '{name}'; rename one")
        raise TopologyError(
            f"{self.path}, line 1: no column '{name}'{f' ({key})' * bool(key)}"
            f"{nearest(name, self.header)}; the file has: {', '.join(self.header)}"
        )

    def text(self, row: int, column: int) -> str:
        """Text of a cell without surrounding blanks; may be empty."""
        return self.rows[row][column].strip()

    def number(self, row: int, column: int, *, high: float) -> float:
        """A number from 0 to `high`."""
        value = plain_number(self.text(row, column))
        if value is None:
            raise self.refusal(row, column, "is not a number")
        if math.isnan(value) or not 0 <= value <= high:
            raise self.refusal(row, column, f"is not from 0 to {high:g}")
        return value

    def count(self, row: int, column: int, *, high: int) -> int:
        """A whole number from 0 to `high`; `8.0` is one."""
        value = self.number(row, column, high=high)
        if value != int(value):
            raise self.refusal(row, column, "is not a whole number")
        return int(value)

    def refusal(self, row: int, column: int, rule: str) -> TopologyError:
        """The error that a cell breaks `rule`."""
        return TopologyError(f"{self.where(row, column)}: {self.rows[row][column][:60]!r} {rule}")

    def where(self, row: int, column: int) -> str:
        """File, line and column of a cell."""
        return f"{self.path}, line {self.lines[row]}, column '{self.header[column]}'"


def read_node_rows(path: str) -> NodeRows:
    """Read a plain or gzip CSV file with a header row; blank lines are left out.

    Raises:
        TopologyError: naming file and line, if it cannot be read, unpacked, decoded or split, has
            no rows, or has a row of another width than the header.
    """
    text = read_text(path, TopologyError, "set topology.path to a node list")
    rows = list(quoted_rows(text, path, TopologyError))
    if len(rows) <= 1:
        raise TopologyError(f"{path}: has no row below a header; give one row a server")
    header = [name.strip() for name in rows[0][0]]
    for row, line in rows:
        if len(row) != len(header):
            raise TopologyError(
                f"{path}, line {line}: {len(row)} fields, the header has {len(header)}; "
                f"complete or remove the row"
            )
    return NodeRows(path, header, [row for row, _ in rows[1:]], [line for _, line in rows[1:]])
