"""Building objects from plain configuration: what reaches the target, and what is refused."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
from dataclasses import dataclass
from functools import partial
import gpuyard.launch.build as b
from gpuyard.launch.errors import ConfigError

def refused(call):
    try:
        call()
    except ConfigError as error:
        return str(error)
    raise AssertionError("nothing was refused")

SERVERS = {"_target_": "sim.topology.topology.contiguous_partitions", "count": 2}
TOPOLOGY = {"_target_": "sim.topology.generators.leaf_spine", "name": "t", "servers": 2,
            "gpus_per_server": 4, "servers_per_rack": 1, "gpu_types": ["p100"],
            "intra_gbps": 80, "nic_gbps": 10, "oversubscription": 2}
"""


def run(body: str) -> None:
    """Run a piece of code in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + body],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_objects_reach_the_target_as_they_are():
    run("""
topology = b.build({"topology": TOPOLOGY}, "topology")
assert type(topology).__name__ == "Topology" and type(topology.gpu_types) is tuple
split = b.build({"a": {"b": SERVERS}}, "a.b", topology=topology)
assert split.tolist() == [0, 1]
""")


def test_containers_are_plain():
    run("""
made = b.build({"x": {"_target_": "builtins.dict", "inner": {"deep": [1]}}}, "x")
assert type(made["inner"]) is dict and type(made["inner"]["deep"]) is list
""")


def test_a_partial_stays_one():
    run("""
made = b.build({"x": {**SERVERS, "_partial_": True}}, "x")
assert isinstance(made, partial) and made.keywords == {"count": 2}
""")


def test_missing_unknown_and_absent_are_told_apart():
    run("""
config = {"topology": TOPOLOGY, "agents": {"count": 1}, "split": SERVERS}
assert "split: sim.topology.topology.contiguous_partitions needs topology" in refused(
    lambda: b.build(config, "split"))
assert "topology.rate: " in refused(lambda: b.build(config, "topology", rate=1))
assert "did you mean topology.servers?" in refused(lambda: b.build(config, "topology", serverz=1))
assert "has no 'topolgy'; it has 'topology'" in refused(lambda: b.build(config, "topolgy"))
assert "has no _target_" in refused(lambda: b.build(config, "agents"))
assert "no.such" in refused(lambda: b.build({"x": {"_target_": "no.such"}}, "x"))
""")


def test_the_default_of_a_parameter_may_be_said_whatever_its_hint():
    """Classes of users' own write `part: Part = None`."""
    run("""
class Part: ...
class Own:
    def __init__(self, part: Part = None, *, other: Part):
        self.part = part
own = {"_target_": "__main__.Own", "other": {"_target_": "__main__.Part"}}
assert b.build({"x": own | {"part": None}}, "x").part is None
assert "x.part is 3; it must be a" in refused(lambda: b.build({"x": own | {"part": 3}}, "x"))
assert "x.other is None; it must" in refused(lambda: b.build({"x": own | {"other": None}}, "x"))
""")
