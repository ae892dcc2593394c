"""GPU types that a catalogue lacks: who stands in, how fast, what fits, what is said of it."""

import re
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, LayeredCatalogue
from sim.physics.gpu_table import MoreTypes, gpu_table, more_types, plain_name, watts_of
from sim.physics.mix_table import PairTable
from sim.physics.published_profiles import DallyProfiles
from sim.physics.shipped_files import NoInterference, ShippedInterference, ShippedProfiles, covers
from sim.topology.topology import GpuKind, Watts

SHIPPED_TABLE = yaml.safe_load(
    (Path(__file__).parents[2] / "conf" / "gpu_table" / "shipped.yaml").read_text()
)
TABLE = {
    "old": {"memory_gib": 16},
    "fast": {"like": "old", "speed": 2.0, "memory_gib": 24, "also": ["fast-x"]},
    "huge": {"like": "fast", "speed": 3.0, "memory_gib": 32},
    "tiny": {"like": "old", "speed": 0.5, "memory_gib": 8},
    "round": {"like": "trip", "speed": 1.0},
    "trip": {"like": "round", "speed": 1.0},
}


def two_models() -> Catalogue:
    return Catalogue(
        names=("a/1", "b/1"), gpu_types=("old", "other"), sync_bytes=np.zeros(2),
        compute_s=np.array([[1.0, 0.5], [4.0, 2.0]]), gang_ok=np.ones(2, dtype=np.bool_),
        source="measured",
    )  # fmt: skip


def two_pairs() -> PairTable:
    """On `old` b does not fit beside itself; on `other` nothing does."""
    slowdown = np.array([[[1.5, 2.0], [1.2, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])
    feasible = np.array([[[True, True], [True, False]], [[False, False], [False, False]]])
    return PairTable(slowdown, feasible, "measured")


def covered(*types: str, base: Catalogue | None = None, **given: Any) -> MoreTypes:
    """`two_models` and stand-ins from TABLE."""
    told = {"table": gpu_table(TABLE), "kinds": {}, "physics_off": False} | given
    return more_types(base or two_models(), types, **told)


def test_nothing_changes_where_every_type_has_profiles():
    more, base, table = covered("other", "old"), two_models(), two_pairs()
    more = MoreTypes(base, more.stand_ins, more.a100)
    assert more.catalogue() is base
    assert more.pairs(table) is table
    assert more.believed(table, base.gpu_types) is table
    assert more.notes(table) == ()


def test_a_stand_in_is_as_many_times_as_fast_along_the_chain():
    catalogue = covered("fast", "old", "huge").catalogue()
    assert catalogue.gpu_types == ("old", "other", "fast", "huge")
    assert catalogue.compute_s[:, 2].tolist() == [0.5, 2.0]
    assert catalogue.compute_s[:, 3] == pytest.approx([1.0 / 6.0, 4.0 / 6.0])
    assert catalogue.source == "shipped"  # no longer measured alone


@pytest.mark.parametrize(
    ("name", "fits"),
    [("fast", [[True, True], [True, False]]), ("huge", [[True, True], [True, True]]),
     ("tiny", [[False, False], [False, False]])],
)  # fmt: skip
def test_memory_decides_what_fits(name, fits):
    """At 24 GiB what fitted into 16 does; 32 holds any two jobs of 16; 8 may hold no two."""
    pairs = covered(name).pairs(two_pairs())
    assert pairs.slowdown[2].tolist() == two_pairs().slowdown[0].tolist()
    assert pairs.feasible[2].tolist() == fits
    assert pairs.feasible[:2].tolist() == two_pairs().feasible.tolist()
    pairs = covered(name).pairs(NoInterference().pair_table(two_models()))
    assert pairs.feasible.all() and (pairs.slowdown == 1.0).all()  # without co-location


def test_what_is_stated_goes_before_the_table_and_a_belief_follows_the_stand_ins():
    more = covered("old", kinds={"old": GpuKind("x.yaml, line 3", memory_gib=32.0)})
    pairs = more.pairs(two_pairs())
    assert more.catalogue().gpu_types == ("old", "other")
    assert pairs.feasible[0].all() and not pairs.feasible[1].any()
    assert more.notes(pairs) == ("old: its own profile, with 32 GiB; in 32 GiB any two jobs fit",)
    kinds = {"fast": GpuKind("x.yaml, line 3", like="other", speed=4.0, memory_gib=99.0)}
    more = covered("fast", kinds=kinds)
    assert more.catalogue().compute_s[:, 2].tolist() == [0.125, 0.5]
    assert more.notes(two_pairs())[0] == "fast: other's profile x 4 (stated)"
    more = covered("huge", "other")
    told = more.believed(two_pairs(), more.catalogue().gpu_types)
    assert told.slowdown[2].tolist() == two_pairs().slowdown[0].tolist()


def test_notes_say_what_was_assumed():
    assert covered("fast", "tiny", "FAST_X", "Old").notes(two_pairs()) == (
        "fast: old's profile x 2 (assumed)",
        "tiny: old's profile x 0.5 (assumed); no two jobs share its 8 GiB, less than the 16 that "
        "profiles were tried on",
        "FAST_X: old's profile x 2 (assumed)",
        "Old: old's profile x 1 (another name)",
    )


@pytest.mark.parametrize(
    ("types", "kinds", "told"),
    [
        (("fats",), {"fats": GpuKind("x.yaml, line 3: shapes.q.gpu_type")},
         ("x.yaml, line 3: shapes.q.gpu_type", "'fats'", "did you mean 'fast'?",
          "+gpus.fats.like=other +gpus.fats.speed=2", "interference=none network=none")),
        (("round",), {}, ("'round'", "neither profiles nor a stand-in")),
        (("new",), {"new": GpuKind("f, line 1", speed=2.0)}, ("f, line 1", "'new'", "gpu_like")),
        (("new",), {"new": GpuKind("f, line 1", like="nwe")}, ("'new' is like 'nwe'",)),
        (("old",), {"old": GpuKind("f, line 1", speed=2.0)}, ("'old' has profiles of its own",)),
    ],
)  # fmt: skip
def test_what_is_not_known_is_one_message(types, kinds, told):
    with pytest.raises(PhysicsError) as caught:
        covered(*types, kinds=kinds)
    assert [word for word in told if word not in str(caught.value)] == []


def test_without_physics_any_type_runs():
    more = covered("what", "fast", "ever", physics_off=True)
    assert more.catalogue().compute_s[0].tolist() == [1.0, 0.5, 0.5, 0.5, 0.5]
    assert more.notes(NoInterference().pair_table(two_models()))[0] == (
        "what: old's profile x 2 (physics is off)"
    )
    assert covered("alone", physics_off=True).catalogue().compute_s[0].tolist() == [1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("entry", "told"),
    [({"like": "old", "speed": 0}, "gpus.x.speed is 0;"),
     ({"like": "old", "speed": True}, "gpus.x.speed is True;"),
     ({"memory_gib": "80"}, "gpus.x.memory_gib is '80';"),
     ({"speeed": 2}, "did you mean 'speed'?"),
     ({"speed": 2}, "+gpus.x.like=TYPE"),
     ({"like": ["old"]}, "gpus.x.like is ['old']; it must be the name"),
     ({"also": "y"}, "gpus.x.also is 'y'; it must be a list"),
     ({"idle_watts": 0, "busy_watts": 9}, "gpus.x.idle_watts is 0;"),
     ({"busy_watts": 9}, "gpus.x has one of idle_watts, busy_watts; give both or none"),
     (2.0, "gpus.x is 2.0; give it like, speed, memory_gib")],
)  # fmt: skip
def test_a_bad_line_of_the_table(entry, told):
    with pytest.raises(PhysicsError, match=re.escape(told)):
        gpu_table({"x": entry})


def test_other_forms_of_catalogues_keep_theirs_and_names_are_letters_and_digits():
    base = DallyProfiles(gpu_types=["old"])
    catalogue = covered("fast", base=base).catalogue()
    assert isinstance(catalogue, LayeredCatalogue)
    assert catalogue.layers.tolist() == base.layers.tolist()
    assert catalogue.gpu_types == ("old", "fast")
    names = ("NVIDIA-A100-SXM4", "nvidia_a100_sxm4", "Tesla A100 SXM4", "a100sxm4")
    assert {plain_name(name) for name in names} == {"a100sxm4"}  # without the maker
    assert plain_name("nvidia") == "nvidia"


def test_sheets_of_the_shipped_table_give_its_speeds():
    """Geometric mean of the ratios that the source names, to two figures; or its power."""
    values = SHIPPED_TABLE
    checked = 0
    for name, entry in values.items():
        word = str(entry.get("source", "")).partition(":")[0]
        if word in ("sheets", "flattened"):
            ratios = re.findall(r"([\d.]+) / ([\d.]+)", entry["source"])
            assert len(ratios) == 2, name
            mean = sqrt(prod(float(over) / float(under) for over, under in ratios))
            expected = mean**0.37 if word == "flattened" else mean
            assert entry["speed"] == pytest.approx(expected, rel=0.04), name
            checked += 1
    assert checked > 15
    measured = {"t4": (65, 320), "rtx2080ti": (54, 616), "rtx6000": (130, 672)}  # their sheets
    for name, (tflops, gb_s) in measured.items():
        flattened = sqrt(tflops / 312 * gb_s / 1555) ** 0.37
        assert values[name]["speed"] == pytest.approx(flattened, rel=0.06), name


def test_every_type_of_the_shipped_table_runs_on_any_profiles():
    table = gpu_table(SHIPPED_TABLE)
    only_p100 = Catalogue(
        names=("x/1",), gpu_types=("p100",), compute_s=np.ones((1, 1)), sync_bytes=np.zeros(1),
        gang_ok=np.ones(1, dtype=np.bool_), source="lab",
    )  # fmt: skip
    for base in (ShippedProfiles(), only_p100):
        for name in table:
            more = more_types(base, (name,), table=table, kinds={}, physics_off=False)
            speed = base.compute_s[0, 0] / more.catalogue().compute_s[0, -1]
            assert name in base.gpu_types or 0.05 < speed < 50, name
            assert table[name].memory_gib is not None, name


def test_power_goes_by_the_type_and_its_other_names():
    values = SHIPPED_TABLE
    table = gpu_table(values)
    undisclosed = {name for name in values if "undisclosed" in values[name]["source"]}
    told = {name for name in table if table[name].watts is not None}
    assert told == set(table) - {plain_name(name) for name in undisclosed}
    assert all(table[name].watts.idle < table[name].watts.busy for name in told)
    a100, v100, rtx6000 = Watts(55, 400), Watts(40, 300), Watts(15, 260)
    names = {
        "NVIDIA-A100-SXM4-80GB": a100, "v100m16": v100, "V100-32GB": v100,
        "Quadro RTX 6000": rtx6000, "RTX A6000": Watts(25, 300), "a10g": Watts(15, 300),
    }  # fmt: skip
    assert watts_of(table, [*names, "a1000", "rtx 6000 ada", "h1", "p1000"]) == names
    assert watts_of(gpu_table(TABLE), ["fast"]) == {}  # a table of its own need not tell


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("h100_pcie", "h100"), ("NVIDIA H100 NVL", "h100"), ("h100-80gb", "h100"),
        ("a100-sxm4-80gb", "a100"), ("NVIDIA A100 80GB PCIe", "a100"), ("a100_pcie", "a100"),
        ("a100-sxm-64gb", "a100"), ("Tesla V100-SXM3-32GB", "v100"), ("v100_16gb", "v100"),
        ("tesla_p100_pcie_12gb", "p100"), ("a800_sxm4_40gb", "a800"), ("h200_nvl", "h200"),
        ("NVIDIA GH200 480GB", "gh200"), ("h20-96gb", "h20"), ("a10_24gb", "a10"),
        ("rtx_a6000_48gb", "a6000"), ("6000", "rtx6000"), ("Tesla M40 24GB", "m40"),
        ("l4-24gb", "l4"), ("t4_16gb", "t4"), ("mi300x_192gb", "mi300x"),
    ],
)  # fmt: skip
def test_power_goes_by_the_name_without_form_and_memory(name, like):
    table = gpu_table(SHIPPED_TABLE)
    assert watts_of(table, [name]) == {name: table[like].watts}
    own = gpu_table({"mine": {"idle_watts": 1, "busy_watts": 2}, "mine_pcie": {"memory_gib": 9},
                     "mine_80gb": {"idle_watts": 3, "busy_watts": 4}})  # fmt: skip
    found = watts_of(own, ["mine_pcie", "mine_80gb", "mine_80gb_pcie", "mines"])
    assert [found.pop(each).busy for each in tuple(found)] == [2, 4, 4]


def test_a100_has_its_own_neighbours():
    table = gpu_table(SHIPPED_TABLE)
    base, shipped = ShippedProfiles(), ShippedInterference().pair_table(ShippedProfiles())
    assert covers(base) and not covers(two_models())
    more = more_types(base, ("h100", "t4"), table=table, kinds={}, physics_off=False)
    catalogue, pairs = more.catalogue(), more.pairs(shipped)
    assert catalogue.gpu_types == ("k80", "p100", "v100", "a100", "h100", "t4")
    v100, a100, h100 = (catalogue.compute_s[:, at] for at in (2, 3, 4))
    assert h100 == pytest.approx(a100 / 1.9)
    assert a100 == pytest.approx(v100 / 2.1)
    assert pairs.slowdown[4].tolist() == pairs.slowdown[3].tolist()
    assert pairs.slowdown[:3].tolist() == shipped.slowdown.tolist()
    assert 1.1 < np.median(pairs.slowdown[3]) < np.median(shipped.slowdown[2])
    assert pairs.feasible[3:5].all()  # 40 and 80 GiB hold any two that ran in 16
    assert pairs.feasible[5].tolist() == shipped.feasible[2].tolist()  # 16 GiB, as the V100
    told = more.notes(pairs)
    assert told[0] == "h100: a100's profile x 1.9 (assumed); in 80 GiB any two jobs fit"
    assert [note.partition(":")[0] for note in told] == ["h100", "t4", "a100", "a100"]


def test_jobs_find_their_type_under_any_name_that_the_table_knows():
    """Slurm calls an H100 nvidia_h100_80gb_hbm3; A takes both of one kind, B the other."""
    import gpuyard

    jobs = pd.DataFrame({
        "job_id": ["a", "b"], "submit_s": 0, "num_gpus": 1, "duration_s": 60,
        "gpu_types": ["nvidia_h100_80gb_hbm3", "NVIDIA-A100-SXM4-40GB"],
    })  # fmt: skip
    for names in (["a100", "h100"], ["h100_sxm5", "a100_pcie_40gb"]):
        run = gpuyard.simulate(jobs, "small_leaf_spine", overrides=[f"topology.gpu_types={names}"])
        assert [name[:4] for name in run.jobs["ran_on"]] == ["h100", "a100"]
