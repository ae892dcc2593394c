"""Where outages come from: seeded failures, rolling maintenance, files, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from sim.errors import SimulationError
from sim.times import DAY_S
from sim.topology.outages import Change, OutageFile, Outages, RollingMaintenance, ServerFailures
from tests.sim.worlds import cluster


def failures(**given: object) -> ServerFailures:
    plain = {
        "mtbf_s": 10 * DAY_S, "shape": 1.0, "repair_median_s": 3600.0, "repair_sigma": 0.5,
        "rack_mtbf_s": None, "horizon_s": 1000 * DAY_S,
    }  # fmt: skip
    return ServerFailures(**{**plain, **given})


def stays(outages: Outages, server: int) -> tuple[np.ndarray, np.ndarray]:
    """Up and down times of one server whose absences do not overlap."""
    mine = outages.server == server
    at_s, change = outages.at_s[mine], outages.change[mine]
    assert change.tolist() == [Change.FAIL, Change.OPEN] * (len(at_s) // 2)
    down_s = at_s[1::2] - at_s[::2]
    up_s = at_s[::2] - np.concatenate([[0.0], at_s[1:-1:2]])
    return up_s, down_s


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0])
def test_times_between_failures_and_repairs_have_the_law_they_are_said_to_have(shape: float):
    topology = cluster(20, 1)
    outages = failures(shape=shape).outages(topology, 3)
    up_s, down_s = (
        np.concatenate(column)
        for column in zip(*(stays(outages, server) for server in range(20)), strict=True)
    )
    assert len(up_s) > 1500
    # Means within four standard errors; the median of the repairs, too.
    error_s = up_s.std() / np.sqrt(len(up_s))
    assert abs(up_s.mean() - 10 * DAY_S) < 4 * error_s
    assert abs(np.log(down_s).mean() - np.log(3600.0)) < 4 * 0.5 / np.sqrt(len(down_s))
    assert np.log(down_s).std() == pytest.approx(0.5, rel=0.1)
    # A Weibull's squared coefficient of variation: below 1 for aging, above it for clusters.
    spread = up_s.std() / up_s.mean()
    assert (spread > 1.1, spread < 0.9) == (shape < 1, shape > 1)


def test_equal_seeds_are_equal_and_a_larger_cluster_keeps_the_failures_of_a_smaller():
    small, large = (failures().outages(cluster(servers, 1), 5) for servers in (4, 9))
    again, other = (failures().outages(cluster(4, 1), seed) for seed in (5, 6))
    assert small.at_s.tobytes() == again.at_s.tobytes()
    assert small.at_s.tobytes() != other.at_s.tobytes()
    kept = large.server < 4
    assert large.at_s[kept].tolist() == small.at_s.tolist()


def test_a_rack_fails_as_a_whole_and_nothing_fails_beyond_the_horizon():
    topology = cluster(6, 1, servers_per_rack=3)
    outages = failures(mtbf_s=1e12, rack_mtbf_s=DAY_S, horizon_s=20 * DAY_S).outages(topology, 0)
    fails = outages.change == Change.FAIL
    for time_s in np.unique(outages.at_s):
        servers = sorted(outages.server[outages.at_s == time_s].tolist())
        assert servers in ([0, 1, 2], [3, 4, 5])
    assert outages.at_s[fails].max() < 20 * DAY_S
    assert np.count_nonzero(fails) == np.count_nonzero(~fails)


def test_maintenance_rolls_over_the_servers_two_at_a_time():
    rolling = RollingMaintenance(
        first_s=100.0, every_s=1000.0, duration_s=50.0, servers_at_once=2, horizon_s=1200.0
    )
    outages = rolling.outages(cluster(3, 1), 0)
    # Servers 0 and 1 from 100 to 150, server 2 from 150 to 200; again 1,000 s later.
    assert list(zip(outages.at_s.tolist(), outages.server.tolist(), outages.change.tolist(),
                    strict=True)) == [
        (100, 0, Change.CLOSE), (100, 1, Change.CLOSE), (150, 0, Change.OPEN),
        (150, 1, Change.OPEN), (150, 2, Change.CLOSE), (200, 2, Change.OPEN),
        (1100, 0, Change.CLOSE), (1100, 1, Change.CLOSE), (1150, 0, Change.OPEN),
        (1150, 1, Change.OPEN), (1150, 2, Change.CLOSE), (1200, 2, Change.OPEN),
    ]  # fmt: skip
    with pytest.raises(SimulationError, match="longer than every_s"):
        rolling.outages(cluster(64, 1), 0)


def test_a_file_lists_changes_in_any_order_and_adds_servers(tmp_path: Path):
    path = tmp_path / "changes.csv"
    path.write_text("change,server,time_s\nopen,1,9\nfail,1,5\nadd,0,7\n\nremove,2,8\n")
    outages = OutageFile(path=str(path)).outages(cluster(3, 1), 0)
    assert outages.at_s.tolist() == [0, 5, 7, 8, 9]
    assert outages.server.tolist() == [0, 1, 0, 2, 1]
    assert outages.change.tolist() == [1, 0, 2, 1, 2]
    path.write_text("change,server,time_s\nadd,0,7\nremove,0,5\n")  # it was there before
    again = OutageFile(path=str(path)).outages(cluster(3, 1), 0)
    assert again.at_s.tolist() == [5, 7]


BAD_FILES = {
    "time_s,server\n": r":1: no column change",
    "": r":1: no column time_s, server, change",
    "time_s,server,change\n1,0,fail\nx,0,fail\n": r":3: time_s is 'x'; expected 0 or more",
    "time_s,server,change\nnan,0,fail\n": r":2: time_s is 'nan'",
    "time_s,server,change\n-1,0,fail\n": r":2: time_s is '-1'",
    "time_s,server,change\n1e999,0,fail\n": r":2: time_s is '1e999'",
    "time_s,server,change\n1,7,fail\n": r":2: server is '7'",
    "time_s,server,change\n1,0,explode\n": r":2: change is 'explode'; expected one of fail",
    "time_s,server,change\n1,0\n": r":2: change is ''; the row is too short",
    "time_s,server,change\n5,0,open\n7,0,fail\n": r":2: change is 'open'; the server is up",
    "time_s,server,change\n5,0,add\n7,0,add\n": r":3: change is 'add'; the server is up",
    'time_s,server,change\n1,"0,fail\n': r"line 2: the row cannot be split into fields",
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_bad_file_is_refused_by_line_and_column(text: str, tmp_path: Path):
    path = tmp_path / "changes.csv"
    path.write_text(text)
    with pytest.raises(SimulationError, match=BAD_FILES[text]) as error:
        OutageFile(path=str(path)).outages(cluster(3, 1), 0)
    assert str(path) in str(error.value)


def test_no_file_and_no_text(tmp_path: Path):
    with pytest.raises(SimulationError, match=r"none\.csv.*set outages\.path"):
        OutageFile(path=str(tmp_path / "none.csv")).outages(cluster(1, 1), 0)
    path = tmp_path / "latin.csv"
    path.write_bytes(b"time_s,server,change\n1,caf\xe9,fail\n")
    with pytest.raises(SimulationError, match="not UTF-8"):
        OutageFile(path=str(path)).outages(cluster(1, 1), 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(2.0, 0, 0), (1.0, 0, 2)], r"row 1 .*times must ascend"),
        ([(-1.0, 0, 0)], r"row 0 .*0 or more seconds"),
        ([(np.inf, 0, 0)], r"row 0 .*0 or more seconds"),
        ([(1.0, 0, 3)], r"row 0 .*no such change"),
        ([(1.0, 0, 0), (2.0, 1, 2)], r"row 1 \(t=2\.0 s, server 1, change 2\): the server is up"),
        ([(1.0, 0, 0), (2.0, 0, 2), (3.0, 0, 2)], r"row 2 .*the server is up"),
    ],
)
def test_changes_that_make_no_sense_are_refused(rows: list, message: str):
    at_s, server, change = np.array(rows).T
    with pytest.raises(SimulationError, match=message):
        Outages(at_s, server.astype(np.int64), change.astype(np.int64))


@pytest.mark.parametrize(
    ("key", "value"),
    [("mtbf_s", 0.0), ("shape", -1.0), ("shape", 0.005), ("repair_median_s", np.inf),
     ("repair_sigma", -0.1), ("rack_mtbf_s", 0.0), ("horizon_s", np.nan)],
)  # fmt: skip
def test_impossible_numbers_are_refused_by_key(key: str, value: float):
    with pytest.raises(SimulationError, match=rf"outages\.{key} is "):
        failures(**{key: value})


def test_failures_beyond_all_measure_are_refused():
    with pytest.raises(SimulationError, match=r"outages\.mtbf_s 1e-05 .* above 10000000"):
        failures(mtbf_s=1e-5).outages(cluster(1, 1), 0)
    with pytest.raises(SimulationError, match=r"outages\.rack_mtbf_s 1e-05 .* above 10000000"):
        failures(rack_mtbf_s=1e-5).outages(cluster(1, 1), 0)
    often = RollingMaintenance(
        first_s=0.0, every_s=1e-3, duration_s=1e-9, servers_at_once=1, horizon_s=1e8
    )
    with pytest.raises(SimulationError, match=r"outages\.every_s 0\.001 .* above 10000000"):
        often.outages(cluster(1, 1), 0)
