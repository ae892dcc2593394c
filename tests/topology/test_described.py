"""Description files: examples by hand, errors that say where and what, whatever stands there."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import TopologyError
from sim.topology.described import described
from sim.topology.topology import Topology
from tests.topology.fabrics import EXAMPLES, check_tree, links_of, slowest_gbps

SMALL = """\
fabric:
  spines: 1
  oversubscription: 2
shapes:
  box:
    gpus: 4
    gpu_type: p100
    nics: {count: 2, gbps: 10}
    intra_gbps: 80
racks:
  - name: r
    servers:
      - {shape: box, count: 2}
"""


def example(name: str) -> Topology:
    return described(name=None, path=str(EXAMPLES / f"{name}.yaml"))


def refused(folder: Path, text: str | bytes, at_fault: str = "cluster.yaml") -> str:
    """What the error says behind the name of the file at fault."""
    path = folder / "cluster.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TopologyError) as caught:
        described(name=None, path=str(path))
    message = str(caught.value)
    assert message.startswith(str(folder / at_fault))
    return message.removeprefix(str(folder / at_fault))


def test_gpus_are_described_with_the_place_of_their_names():
    topology = example("h100")
    check_tree(topology)
    h100, v100 = topology.gpu_kinds
    assert topology.gpu_types == ("h100", "v100")
    assert h100.facts == ("a100", 2.0, 80.0) and v100.facts == (None, None, 32.0)
    assert h100.where.endswith("h100.yaml, line 10: shapes.dgx_h100.gpu_type")
    assert topology.nic_gbps.tolist() == [3200.0] * 32 + [100.0] * 4


def test_one_type_is_described_in_one_way(tmp_path: Path):
    box = SMALL.partition("shapes:\n")[2].partition("racks:")[0]
    other = box.replace("  box:", "  tub:").replace("p100", "p100\n    gpu_speed: 2")
    told = refused(tmp_path, SMALL.replace("racks:", other + "racks:").replace(
        "count: 2}", "count: 2}\n      - {shape: tub, count: 1}"))  # fmt: skip
    assert "line 12: shapes.tub.gpu_type: 'p100' has another like, speed or memory" in told
    assert "line 7: shapes.box.gpu_type" in told


@pytest.mark.parametrize("line", ["gpu_speed: 0", "gpu_memory_gib: many", "gpu_like: 3"])
def test_what_no_gpu_can_be(tmp_path: Path, line: str):
    told = refused(tmp_path, SMALL.replace("gpu_type: p100", f"gpu_type: p100\n    {line}"))
    assert told.startswith(f", line 8: shapes.box.{line.partition(':')[0]} is")


def test_the_cluster_of_the_docs():
    topology = example("cluster")
    check_tree(topology)
    assert topology.name == "cluster"
    assert topology.gpu_types == ("v100", "p100")
    assert topology.gpus_per_server.tolist() == [8] * 6 + [4] * 5
    assert topology.server_rack.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert topology.nic_gbps.tolist() == [400.0] * 6 + [25.0] * 5
    assert topology.uplink_gbps.tolist() == [4 * 400 / 2, (2 * 400 + 2 * 25) / 2, 40.0]
    assert topology.intra_gbps.tolist() == [400.0] * 6 + [80.0] * 5
    assert topology.server_cpu_milli.tolist() == [80_000] * 6 + [28_000] * 5
    assert topology.server_memory_mib.tolist() == [512 * 1024] * 6 + [256 * 1024] * 5
    assert topology.server_name.tolist()[3:9] == ["a1/3", "a2/0", "a2/1", "a2/2", "a2/3", "old-1"]
    assert topology.server_group.tolist() == ["language"] * 6 + ["vision"] * 5
    assert slowest_gbps(topology.inside, 0, np.array([0, 7])) == 400.0
    assert slowest_gbps(topology.inside, 10, topology.num_gpus - np.array([1, 2])) == 80.0


def test_the_inventory_of_the_docs_has_pods():
    topology = example("inventory")
    check_tree(topology)
    assert topology.server_rack.tolist() == [0, 0, 1, 1, 2, 2]
    assert topology.inside is None
    links = links_of(topology)
    assert links.level_names == ("server", "rack switch", "aggregation", "core")
    # east: racks of 100 and 75 Gbps, so that its two planes carry 175 / 2 / 2 each; west: 50
    assert links.link_gbps[-4:].tolist() == [43.75, 43.75, 12.5, 12.5]
    hops = {(a, b): len(links.path(a, b)) for a, b in [(0, 1), (0, 2), (0, 4)]}
    assert hops == {(0, 1): 2, (0, 2): 4, (0, 4): 6}


def test_servers_of_a_rack_are_brought_together(tmp_path: Path):
    rows = "server,rack,shape\na,r2,box\nb,r1,box\nc,r2,box\nd,r1,box\n"
    (tmp_path / "nodes.csv").write_text(rows)
    text = SMALL[: SMALL.index("racks:")] + "nodes: nodes.csv\n"
    (tmp_path / "cluster.yaml").write_text(text)
    topology = described(name="named", path=str(tmp_path / "cluster.yaml"))
    check_tree(topology)
    assert topology.name == "named"
    assert topology.server_name.tolist() == ["a", "c", "b", "d"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fabric:", "fabrik:", ", line 1: fabrik is not a key; did you mean 'fabric'"),
        ("spines", "spnies", ", line 2: fabric.spnies is not a key; did you mean 'spines'"),
        ("spines: 1", "spines: 0", ", line 2: fabric.spines is '0'; it must be at least 1"),
        ("spines: 1", "spines: 1.5", ", line 2: fabric.spines is '1.5'; it must be a whole"),
        ("spines: 1", "spines: true", ", line 2: fabric.spines is 'True'; it must be a whole"),
        ("oversubscription: 2", "oversubscription: .nan", ", line 3: fabric.oversubscription is"),
        ("oversubscription: 2", "oversubscription: .inf", ", line 3: fabric.oversubscription is"),
        ("oversubscription: 2", "oversubscription: -2", "must be above 0"),
        ("  oversubscription: 2\n", "", ", line 1: fabric.oversubscription is missing"),
        ("gpus: 4", "gpus: 4000", ", line 6: shapes.box.gpus is '4000'; it must be at least 1"),
        ("gpus: 4", "gpus: '4'", ", line 6: shapes.box.gpus is '4'; it must be a whole number"),
        ("gpus: 4", "gpus: [4]", ", line 6: shapes.box.gpus is a list; it must be a whole number"),
        ("gpu_type: p100", "gpu_type: 100", "shapes.box.gpu_type is '100'; it must be a text"),
        ("gpu_type: p100", "gpu_type: ' '", "shapes.box.gpu_type is ' '; it must be a text"),
        ("count: 2, gbps: 10", "count: 2", ", line 8: shapes.box.nics.gbps is missing"),
        ("gbps: 10", "gbps: 1e999", "shapes.box.nics.gbps"),
        ("intra_gbps: 80", "intra_gbps: 1.0e+20", "it must be above 0 and at most 1e+06"),
        ("    intra_gbps: 80\n", "", ", line 5: shapes.box.intra_gbps is missing"),
        ("shape: box", "shape: bix", "is 'bix'; it is not known; did you mean 'box'"),
        ("count: 2}", "count: -2}", ", line 13: racks[0].servers[0].count is '-2'"),
        (", count: 2}", "}", ", line 13: racks[0].servers[0] needs either count or names"),
        ("count: 2}", "count: 2000000}", "it must be at least 1 and at most 1000000"),
        ("count: 2}", "names: [a, a]}", ", line 13: racks[0].servers[0] holds a second server 'a'"),
        ("count: 2}", "names: [a, 7]}", "racks[0].servers[0].names is '7'; it must be a text"),
        ("count: 2}", "names: []}", "it must be a list with at least one entry"),
        ("- name: r", "- name: r\n    pod: p", "fabric.pod_oversubscription is missing"),
        ("  spines: 1", "  spines: 1\n  pod_oversubscription: 2", "rack 'r' names no pod"),
        ("racks:", "nodes: x.csv\nracks:", "either below racks or in the file at nodes"),
        ("count: 2}", "count: 2", ", line 14: is not YAML"),
        ("  spines: 1", "  spines: 1\n  spines: 2", ", line 3: the key spines stands there twice"),
        ("gpu_type: p100", "gpu_type: !!python/name:os.system x", ", line 7: is not YAML"),
        ("gpus: 4", "gpus: " + "9" * 5000, ", line 6"),
        ("gpus: 4", "gpus: " + "[" * 500, "is nested too deeply"),
        ("gpus: 4", "gpus: \x07", ", line 6: is not YAML: character 0x7"),
    ],
)
def test_errors_say_where_and_what(tmp_path: Path, old: str, new: str, words: str):
    assert old in SMALL
    assert words in refused(tmp_path, SMALL.replace(old, new, 1))


def test_copies_by_anchor_and_other_files_are_refused(tmp_path: Path):
    text = SMALL.replace("gpu_type: p100", "gpu_type: &a p100").replace("- name: r", "- name: *a")
    assert ", line 7: anchors are not supported" in refused(tmp_path, text)
    assert ": the file is empty" in refused(tmp_path, "")
    assert ", line 1: the file is a list; it must be a mapping" in refused(tmp_path, "- a\n")
    broken = SMALL.encode().replace(b"  box", b"  b\xffx")
    assert ", line 5: byte 0xff is not UTF-8" in refused(tmp_path, broken)
    for path in (tmp_path / "absent.yaml", tmp_path):
        with pytest.raises(TopologyError, match="cannot be read"):
            described(name=None, path=str(path))


def test_only_some_servers_with_memory_is_refused(tmp_path: Path):
    text = SMALL.replace("racks:", "  more:\n    gpus: 1\n    gpu_type: a\n    intra_gbps: 1\n"
                         "    nics: {count: 1, gbps: 1}\n    memory_gib: 4\nracks:")  # fmt: skip
    text += "      - {shape: more, count: 1}\n"
    assert "1 of 3 servers tell their memory" in refused(tmp_path, text)


NODES = "server,rack,shape,pod,group\na,r1,box,,x\nb,r1,box,,y\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("server", "sever", ", line 1: column 'sever' is not known; did you mean 'server'"),
        ("shape", "group", ", line 1: no column 'shape'"),
        ("pod", "rack", ", line 1: two columns are called 'rack'"),
        ("a,r1,box", "a,r1,bax", ", line 2, column 'shape': 'bax' is no shape; did you mean 'box'"),
        ("a,r1", "a,", ", line 2, column 'rack': '' is blank"),
        ("b,r1", "a,r1", ", line 3, column 'server': 'a' stands there twice"),
        ("b,r1,box,,y", "b,r1", ", line 3: 2 fields, the header has 5"),
        ("a,r1,box,,x\nb,r1,box,,y\n", "", "has no row below a header"),
        ("a,r1", '"a,r1', ", line 2: the row cannot be split"),
    ],
)
def test_errors_in_the_servers_file(tmp_path: Path, old: str, new: str, words: str):
    (tmp_path / "nodes.csv").write_text(NODES.replace(old, new, 1))
    told = refused(tmp_path, SMALL[: SMALL.index("racks:")] + "nodes: nodes.csv\n", "nodes.csv")
    assert words in told


CLUSTER = (EXAMPLES / "cluster.yaml").read_bytes()
INVENTORY = (EXAMPLES / "inventory.yaml").read_bytes()
INVENTORY_ROWS = (EXAMPLES / "inventory.csv").read_bytes()
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
    (folder / "inventory.csv").write_bytes(INVENTORY_ROWS)
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


@settings(max_examples=400)
@given(st.sampled_from([CLUSTER, INVENTORY, INVENTORY_ROWS]), st.data())
def test_bytes_replaced_or_cut_off(file: Path, text: bytes, data: st.DataObject):
    """Up to five bytes anywhere, or all the rest, give way to a few others or a word."""
    words = [b"-", b": ", b"&a *a", b"{", b'"', b",", b"\n", b"\x00"]
    piece = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from(words)))
    at = data.draw(st.integers(0, len(text) - 1))
    behind = at + data.draw(st.sampled_from([*range(6), len(text)]))
    broken = text[:at] + piece + text[behind:]
    rows = text is INVENTORY_ROWS
    file.write_bytes(INVENTORY if rows else broken)
    (file.parent / "inventory.csv").write_bytes(broken if rows else INVENTORY_ROWS)
    outcome(file)
