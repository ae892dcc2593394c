"""Readers and generators of DAGs; rows are made up, real files are counted."""

import gzip
import json

import numpy as np
import pytest

from sim.dag import families, model_graphs
from sim.dag.problem import DagError
from sim.traces.alibaba import AlibabaDag

PROFILE = """node1 -- Input0 -- forward_compute_time=900.0, backward_compute_time=0.0, \
activation_size=8000000.0, parameter_size=0.0
node2 -- Linear(4, 2) -- forward_compute_time=2.0, backward_compute_time=3.0, \
activation_size=[1000000.0; 500000.0], parameter_size=[1073741824.0; 0.0]
node3 -- ReLU(inplace) -- forward_compute_time=1.0, backward_compute_time=0.5, \
activation_size=0.0, parameter_size=0.0
\tnode1 -- node2
\tnode2 -- node3
"""
TASKS = """arrival_s,job,task,duration_s,n_instances
0,j1,M1,10,4
0,j1,R2_1,20,1
5,j2,task_x,30,1
9,j3,M1,40,2
9,j3,M2,50,2
9,j3,R3_1_2,700,2
"""


def edges_of(graph) -> dict[tuple[str, str], float]:
    child = np.repeat(np.arange(len(graph)), np.diff(graph.first_parent))
    names = graph.tasks
    edges = zip(graph.parent, child, graph.parent_mb.tolist(), strict=True)
    return {(names[a], names[b]): mb for a, b, mb in edges}


def test_pipedream_becomes_a_training_step(tmp_path):
    path = tmp_path / "toy.graph.txt"
    path.write_text(PROFILE)
    graph = model_graphs.pipedream_graph(path)
    work = dict(zip(graph.tasks, graph.work_s.tolist(), strict=True))
    assert work == {"node2": 0.002, "node3": 0.001, "node2*": 0.003, "node3*": 0.0005}
    assert edges_of(graph) == {
        ("node2", "node3"): 1.5, ("node3*", "node2*"): 1.5, ("node2", "node2*"): 1.5,
        ("node3", "node3*"): 0.0,
    }  # fmt: skip
    need = dict(zip(graph.tasks, graph.need_gib.tolist(), strict=True))
    assert need["node2"] == pytest.approx(3.0 + 1.5e6 / 2**30)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PROFILE + "nonsense\n", "line 6: 'nonsense' is neither"),
        (PROFILE + "\tnode3 -- node9\n", "'node9', which is unknown"),
        (PROFILE.replace("=2.0", "=two"), "line 2: 'two' is not a number"),
        (PROFILE.replace("=2.0", "=-2.0"), "'node2' has work -0.002"),
        (PROFILE + "\tnode3 -- node2\n", "circle"),
        (PROFILE + PROFILE.splitlines()[1] + "\n", "line 6: 'node2' is a node already"),
    ],
)
def test_a_broken_profile_is_refused(tmp_path, text, told):
    path = tmp_path / "toy.graph.txt"
    path.write_text(text)
    with pytest.raises(DagError, match=told):
        model_graphs.pipedream_graph(path)


def operators(folder, name="op.json", **edge):
    """A file of two nodes, and an edge with this cost and size."""
    nodes = [{"id": 4, "name": "in", "fpgaLatency": 2.0, "size": 2**30},
             {"id": 7, "name": "out", "fpgaLatency": 0.0, "size": 0}]  # fmt: skip
    content = {"nodes": nodes, "edges": [{"sourceId": 4, "destId": 7, **edge}]}
    text = json.dumps(content).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    return folder / name


@pytest.mark.parametrize("name", ["layer_toy.json.gz", "op.v2.json"])
def test_edges_of_dnn_partitioning_graphs_hand_on_their_bytes(tmp_path, name):
    graph = model_graphs.dnn_partitioning_graph(operators(tmp_path, name, cost=0.5, size=3e6))
    assert graph.name == name.partition(".json")[0]
    assert graph.tasks == ("4 in", "7 out")
    assert graph.work_s.tolist() == [0.002, 0.0] and graph.need_gib.tolist() == [1.0, 0.0]
    assert graph.parent_mb.tolist() == [3.0]


def test_backward_edges_of_layers_hand_on_what_their_cost_says(real_data):
    # Sizes of some are those of other edges; costs are the activations of PipeDream's profile.
    units = {"layer_resnet50_training": 2**31, "operator_bert_l-3_training": 2**31 / 1e3}
    for name, unit in units.items():
        path = real_data / f"dag/dnn_partitioning/{name}.json.gz"
        edges = json.loads(gzip.decompress(path.read_bytes()))["edges"]
        graph = model_graphs.dnn_partitioning_graph(path)
        assert graph.parent_mb.sum() == pytest.approx(sum(e["cost"] for e in edges) * unit / 1e6)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda found: found.pop("edges"), r"op\.json: is no graph of dnn-partitioning"),
        (lambda found: found["edges"][0].update(size=0), "no edge has both a cost and a size"),
        (lambda found: found["edges"][0].update(destId=9), "'9', which is unknown"),
        (lambda found: found["nodes"][1].update(fpgaLatency=None), "fpgaLatency is None, no .* 7"),
        (lambda found: found["nodes"][1].update(id=4, name="in"), "two tasks are called '4 in'"),
    ],
)  # fmt: skip
def test_a_broken_json_file_is_refused(tmp_path, change, told):
    path = operators(tmp_path, cost=1.0, size=1.0)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(DagError, match=told):
        model_graphs.dnn_partitioning_graph(path)


@pytest.mark.parametrize(
    "read", [model_graphs.dnn_partitioning_graph, model_graphs.pipedream_graph]
)
def test_a_file_that_is_no_text_is_refused(tmp_path, read):
    (tmp_path / "op.json.gz").write_bytes(gzip.compress(b"x" * 999)[:-9])
    with pytest.raises(DagError, match=r"op\.json\.gz: is not a whole gzip file"):
        read(tmp_path / "op.json.gz")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(DagError, match=r"latin\.txt, line 1: byte 0xe9 is not UTF-8"):
        read(tmp_path / "latin.txt")


def test_copies_are_side_by_side(diamond):
    twice = families.side_by_side(diamond, 2)
    assert len(twice) == 10 and len(twice.parent) == 8
    assert edges_of(twice)["b #2", "d #2"] == 0.5
    assert not any(a[-1] != b[-1] for a, b in edges_of(twice))
    with pytest.raises(DagError, match="0 copies"):
        families.side_by_side(diamond, 0)


def test_whole_alibaba_jobs_are_drawn(tmp_path):
    path = tmp_path / "tasks.csv"
    path.write_text(TASKS)
    reader = AlibabaDag(instances_per_gpu=32, most_gpus=1, header=None)
    trace = reader.read(path=str(path), columns=families.COLUMNS, name="toy", strict=True)[0]
    rng = np.random.default_rng(0)
    graph = families.alibaba_graph(trace, tasks=5, longest_s=1000.0, mb_per_s=2.0, rng=rng)
    assert sorted(graph.work_s.tolist()) == [10.0, 20.0, 40.0, 50.0, 700.0]  # not task_x, alone
    assert set(edges_of(graph)) == {
        ("j1/M1", "j1/R2_1"), ("j3/M1", "j3/R3_1_2"), ("j3/M2", "j3/R3_1_2"),
    }  # fmt: skip
    assert 2 < edges_of(graph)["j1/M1", "j1/R2_1"] < 200  # around 20 MB
    short = families.alibaba_graph(trace, tasks=2, longest_s=100.0, mb_per_s=2.0, rng=rng)
    assert sorted(short.work_s.tolist()) == [10.0, 20.0]  # j3 takes 750 s at least
    with pytest.raises(DagError, match="has 5 tasks"):
        families.alibaba_graph(trace, tasks=9, longest_s=1000.0, mb_per_s=2.0, rng=rng)


@pytest.mark.parametrize("make", [families.layered_graph, families.random_graph])
def test_generated_graphs_have_what_was_asked(make):
    rng = np.random.default_rng(1)
    graph = make(4000, width=20, parents=2.5, mean_s=60.0, mb_per_s=3.0, rng=rng)
    assert len(graph) == 4000
    assert graph.work_s.mean() == pytest.approx(60.0, rel=0.1)
    assert graph.parent_mb.mean() == pytest.approx(180.0, rel=0.1)
    assert len(graph.parent) / 4000 == pytest.approx(2.5, rel=0.1)
    with pytest.raises(DagError, match="0 tasks"):
        make(0, width=2, parents=1, mean_s=1.0, mb_per_s=0.0, rng=rng)


def test_families_say_what_they_cannot_do():
    with pytest.raises(DagError, match="shape 'round' is unknown"):
        families.GeneratedFamily(shape="round", width=2, parents=1.0, mean_s=1.0, mb_per_s=1.0)
    with pytest.raises(DagError, match="reader 'onnx' is unknown"):
        families.ModelFamily(reader="onnx", folder=".", copies=1)
    family = families.GeneratedFamily(
        shape="random", width=2, parents=1.0, mean_s=1.0, mb_per_s=1.0
    )
    with pytest.raises(DagError, match="'many' is no number of tasks"):
        family.graph("many", np.random.default_rng(0))


def test_real_files_have_the_sizes_that_are_known(real_data):
    rng = np.random.default_rng(0)
    pipedream = families.ModelFamily(
        reader="pipedream", folder=str(real_data / "dag/pipedream"), copies=1
    )
    assert len(pipedream.graph("vgg16.graph.txt", rng)) == 80  # 41 nodes, one of them input
    folder = str(real_data / "dag/dnn_partitioning")
    graphs = families.ModelFamily(reader="dnn_partitioning", folder=folder, copies=2)
    assert len(graphs.graph("layer_bert24_training.json.gz", rng)) == 128
    path = str(real_data / "dag/alibaba2018_tasks_1h.csv.gz")
    batch = families.AlibabaFamily(path=path, longest_s=600.0, mb_per_s=10.0).graph("500", rng)
    assert 490 <= len(batch) <= 500 and batch.work_s.max() <= 600.0
