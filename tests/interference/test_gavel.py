"""Readers of measured files, on files written here; real data where it is at hand."""

from pathlib import Path

import numpy as np
import pytest

from interference.gavel import MeasuredInterference, MeasuredProfiles, fit_sync_bytes, spread_ratio
from sim.errors import PhysicsError
from sim.physics.mix_table import fit_additive, probably_infeasible
from sim.physics.shipped_files import NoInterference, ShippedProfiles

TYPES = ("k80", "p100", "v100")
PAIRS, ALONE = "colocation/gavel_pairs.csv", "throughput/gavel_isolated.csv"
PAIR_HEADER = (
    "gpu_type,model_a,batch_a,model_b,batch_b,iso_a,iso_b,coloc_a,coloc_b,feasible,norm_a,norm_b"
)
SOLO_HEADER = "gpu_type,consolidated,model,batch_size,num_gpus,steps_per_s,steps_per_s_physical"


def write_data(folder: Path) -> Path:
    """Net/8, Net/16 and Recommendation/4; Net/8 beside Recommendation was never tried."""
    pairs, solo = [PAIR_HEADER], [SOLO_HEADER]
    for gpu_type in TYPES:
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
    ratio = spread_ratio(catalogue.compute_s, catalogue.sync_bytes[:, None])
    mean = ratio[catalogue.gang_ok].mean(axis=0)
    assert mean[1] == pytest.approx(0.69, abs=0.05)
    assert mean[2] == pytest.approx(0.54, abs=0.10)


def test_known_bytes_are_recovered_within_the_grid():
    compute_s = np.array([[0.05, 0.02], [0.2, 0.1]])
    truth = np.array([3e7, 1e8])
    ratio = spread_ratio(compute_s, truth[:, None])
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
    ratio = spread_ratio(np.array(0.1), np.array(1.25e8))
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
