"""Whatever stands in a description, the answer is a sound topology or an error that names the file.

Truncated, negative, huge, not a number, of a wrong type, unknown keys, keys left out, bytes.
"""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import TopologyError
from sim.topology.described import described
from tests.topology.fabrics import EXAMPLES, check_tree

CLUSTER = (EXAMPLES / "cluster.yaml").read_bytes()
INVENTORY = (EXAMPLES / "inventory.yaml").read_bytes()
NODES = (EXAMPLES / "inventory.csv").read_bytes()
TREE = yaml.safe_load(CLUSTER)
del TREE["racks"][1]  # no kind of place that the others lack

NO_NUMBERS: list[Any] = [True, -1, 10**30, 1e308, math.nan, math.inf, "nan", "4", [1], {}]
NASTY: list[Any] = [
    *NO_NUMBERS, None, 0, 2**63, 0.5, -1e-300, -math.inf, "", " ", "1e9", "p100", "\u0000",
    "x" * 2000, [], [None], [[[]]], {"a": 1}, "2020-01-01",
]  # fmt: skip


def outcome(path: Path) -> bool:
    """Whether the description builds; if not, its error must begin with a file of the folder."""
    try:
        topology = described(name=None, path=str(path))
    except TopologyError as error:
        assert str(error).startswith(str(path.parent)), error
        assert len(str(error)) < 1000
        return False
    check_tree(topology)
    return True


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from places(value[key], (*at, key))


PLACES = list(places(TREE))[1:]


def owner(tree: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        tree = tree[key]
    return tree


def changed(place: tuple[Any, ...], value: Any) -> Any:
    tree = copy.deepcopy(TREE)
    owner(tree, place)[place[-1]] = value
    return tree


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "inventory.csv").write_bytes(NODES)
    return folder / "cluster.yaml"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_nasty_values_everywhere(file: Path, place: tuple[Any, ...]):
    """And what cannot be a number is never taken for one."""
    number = isinstance(owner(TREE, place)[place[-1]], int)
    for at, value in enumerate(NASTY):
        file.write_text(yaml.safe_dump(changed(place, value), allow_unicode=True))
        assert not (outcome(file) and number and at < len(NO_NUMBERS)), value


def test_an_unknown_key_anywhere_is_refused(file: Path):
    mappings = [p for p in PLACES if isinstance(owner(TREE, p), dict) and p[:1] != ("shapes",)]
    for place in mappings:
        tree = changed(place, owner(TREE, place)[place[-1]])
        owner(tree, place)[f"{place[-1]}x"] = 1
        file.write_text(yaml.safe_dump(tree))
        with pytest.raises(TopologyError, match=f"did you mean '{place[-1]}'"):
            described(name=None, path=str(file))


def test_a_key_left_out_is_refused_or_optional(file: Path):
    optional = {"group", "uplink_gbps"}
    for place in PLACES:
        tree = copy.deepcopy(TREE)
        if isinstance(owner(tree, place), dict):
            del owner(tree, place)[place[-1]]
            file.write_text(yaml.safe_dump(tree))
            assert outcome(file) == (place[-1] in optional), place


@given(st.integers(0, len(CLUSTER) - 1))
def test_truncated(file: Path, length: int):
    file.write_bytes(CLUSTER[:length])
    outcome(file)


def replaced(text: bytes, data: st.DataObject, words: list[bytes]) -> bytes:
    """Up to five bytes anywhere give way to a few others or a word."""
    at = data.draw(st.integers(0, len(text) - 1))
    piece = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from(words)))
    return text[:at] + piece + text[at + data.draw(st.integers(0, 5)) :]


@settings(max_examples=150)
@given(st.sampled_from([CLUSTER, INVENTORY]), st.data())
def test_bytes_replaced(file: Path, text: bytes, data: st.DataObject):
    file.write_bytes(replaced(text, data, [b"-", b": ", b"&a *a", b"{"]))
    outcome(file)


@settings(max_examples=150)
@given(st.data())
def test_bytes_replaced_in_the_servers_file(file: Path, data: st.DataObject):
    folder = file.parent / "nodes"
    folder.mkdir(exist_ok=True)
    (folder / "inventory.yaml").write_bytes(INVENTORY)
    (folder / "inventory.csv").write_bytes(replaced(NODES, data, [b'"', b",", b"\n", b"\x00"]))
    outcome(folder / "inventory.yaml")
