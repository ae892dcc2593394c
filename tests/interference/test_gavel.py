"""Gavel's measured files: readers, fitted bytes and pairs, and the shipped files made of them."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from interference import make_shipped
from interference.measured import MeasuredInterference, MeasuredProfiles, fit_sync_bytes, read_pairs
from interference.measured import spread_ratio as ratio_of
from interference.readers.miso import DUMMY
from sim.errors import PhysicsError
from sim.physics.gpu_table import gpu_table, more_types
from sim.physics.mix_table import fit_additive, probably_infeasible
from sim.physics.shipped_files import (
    SHIPPED_DIR,
    NoInterference,
    ShippedProfiles,
    profile_key,
    shipped_rows,
)

TYPES = ("k80", "p100", "v100")
PAIRS, ALONE = "colocation/gavel_pairs.csv", "throughput/gavel_isolated.csv"
PAIR_HEADER = (
    "gpu_type,model_a,batch_a,model_b,batch_b,iso_a,iso_b,coloc_a,coloc_b,feasible,norm_a,norm_b"
)
SOLO_HEADER = "gpu_type,consolidated,model,batch_size,num_gpus,steps_per_s,steps_per_s_physical"


def write_data(folder: Path, types: tuple[str, ...] = TYPES) -> Path:
    """Net/8, Net/16 and Recommendation/4; Net/8 beside Recommendation was never tried."""
    pairs, solo = [PAIR_HEADER], [SOLO_HEADER]
    for gpu_type in types:
        pairs += [
            f"{gpu_type},Net,16,Net,8,5,10,2.5,8,1,0.5,0.8",
            f"{gpu_type},Net,8,Net,8,10,10,6,6,1,0.6,0.6",
            f"{gpu_type},Net,16,Recommendation,4,5,20,0,0,0,,",
            f"{gpu_type},Recommendation,4,Recommendation,4,20,20,24,24,1,1.2,1.2",
        ]
        for model, batch, speed in (("Net", 8, 10), ("Net", 16, 5), ("Recommendation", 4, 20)):
            solo.append(f"{gpu_type},1,{model},{batch},1,{speed},0")
        for batch, speed in ((8, 10), (16, 5)):
            solo += [
                f"{gpu_type},1,Net,{batch},2,{2 * speed},0",
                f"{gpu_type},0,Net,{batch},2,{1.2 * speed},0",
            ]
    for name, lines in ((PAIRS, pairs), (ALONE, solo)):
        path = folder / name
        path.parent.mkdir()
        path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (PAIRS, "1,0.5,0.8", "1,52.9,0.8", r"norm_speed is 52.9; .*give 0..2 \(column norm_a\)"),
        (PAIRS, "8,1,0.5", "8,yes,0.5", r"pairs\.csv:2: feasible is 'yes'; expected 0 or 1"),
        (PAIRS, "Net,8,5,10", "Net,x,5,10", r"pairs\.csv:2: batch_b is 'x'; expected a number"),
        (PAIRS, "norm_b\n", "norm_b\nk80,Net,8,Net,16,10,5,8,2.5,1,0.9,0.9\n",
         r"pairs\.csv: Net/8 beside Net/16 on k80 stands in 2"),
        (ALONE, "Net,16,1,5", "Net,16,1,fast", r"isolated.csv:3: steps_per_s is 'fast'"),
        (ALONE, "p100,1,Net,16,1,5,0\n", "", "'Net/16'; it has no solo profile of gavel on p100"),
    ],
)  # fmt: skip
def test_faults_are_named(tmp_path, file, old, new, told):
    path = write_data(tmp_path) / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(PhysicsError, match=told):
        MeasuredInterference(data_dir=tmp_path).pair_table(MeasuredProfiles(data_dir=tmp_path))


def test_profiles_from_files(tmp_path):
    catalogue = MeasuredProfiles(data_dir=write_data(tmp_path))
    assert catalogue.names == ("Net/8", "Net/16", "Recommendation/4")  # batches as numbers
    assert catalogue.gpu_types == TYPES
    assert catalogue.source == "measured"
    np.testing.assert_allclose(catalogue.compute_s, np.array([[0.1], [0.2], [0.05]]) * np.ones(3))
    assert list(catalogue.gang_ok) == [True, True, False]
    # Net/16 takes twice as long and has the same ratio, so it must send twice as much.
    assert catalogue.sync_bytes[1] == pytest.approx(2 * catalogue.sync_bytes[0], rel=0.01)


def test_measurements_of_another_gpu_type_are_read_too(tmp_path):
    catalogue = MeasuredProfiles(data_dir=write_data(tmp_path, ("p100", "t4")))
    assert catalogue.gpu_types == ("p100", "t4") and np.isfinite(catalogue.sync_bytes).all()
    assert MeasuredInterference(data_dir=tmp_path).pair_table(catalogue).slowdown.shape == (2, 3, 3)


def test_speeds_of_single_gpus_alone_do_not_say_what_is_communicated(tmp_path):
    path = write_data(tmp_path) / ALONE
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if line.split(",")[4] in ("num_gpus", "1")))
    with pytest.raises(PhysicsError, match=r"isolated\.csv: no profile has speeds of 2, 4 or 8"):
        MeasuredProfiles(data_dir=tmp_path)


def test_pairs_fill_both_directions_and_mask_what_failed(tmp_path):
    data_dir = write_data(tmp_path)
    table = MeasuredInterference(data_dir=data_dir).pair_table(MeasuredProfiles(data_dir=data_dir))
    assert table.source == "measured"
    for slowdown, feasible in zip(table.slowdown, table.feasible, strict=True):
        assert slowdown[1, 0] == pytest.approx(1 / 0.5)  # victim Net/16
        assert slowdown[0, 1] == pytest.approx(1 / 0.8)  # victim Net/8
        assert slowdown[2, 2] == 1.0  # faster together is no slow-down below 1
        assert not feasible[1, 2]
        assert not feasible[2, 1]
        assert feasible[0, 2]  # never tried, filled by the fit
        assert feasible.sum() == 7


def test_catalogue_order_does_not_matter_and_an_unknown_profile_is_named(tmp_path):
    with pytest.raises(PhysicsError, match=r"gavel_pairs.csv: no such file; set data_dir"):
        MeasuredInterference(data_dir=tmp_path)
    data_dir = write_data(tmp_path)
    catalogue = MeasuredProfiles(data_dir=data_dir)
    model = MeasuredInterference(data_dir=data_dir)
    straight = model.pair_table(catalogue)
    object.__setattr__(catalogue, "names", catalogue.names[::-1])
    turned = model.pair_table(catalogue)
    np.testing.assert_allclose(turned.slowdown, straight.slowdown[:, ::-1, ::-1])
    object.__setattr__(catalogue, "names", ("Net/8", "Net/9", "Recommendation/4"))
    with pytest.raises(PhysicsError, match=r"'Net/9' has no measured pair"):
        model.pair_table(catalogue)


def test_real_tables_have_the_published_shape(real_data):
    catalogue = MeasuredProfiles(data_dir=real_data)
    table = MeasuredInterference(data_dir=real_data).pair_table(catalogue)
    assert len(catalogue.names) == 24
    assert list(catalogue.gang_ok).count(False) == 5
    medians = [np.median(s[f]) for s, f in zip(table.slowdown, table.feasible, strict=True)]
    np.testing.assert_allclose(medians, [1.86, 1.66, 1.48], atol=0.06)  # data notes, section 2
    ratio = ratio_of(catalogue.compute_s, catalogue.sync_bytes[:, None])
    mean = ratio[catalogue.gang_ok].mean(axis=0)
    assert mean[1] == pytest.approx(0.69, abs=0.05)
    assert mean[2] == pytest.approx(0.54, abs=0.10)


def test_known_bytes_are_recovered_within_the_grid():
    compute_s = np.array([[0.05, 0.02], [0.2, 0.1]])
    truth = np.array([3e7, 1e8])
    ratio = ratio_of(compute_s, truth[:, None])
    fitted = fit_sync_bytes(compute_s=compute_s, ratio=ratio, weight=np.array([1.0, 1.0]))
    np.testing.assert_allclose(fitted, truth, rtol=0.003)
    # No cost is no bytes, and what was not measured is the median.
    ratio = np.array([[1.1], [0.5], [0.6], [np.nan]])
    fitted = fit_sync_bytes(compute_s=np.full((4, 1), 0.1), ratio=ratio, weight=np.array([1.0]))
    assert fitted[0] == 0.0
    assert fitted[1] > fitted[2] == fitted[3] > 0.0
    # A type of weight 0 is ignored.
    one, other = (
        fit_sync_bytes(compute_s=np.full((1, 2), 0.1), ratio=np.array([[0.6, ignored]]),
                       weight=np.array([1.0, 0.0]))
        for ignored in (0.3, 0.9)
    )  # fmt: skip
    assert one == other


def test_two_servers_by_hand():
    # 125 MB: 0.1 s between servers at 10 Gb/s, 0.01 s inside at 100 Gb/s, for gangs of 2, x 1;
    # x 3/2 for 4 and x 7/4 for 8.
    ratios = [(0.1 + 0.01 * k) / (0.1 + 0.1 * k) for k in (1.0, 1.5, 1.75)]
    ratio = ratio_of(np.array(0.1), np.array(1.25e8))
    np.testing.assert_allclose(ratio, np.prod(ratios) ** (1 / 3))


def test_exact_terms_are_recovered_and_unseen_cells_filled():
    victim_term, aggressor_term = np.array([0.1, -0.3, 0.2]), np.array([-0.2, 0.0, 0.1])
    truth = -0.5 + victim_term[:, None] + aggressor_term[None, :]
    victim, aggressor = np.nonzero(~np.eye(3, dtype=bool))  # the diagonal was never measured
    norm = np.exp(truth[victim, aggressor])
    fit = fit_additive(victim=victim, aggressor=aggressor, norm=norm, profiles=3)
    np.testing.assert_allclose(fit.log_norm(), truth, atol=1e-9)
    assert fit.residual_sd < 1e-9
    one, other, half = np.array([0, 1]), np.array([1, 0]), np.array([0.5, 0.5])
    fit = fit_additive(victim=one, aggressor=other, norm=half, profiles=3)
    np.testing.assert_allclose(np.exp(fit.log_norm()[2]), 0.5)  # never seen: average


def test_memory_rule_blames_the_profile_that_mostly_fails():
    tried = np.ones((4, 4), np.bool_)
    failed = np.zeros((4, 4), np.bool_)
    failed[3, :] = failed[:, 3] = True  # profile 3 fails with all, so each other fails 1 of 4
    infeasible = probably_infeasible(tried, failed)
    assert infeasible[3].all()
    assert infeasible[:, 3].all()
    assert not infeasible[:3, :3].any()


def test_no_interference_is_one_everywhere():
    table = NoInterference().pair_table(ShippedProfiles())
    assert table.source == "none"
    assert np.all(table.slowdown == 1.0)
    assert table.feasible.all()


# Of a column's largest number. Least squares differ between processors by about 1e-16 of it; the
# last digit of a number that is written is 1e-8 of it or more.
ROUNDING = 1e-12

HEADER = "model,batches,sync_base_bytes,sync_bytes_per_doubling,gang_ok\n"
LM = "LM,5 10,-1.98e+07,1.18e+07,1\n"
RECOMMENDATION = "Recommendation,512 1024,3.55e+07,6.2e-10,0\n"


def columns(path: Path) -> dict[str, list[str]]:
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("list")


def numbers(texts: list[str]) -> list[float] | None:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return None


def assert_same_table(mine: Path, theirs: Path) -> None:
    """The same columns and words in the same order; numbers are equal up to rounding."""
    table, shipped = columns(mine), columns(theirs)
    assert list(table) == list(shipped)
    for name, texts in shipped.items():
        expected, found = numbers(texts), numbers(table[name])
        if expected is None or found is None:
            assert table[name] == texts, f"{mine.name}: {name}"
            continue
        atol = ROUNDING * max(abs(value) for value in expected)
        told = f"{mine.name}: {name}"
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol, err_msg=told)


def test_regenerating_gives_the_shipped_files(real_data, tmp_path):
    make_shipped.write_profiles(MeasuredProfiles(data_dir=real_data), tmp_path)
    make_shipped.write_pairs(real_data, tmp_path)
    make_shipped.write_a100(real_data, tmp_path)
    names = [path.name for path in sorted(SHIPPED_DIR.glob("*.csv"))]
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert_same_table(tmp_path / name, SHIPPED_DIR / name)


@pytest.mark.parametrize(
    "wrong",
    [
        HEADER + LM.replace("1.18e+07", "1.19e+07") + RECOMMENDATION,
        HEADER + LM + RECOMMENDATION.replace("6.2e-10", "6.2e+01"),
        HEADER + LM + RECOMMENDATION.replace(",0", ",1"),
        HEADER + LM.replace("5 10", "5 20") + RECOMMENDATION,
        HEADER + RECOMMENDATION + LM,
        HEADER + LM,
        "\n".join(line.rpartition(",")[0] for line in (HEADER + LM + RECOMMENDATION).splitlines()),
        (HEADER + LM + RECOMMENDATION).replace("batches", "batch"),
    ],
    ids=["coefficient", "of_nothing", "flag", "word", "order", "row", "column", "header"],
)
def test_a_wrong_table_is_noticed(tmp_path, wrong):
    mine, theirs = tmp_path / "mine.csv", tmp_path / "theirs.csv"
    theirs.write_text(HEADER + LM + RECOMMENDATION)
    mine.write_text(HEADER + LM + RECOMMENDATION.replace("6.2e-10", "-1.22e-09"))
    assert_same_table(mine, theirs)  # of another processor
    mine.write_text(wrong)
    with pytest.raises(AssertionError):
        assert_same_table(mine, theirs)


def test_every_last_digit_of_the_shipped_numbers_counts():
    """The smallest change of a number that can be written is more than rounding."""
    for path in SHIPPED_DIR.glob("*.csv"):
        for name, texts in columns(path).items():
            values = numbers(texts)
            if values is None:
                continue
            steps = [10.0 ** Decimal(text).as_tuple().exponent for text in texts]
            noise = ROUNDING * max(abs(value) for value in values)
            told = [t for t, step in zip(texts, steps, strict=True) if step <= 10.0 * noise]
            assert told == (["6.2e-10"] if name == "sync_bytes_per_doubling" else []), path.name


def test_shipped_pairs_are_not_the_measured_ones(real_data):
    measured = {}
    rows = read_pairs(real_data)
    sides = rows.gpu_type, rows.victim, rows.aggressors, rows.norm_speed, rows.feasible
    for gpu_type, victim, (aggressor,), norm_speed, feasible in zip(*sides, strict=True):
        if feasible:
            measured[gpu_type, victim, aggressor] = norm_speed
    errors = [
        abs(float(row["norm_speed"]) - measured[key])
        for row in shipped_rows("pairs.csv")
        if (key := (row["gpu_type"], row["victim"], row["aggressor"])) in measured
    ]
    assert len(errors) > 500
    assert np.mean(errors) > 0.05


def test_large_batches_of_the_worst_model_do_not_fit_first():
    names = ("A/8", "A/16", "B/8", "B/16")
    infeasible = make_shipped.infeasible_by_model(names, {"A": 0.1, "B": 0.3}, 0.3)  # 3 of 10 pairs
    assert np.argwhere(np.triu(infeasible)).tolist() == [[1, 3], [2, 3], [3, 3]]
    np.testing.assert_array_equal(infeasible, infeasible.T)


TABLE = Path(__file__).parents[2] / "conf" / "gpu_table" / "shipped.yaml"


def test_made_mixes_give_their_coefficients_back():
    """Three models and the dummy in mixes of seven; ratio = alone (1 + sensitivity x loads)."""
    rng = np.random.default_rng(0)
    profiles = ("a/1", "b/1", "c/1", DUMMY)
    alone, sensitivity = np.array([0.5, 0.3, 0.8, 0.0]), np.array([0.4, 0.2, 0.7, 0.0])
    load = np.array([0.5, 1.0, 1.5, 0.0])
    jobs = rng.integers(0, 4, (300, 7))
    count = np.array([np.bincount(mix, minlength=4) for mix in jobs], dtype=float)
    victim, beside = jobs.ravel(), np.repeat(count, 7, axis=0)
    beside[np.arange(len(victim)), victim] -= 1.0
    real = victim != 3
    ratio = alone[victim] * (1.0 + sensitivity[victim] * (beside @ load))
    mixes = make_shipped.Mixes(
        profiles, victim[real], beside[real], ratio[real], np.repeat(np.arange(300), 7)[real]
    )
    fit = make_shipped.fit_mixes(mixes, np.ones(len(mixes.ratio), dtype=np.bool_))
    assert fit.alone == pytest.approx(alone, abs=1e-3)
    assert fit.sensitivity == pytest.approx(sensitivity, abs=1e-3)
    assert fit.load == pytest.approx(load, abs=1e-3)
    assert fit.ratio(mixes) == pytest.approx(mixes.ratio, rel=1e-3)


def test_the_shipped_errors_are_told_and_small():
    errors = {row["fit"]: float(row["mean_error"]) for row in shipped_rows("a100_errors.csv")}
    assert errors["mixes"] < 0.1
    assert errors["alone"] < 0.3


@pytest.fixture
def sia_s(real_data):
    """(GPU type, application, batch) -> mean step of one GPU, in seconds."""
    rows = pd.read_csv(real_data / "throughput" / "sia_placements.csv.gz")
    rows = rows[(rows.placement.astype(str) == "1") & (rows.app != "gpt_pmp")]  # that is computed
    kind = rows.gpu_type.replace({"dgx": "a100", "dgx-ext": "a100"})
    return rows.groupby([kind, "app", "local_bsz"]).step_time.mean()


def test_speeds_by_sia_are_those_of_the_table(sia_s):
    """Geometric mean over applications of the A100's step over the type's, one GPU."""
    table = yaml.safe_load(TABLE.read_text())
    for ours, theirs in (("t4", "aws"), ("rtx2080ti", "rtx"), ("rtx6000", "quad")):
        ln_ratio = np.log(sia_s["a100"] / sia_s[theirs]).dropna()
        mean = np.exp(ln_ratio.groupby("app").mean().mean())
        assert table[ours]["speed"] == pytest.approx(mean, abs=0.006), ours


@pytest.mark.parametrize(("model", "app"), [("ResNet-18", "cifar10"), ("ResNet-50", "imagenet")])
def test_the_a100_of_the_table_is_sias_where_batches_are_large(sia_s, model: str, app: str):
    """At small ones Sia's steps have a floor, of its software, that Gavel's have not."""
    base, table = ShippedProfiles(), gpu_table(yaml.safe_load(TABLE.read_text()))
    catalogue = more_types(base, ("a100",), table=table, kinds={}, physics_off=False).catalogue()
    v100, a100 = (catalogue.compute_s[:, catalogue.gpu_types.index(k)] for k in ("v100", "a100"))
    assert (a100 < v100).all()
    largest = max(b for name in base.names for m, b in [profile_key(name)] if m == model)
    ours_s = a100[base.names.index(f"{model}/{largest}")]
    theirs = sia_s["a100"][app]
    theirs_s = np.interp(largest, theirs.index, theirs)
    assert ours_s == pytest.approx(theirs_s, rel=0.15)
