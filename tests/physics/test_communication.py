"""The law of communication says the same of one placement, compiled, and of many at once."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from interference.make_shipped import MeasuredStep, read_sia
from sim.errors import PhysicsError
from sim.physics.laws import NetworkTables, Spread, busy_s, columns_s, comm_of, quiet_s

RNG = np.random.default_rng(3)
BEYOND = 9  # any table's end


TABLES = NetworkTables(
    RNG.random((4, 5)), RNG.random((4, 7)), RNG.random((4, 3)),
    np.array([1.0, 1.0, 1.7]), np.array([1.0, 1.0, 2.3, 2.9]),
)  # fmt: skip


def by_hand(p: int, spread: Spread) -> float:
    most, servers, racks, nic, uplink = (
        min(count, table.shape[-1] - 1)
        for count, table in zip(spread, TABLES.members().values(), strict=True)
    )
    between_s = TABLES.server_s[p, servers] * TABLES.nic_factor[nic]
    rack_s = TABLES.rack_s[p, racks] * TABLES.uplink_factor[uplink]
    return float(TABLES.local_s[p, most] + between_s + rack_s)


@pytest.mark.parametrize("counts", [*product((1, 4, BEYOND), (1, 6, BEYOND), (1, 2, BEYOND))])
def test_one_law(counts):
    for nic, uplink in product((1, 2, BEYOND), repeat=2):
        spread = Spread(*counts, nic, uplink)
        assert busy_s(comm_of(TABLES, 2, spread)) == by_hand(2, spread)
    alone = comm_of(TABLES, 2, Spread(*counts))
    assert quiet_s(alone) == alone.local_s + alone.server_s + alone.rack_s == busy_s(alone)


def test_many_at_once():
    most, servers, racks = np.array([1, 4, BEYOND]), np.array([1, 3, BEYOND]), np.array([1, 1, 2])
    all_s = columns_s(TABLES, slice(None), most, servers, racks)
    assert all_s.shape == (4, 3)
    spreads = [Spread(*each) for each in zip(most, servers, racks, strict=True)]
    assert all_s.tolist() == [[by_hand(p, each) for each in spreads] for p in range(4)]
    own = np.array([3, 0, 2])
    assert columns_s(TABLES, own, most, servers, racks).tolist() == [
        all_s[p, k] for k, p in enumerate(own)
    ]


def write_sia(folder: Path, rows: str) -> None:
    (folder / "throughput").mkdir(exist_ok=True)
    text = "app,gpu_type,placement,local_bsz,step_time,sync_time\n" + rows
    (folder / "throughput" / "sia_placements.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_sia_rows(tmp_path):
    with pytest.raises(PhysicsError, match="give the folder that holds throughput"):
        read_sia(tmp_path)
    write_sia(tmp_path, "net,t4,12,8,0.5,0.1\ngpt_pmp,t4,8,2,0.2,0.3\nnet,t4,1,4,0.25,0.01\n")
    assert read_sia(tmp_path) == [
        MeasuredStep("net", "t4", (1, 2), 8, 0.5),
        MeasuredStep("net", "t4", (1,), 4, 0.25),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("net,t4,,8,0.5,0.1", "placement is ''"),
        ("net,t4,20,8,0.5,0.1", "placement is '20'"),
        ("net,t4,2x2,8,0.5,0.1", "placement is '2x2'"),
        ("net,t4,2,8,-1,0.1", "step_time is '-1'"),
        ("net,t4,2,8,nan,0.1", "step_time is 'nan'"),
        ("net,t4,2", "the row has 3 fields"),
    ],
)
def test_bad_sia_rows_name_line_and_value(tmp_path, row, message):
    write_sia(tmp_path, f"net,t4,1,8,0.5,0.1\n{row}\n")
    with pytest.raises(PhysicsError, match=f"gz:3: {message}"):
        read_sia(tmp_path)
