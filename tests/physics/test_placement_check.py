"""Fitting compute and bytes to measured placements, and predicting the rest."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from sim.errors import PhysicsError
from sim.physics.no_network import NoNetwork
from sim.physics.placement_check import check_split, fold_splits, scale_up_split
from sim.physics.placement_costs import Cost, Machines, link_costs, table_costs
from sim.physics.placement_fit import fit_steps, step_errors
from sim.physics.placement_rows import READERS, MeasuredStep, read_deepshare, read_sia
from sim.physics.shared_links import MaxMin
from sim.physics.traffic_rules import Pattern

DATA = Path(os.environ.get("GPUYARD_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
MACHINES = Machines(gpus_per_server=4, intra_gbps=80.0, nic_gbps=8.0, inside=None)
PLACEMENTS = [(1,), (2,), (4,), (1, 1), (2, 2), (1, 1, 1, 1), (4, 4)]


def links(*, alpha_local_s: float = 1e-3, alpha_server_s: float = 1e-2) -> MaxMin:
    ring = Pattern(pattern="ring", ps_count=1, stages=1, tensor_width=1, activation_frac=0.0,
                   tensor_frac=0.0)  # fmt: skip
    return MaxMin(
        traffic=ring, alpha_local_s=alpha_local_s, alpha_server_s=alpha_server_s, overlap_frac=0.0
    )


def test_costs_of_placements_by_hand():
    """Rings at 10 GB/s inside and 1 GB/s outside; 1 ms and 10 ms a step, 2 (n - 1) steps."""
    costs = link_costs(links(), MACHINES, PLACEMENTS)
    expected = {
        (1,): (0.0, 0.0),
        (4,): (6e-3, 1.5e-10),
        (1, 1): (2e-2, 1e-9),
        (2, 2): (2e-3 + 2e-2, 1e-10 + 1e-9),
        (4, 4): (6e-3 + 2e-2, 1.5e-10 + 1e-9),
        (1, 1, 1, 1): (6e-2, 1.5e-9),
    }
    for placement, (latency_s, s_per_byte) in expected.items():
        assert costs[placement].latency_s == pytest.approx(latency_s, abs=1e-12)
        assert costs[placement].s_per_byte == pytest.approx(s_per_byte, abs=1e-21)
    nothing = table_costs(NoNetwork(), MACHINES, PLACEMENTS)
    assert set(nothing.values()) == {Cost(0.0, 0.0)}


def made_up(compute_s: dict[int, float], num_bytes: float, app: str = "a") -> list[MeasuredStep]:
    costs = link_costs(links(), MACHINES, PLACEMENTS)
    return [
        MeasuredStep("made up", app, "t", placement, batch,
                     seconds + costs[placement].latency_s
                     + num_bytes * costs[placement].s_per_byte)
        for batch, seconds in compute_s.items() for placement in PLACEMENTS
    ]  # fmt: skip


def test_what_follows_the_model_is_predicted_exactly():
    steps = made_up({8: 0.3, 16: 0.5}, 4e8) + made_up({8: 0.1}, 2e8, app="b")
    models = {"links": [link_costs(links(), MACHINES, PLACEMENTS)]}
    splits = [*fold_splits(steps, 3, np.random.default_rng(0)), scale_up_split(steps, 2)]
    found = [each for split in splits for each in check_split(steps, split, models)]
    assert len(found) == 3 * 6 + 3 * 4  # each row but those of one GPU once, then the 4 largest
    for each in found:
        assert each.predicted_s == pytest.approx(each.step.step_s, rel=1e-9)
        assert each.num_bytes == pytest.approx(4e8 if each.step.app == "a" else 2e8, rel=1e-9)


def test_of_several_machines_the_right_one_is_found():
    steps = made_up({8: 0.3}, 4e8)
    candidates = [
        link_costs(links(), Machines(4, 80.0, nic_gbps, None), PLACEMENTS)
        for nic_gbps in (2.0, 8.0, 40.0)
    ]
    split = fold_splits(steps, 2, np.random.default_rng(0))[0]
    for each in check_split(steps, split, {"links_fitted": candidates}):
        assert each.predicted_s == pytest.approx(each.step.step_s, rel=1e-9)


def test_no_row_is_held_out_and_fitted():
    steps = made_up({8: 0.3}, 4e8)
    folds = fold_splits(steps, 3, np.random.default_rng(1))
    held = [placement for fold in folds for placement in fold.held_out]
    assert sorted(held) == sorted(PLACEMENTS[1:])
    wrong = [
        MeasuredStep(**(vars(step) | {"step_s": 100.0 * step.step_s}))
        if step.placement in folds[0].held_out else step for step in steps
    ]  # fmt: skip
    models = {"links": [link_costs(links(), MACHINES, PLACEMENTS)]}
    told = [each.predicted_s for each in check_split(wrong, folds[0], models)]
    assert told == [each.predicted_s for each in check_split(steps, folds[0], models)]


def test_bytes_are_never_negative():
    fit = fit_steps(batch=np.zeros(2, np.int64), step_s=np.array([2.0, 1.0]),
                    latency_s=np.zeros(2), s_per_byte=np.array([0.0, 1.0]),
                    used=np.ones(2, np.bool_))  # fmt: skip
    assert fit.num_bytes == 0.0
    assert 1.0 < fit.compute_s[0] < 2.0


def test_errors_by_hand():
    errors = step_errors(measured_s=np.array([1.0, 2.0]), predicted_s=np.array([1.5, 1.0]),
                         alone_s=np.array([1.0, np.nan]))  # fmt: skip
    assert (errors.rows, errors.mape_frac, errors.bias_frac) == (2, 0.5, 0.0)
    worst = (np.log(1.5) ** 2 + np.log(2.0) ** 2) / 2
    assert errors.r2_log == pytest.approx(1.0 - worst / (np.log(2.0) / 2) ** 2)
    assert np.isnan(errors.r2_slowdown)


def write_sia(folder: Path, rows: str) -> None:
    (folder / "throughput").mkdir(exist_ok=True)
    text = "app,gpu_type,placement,local_bsz,step_time,sync_time\n" + rows
    (folder / "throughput" / "sia_placements.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_sia_rows(tmp_path):
    write_sia(tmp_path, "net,t4,12,8,0.5,0.1\ngpt_pmp,t4,8,2,0.2,0.3\nnet,t4,1,4,0.25,0.01\n")
    assert read_sia(tmp_path) == [
        MeasuredStep("sia", "net", "t4", (1, 2), 8, 0.5),
        MeasuredStep("sia", "net", "t4", (1,), 4, 0.25),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("net,t4,,8,0.5,0.1", "placement is ''"),
        ("net,t4,20,8,0.5,0.1", "placement is '20'"),
        ("net,t4,2x2,8,0.5,0.1", "placement is '2x2'"),
        ("net,t4,2,8,-1,0.1", "step_time is '-1'"),
        ("net,t4,2,8,nan,0.1", "step_time is 'nan'"),
        ("net,t4,2", "local_bsz is None"),
    ],
)
def test_bad_sia_rows_name_line_and_value(tmp_path, row, message):
    write_sia(tmp_path, f"net,t4,1,8,0.5,0.1\n{row}\n")
    with pytest.raises(PhysicsError, match=f"gz:3: {message}"):
        read_sia(tmp_path)


def test_deepshare_rows_are_scaled_to_the_first(tmp_path):
    (tmp_path / "throughput").mkdir()
    path = tmp_path / "throughput" / "deepshare_isolated.csv"
    path.write_text("model,gpus,nodes,samples_per_s\nnet,2,2,10\nnet,8,2,20\n")
    assert [(s.placement, s.step_s) for s in read_deepshare(tmp_path)] == [
        ((1, 1), 1.0), ((4, 4), 2.0)
    ]  # fmt: skip
    path.write_text("model,gpus,nodes,samples_per_s\nnet,3,2,10\n")
    with pytest.raises(PhysicsError, match="3 GPUs on 2 nodes"):
        read_deepshare(tmp_path)


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_missing_file_says_what_to_set(tmp_path, name):
    with pytest.raises(PhysicsError, match="GPUYARD_DATA"):
        READERS[name](tmp_path)


def test_links_explain_measured_gangs_larger_than_those_fitted():
    """The claim of docs/network.md, loosely: on 2080Ti, fitted on up to 4 GPUs, tested beyond."""
    if not (DATA / "throughput" / "sia_placements.csv.gz").is_file():
        pytest.skip("no measured placements: set GPUYARD_DATA to their folder")
    steps = [step for step in read_sia(DATA) if step.gpu_type == "rtx"]
    machines = Machines(8, 80.0, 50.0, {"sockets": 2, "pcie_switches": 2, "nvlink_islands": 0,
                                        "nvlink_gbps": 80.0, "pcie_gbps": 126.0,
                                        "socket_gbps": 80.0})  # fmt: skip
    placements = [step.placement for step in steps]
    models = {"none": [table_costs(NoNetwork(), machines, placements)],
              "links": [link_costs(links(alpha_local_s=1e-5, alpha_server_s=5e-5), machines,
                                   placements)]}  # fmt: skip
    found = check_split(steps, scale_up_split(steps, 4), models)
    errors = {}
    for name in models:
        mine = [each for each in found if each.model == name]
        errors[name] = step_errors(
            measured_s=np.array([each.step.step_s for each in mine]),
            predicted_s=np.array([each.predicted_s for each in mine]),
            alone_s=np.array([each.alone_s for each in mine]),
        )
    assert errors["links"].rows == errors["none"].rows > 1000
    assert errors["links"].mape_frac < 0.5 * errors["none"].mape_frac
    assert errors["links"].r2_slowdown > 0.5
