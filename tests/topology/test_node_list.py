"""Public node lists: columns by mapping, what they leave open, racks by rule, and errors."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import TopologyError
from sim.topology.node_list import node_list, vc_gpus
from sim.topology.topology import Topology
from tests.topology.fabrics import check_tree, links_of

SHARED: dict[str, Any] = {
    "name": "t", "spines": 1, "oversubscription": 1.0, "nic_gbps": 10.0, "intra_gbps": 80.0,
    "inside": None,
}  # fmt: skip
OPEN: dict[str, Any] = {
    **SHARED, "gpus": None, "gpu_type": None, "type_names": None, "servers_per_rack": 2,
    "pod_oversubscription": None,
}  # fmt: skip
COLUMNS: dict[str, Any] = {"server": "sn", "gpus": "gpu", "gpu_type": "model"}

# In the manner of openb's list, with names of our own.
LIST = """sn,cpu,mem,gpu,model
s0,32000,1024,0,
s1,64000,2048,2,P
s2,96000,4096,8,V
s3,64000,2048,2,P
s4,64000,2048,2,T
s5,64000,2048,4,P
"""


def built(folder: Path, text: str | bytes, name: str = "nodes.csv", **changes: Any) -> Topology:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    values: dict[str, Any] = {**OPEN, "columns": COLUMNS, "path": str(path), **changes}
    return node_list(**values)


def test_types_know_where_they_were_named(tmp_path: Path):
    """P by the file, V renamed; T has no cell of its own: the configuration named it."""
    text = LIST.replace("s4,64000,2048,2,T", "s4,64000,2048,2,")
    topology = built(tmp_path, text, gpu_type="T", type_names={"V": "v100"})
    path = tmp_path / "nodes.csv"
    assert {n: k.where for n, k in zip(topology.gpu_types, topology.gpu_kinds, strict=True)} == {
        "P": f"{path}, line 3, column 'model'",
        "v100": f"{path}, line 4, column 'model': 'V', by topology.type_names",
        "T": "",
    }


def test_a_list_of_servers(tmp_path: Path):
    columns = {**COLUMNS, "cpu_milli": "cpu", "memory_gib": "mem", "group": None}
    topology = built(tmp_path, LIST, columns=columns, type_names={"P": "p100", "T": "p100"})
    check_tree(topology)
    # s0 has no GPU; by the file's types: P s1 s3 | s5, then V s2, then T s4; racks of two
    assert topology.server_name.tolist() == ["s1", "s3", "s5", "s2", "s4"]
    assert topology.server_rack.tolist() == [0, 0, 1, 2, 3]
    assert topology.gpu_types == ("p100", "V")
    assert topology.server_gpu_type.tolist() == [0, 0, 0, 1, 0]
    assert topology.gpus_per_server.tolist() == [2, 2, 4, 8, 2]
    assert topology.server_cpu_milli.tolist() == [64000, 64000, 64000, 96000, 64000]
    assert topology.server_memory_mib.tolist() == [1024 * m for m in (2048, 2048, 2048, 4096, 2048)]
    assert topology.server_group is None and topology.inside is None


def test_a_list_with_racks_and_pods(tmp_path: Path):
    text = "host,core,agg,tor\na,c,p1,t1\nb,c,p2,t1\nc,c,p1,t1\nd,c,p1,t2\n"
    topology = built(
        tmp_path,
        gzip.compress(text.encode()), "nodes.csv.gz", gpus=8, gpu_type="v100",
        columns={"server": "host", "rack": ["agg", "tor"], "pod": "agg"}, servers_per_rack=None,
        pod_oversubscription=2.0, spines=1,
    )  # fmt: skip
    check_tree(topology)
    assert topology.server_name.tolist() == ["a", "c", "d", "b"]  # p1/t1, p1/t2, then p2/t1
    assert topology.server_rack.tolist() == [0, 0, 1, 2]
    assert [len(links_of(topology).path(0, other)) for other in (1, 2, 3)] == [2, 4, 6]


def test_rows_that_stand_for_several_servers(tmp_path: Path):
    columns = {"count": "nodes", "group": "vc"}
    text = "vc,nodes\na,3\nb,1\nc,0\n"
    topology = built(tmp_path, text, columns=columns, gpus=8, gpu_type="p100")
    assert topology.server_name.tolist() == ["a/0", "a/1", "a/2", "b/0"]
    assert topology.server_group.tolist() == ["a", "a", "a", "b"]
    assert topology.server_rack.tolist() == [0, 0, 1, 1]
    assert topology.num_gpus == 32


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("s3,", "s1,", "nodes.csv, line 5, column 'sn': 's1' is blank or named twice"),
        ("s1,64000,2048,2", "s1,64000,2048,-2", "line 3, column 'gpu': '-2' is not from 0 to 1024"),
        ("s1,64000,2048,2", "s1,64000,2048,nan", "line 3, column 'gpu': 'nan' is not from 0"),
        ("s1,64000,2048,2", "s1,64000,2048,1e99", "line 3, column 'gpu': '1e99' is not from 0"),
        ("s1,64000,2048,2", "s1,64000,2048,2.5", "line 3, column 'gpu': '2.5' is not a whole"),
        ("s1,64000,2048,2", "s1,64000,2048,two", "line 3, column 'gpu': 'two' is not a number"),
        ("s1,64000,2048,2", "s1,64000,2048,1_2", "line 3, column 'gpu': '1_2' is not a number"),
        ("8,V", "8,", "line 4, column 'model': '' is blank; give the GPU type"),
        ("model", "modle", "'model' (topology.columns.gpu_type); did you mean 'modle'"),
        ("mem", "sn", "line 1: two columns are called 'sn'"),
        ("s2,96000", "s2", "line 4: 4 fields, the header has 5"),
        ("s2", "s\udcff", "line 4: byte 0xff is not UTF-8"),
    ],
)
def test_errors_say_line_and_column(tmp_path: Path, old: str, new: str, words: str):
    text = LIST.replace(old, new, 1).encode(errors="surrogateescape")
    with pytest.raises(TopologyError) as caught:
        built(tmp_path, text)
    assert words in str(caught.value)


@pytest.mark.parametrize("key", ["rack", "pod"])
def test_servers_without_a_rack_or_pod_are_not_taken_for_neighbours(tmp_path: Path, key: str):
    """They would all share one, and its uplink."""
    columns = {**COLUMNS, "rack": ["row", "rack"], "pod": "pod"}
    cells = {"row": "a", "rack": "r", "pod": "p"}
    text = "sn,gpu,model,row,rack,pod\ns1,2,P,a,r,p\ns2,2,P,a,r,p\n"
    built(tmp_path, text, columns=columns, pod_oversubscription=1.0)
    left_out = {"row": "", "rack": ""} if key == "rack" else {"pod": ""}
    text += "s3,2,P,{row},{rack},{pod}\n".format(**(cells | left_out))
    with pytest.raises(TopologyError, match=r"line 4, column '(row|pod)': '' is blank; give it"):
        built(tmp_path, text, columns=columns, pod_oversubscription=1.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"columns": {**COLUMNS, "gpu_typ": "x"}}, "columns.gpu_typ is not a key; did you mean"),
        ({"columns": {**COLUMNS, "count": "gpu"}}, "topology.columns has server and count"),
        ({"columns": {"gpus": "gpu"}}, "neither server nor count"),
        ({"columns": {**COLUMNS, "server": ["sn", "cpu"]}}, "name one column"),
        ({"columns": {**COLUMNS, "pod": "cpu"}}, "pod and no rack"),
        ({"columns": {"server": "sn"}, "gpu_type": "p"}, "topology.gpus is null and no column"),
        ({"columns": {"server": "sn"}, "gpus": 0, "gpu_type": "p"}, "topology.gpus is 0"),
        ({"columns": {"server": "sn", "gpus": "gpu"}}, "topology.gpu_type is null and no column"),
        ({"pod_oversubscription": 2.0}, "topology.columns.pod go together"),
        ({"servers_per_rack": None}, "topology.servers_per_rack is null"),
        ({"servers_per_rack": 0}, "topology.servers_per_rack is 0"),
        ({"intra_gbps": None}, "topology.intra_gbps and topology.inside"),
        ({"nic_gbps": float("inf")}, "topology.nic_gbps is inf"),
        ({"spines": 0}, "topology.spines is 0"),
        ({"oversubscription": 0.0}, "topology.oversubscription is 0"),
    ],
)
def test_errors_of_the_options_name_the_key(tmp_path: Path, changes: dict[str, Any], words: str):
    with pytest.raises(TopologyError) as caught:
        built(tmp_path, LIST, **changes)
    assert words in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(TopologyError, match="cannot be read"):
        node_list(**OPEN, columns=COLUMNS, path=str(tmp_path / "absent.csv"))
    for text, name, words in (
        (gzip.compress(LIST.encode())[:-9], "cut.csv.gz", "is not a whole gzip file"),
        (LIST, "plain.csv.gz", "is not a whole gzip file"),
        ("sn,gpu,model\na,0,\n", "nodes.csv", "no server with a GPU"),
        ("", "nodes.csv", "has no row below a header"),
    ):
        with pytest.raises(TopologyError, match=words):
            built(tmp_path, text, name)


@settings(max_examples=300)
@given(st.data())
def test_any_bytes_give_a_sound_cluster_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
):
    text = LIST.encode()
    at = data.draw(st.integers(0, len(text) - 1))
    piece = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from([b'"', b",", b"\n", b"-"])))
    text = text[:at] + piece + text[at + data.draw(st.integers(0, len(text))) :]
    columns = {**COLUMNS, "cpu_milli": "cpu", "memory_mib": "mem"}
    try:
        check_tree(built(tmp_path_factory.getbasetemp(), text, columns=columns))
    except TopologyError as error:
        assert "nodes.csv" in str(error)


# In the manner of Helios: a row a day, a column a virtual cluster.
DAYS = "date,vca,vcb,vcc,total\n2020-04-01,16,0,8,24\n2020-04-02,16,12,0,28\n"


def a_day(folder: Path, date: str, text: str = DAYS) -> Topology:
    path = folder / "vcs.csv"
    path.write_text(text)
    return vc_gpus(
        **SHARED, path=str(path), date=date, date_column="date", total_column="total",
        gpus_per_server=8, gpu_type="v100", servers_per_rack=3,
    )  # fmt: skip


def test_a_day_of_virtual_clusters(tmp_path: Path):
    topology = a_day(tmp_path, "2020-04-02")
    check_tree(topology)
    assert topology.server_group.tolist() == ["vca", "vca", "vcb", "vcb"]
    assert topology.gpus_per_server.tolist() == [8, 8, 8, 4]
    assert topology.server_rack.tolist() == [0, 0, 0, 1]


def test_a_day_that_is_not_there_or_does_not_add_up(tmp_path: Path):
    with pytest.raises(TopologyError, match="no row of '2020-04-03'; did you mean '2020-04-0"):
        a_day(tmp_path, "2020-04-03")
    with pytest.raises(TopologyError, match="line 3, column 'total': '28' is not the sum"):
        a_day(tmp_path, "2020-04-02", DAYS.replace("12,0", "24,0"))
    with pytest.raises(TopologyError, match="line 2, column 'vcb': '-1' is not from 0"):
        a_day(tmp_path, "2020-04-01", DAYS.replace("16,0", "16,-1"))
