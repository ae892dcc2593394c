"""Gantt chart and heat map: what is drawn, and of runs of every size."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from sim.files import MINUTES
from sim.report.figure_gpus import MOST_BARS, draw_bars, heatmap
from sim.report.figure_gpus import gantt as draw_gantt
from sim.report.figures import GREY, JOB_COLOURS, new_figure
from sim.report.gpu_use import Tenancy, busy_frac_by_server
from sim.run import Kind


def colours_in(path):
    """Distinct colours of a PNG that some tens of pixels have."""
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = (imread(path)[..., :3] * 255).round().astype(np.int64) @ [1 << 16, 1 << 8, 1]
    counts = np.bincount(pixels.ravel())
    return {f"#{colour:06X}" for colour in np.flatnonzero(counts > 30).tolist()}


def queue_of_short_jobs(hand, count, servers):
    """Jobs one after the other on GPU after GPU, all submitted at 0."""
    gpus = servers * 8
    jobs = [
        hand.Job(0.0, 10.0, ((10.0 * (row // gpus), 10.0 * (row // gpus + 1), [row % gpus]),))
        for row in range(count)
    ]
    return hand.build_run(jobs, servers=servers, gpus_per_server=8, partitions=1)


def test_every_job_of_a_small_run_has_its_colour(hand, tmp_path):
    run = queue_of_short_jobs(hand, 11, 1)
    draw_gantt(run, path=tmp_path / "gantt.png")
    assert set(JOB_COLOURS[:11]) <= colours_in(tmp_path / "gantt.png")
    assert JOB_COLOURS[11] not in colours_in(tmp_path / "gantt.png")


def test_numbers_stand_only_where_they_fit():
    gpus = np.arange(40)
    tenancy = Tenancy(
        job=np.where(gpus < 10, 7, gpus), row=gpus, start_s=np.zeros(40), end_s=np.full(40, 60.0),
        place=np.zeros(40, dtype=np.int64), tenants=np.ones(40, dtype=np.int64),
    )  # fmt: skip
    for height_in, numbers in ((0.2, set()), (1.5, {"7"}), (8.0, {"7", *map(str, range(10, 40))})):
        axes = new_figure(4.0, height_in).subplots()
        axes.set_ylim(40, 0)
        draw_bars(axes, tenancy, (0.0, 60.0), 0.0, MINUTES)
        assert {text.get_text() for text in axes.texts} == numbers


def test_a_large_run_shows_some_servers_and_the_use_of_all(hand, tmp_path):
    small, large = tmp_path / "small.png", tmp_path / "large.png"
    draw_gantt(queue_of_short_jobs(hand, 128, 16), path=small)
    draw_gantt(queue_of_short_jobs(hand, 320, 40), path=large)
    assert imread(large).shape[0] > imread(small).shape[0]  # the second panel
    assert len(colours_in(large)) > len(JOB_COLOURS)


def test_a_long_run_shows_a_part_of_its_time(hand, tmp_path):
    run = queue_of_short_jobs(hand, 3 * MOST_BARS, 1)
    draw_gantt(run, path=tmp_path / "gantt.png")
    assert (tmp_path / "gantt.png").stat().st_size > 10_000


def test_odd_runs_can_be_drawn(hand, eventful, tmp_path):
    nothing = hand.build_run([hand.Job(0.0, 5.0)], 1, 2, 1)
    instant = hand.build_run([hand.Job(3.0, 0.0, ((3.0, 3.0, [0]),))], 1, 1, 1)
    for run in (nothing, instant, eventful(0)):
        draw_gantt(run, path=tmp_path / "gantt.png")
        heatmap(run, path=tmp_path / "heat.png", at_s=None)
        assert imread(tmp_path / "heat.png").shape[1] > 1000


def test_use_is_white_to_blue_and_servers_that_are_away_are_grey(hand, tmp_path):
    from matplotlib import colormaps

    jobs = [hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),)), hand.Job(0.0, 5.0, ((0.0, 5.0, [1]),))]
    run = hand.build_run(jobs, 4, 2, 1, ((0.0, Kind.SERVER_DOWN, [6, 7]),))
    heatmap(run, path=tmp_path / "heat.png", at_s=None)
    seen = colours_in(tmp_path / "heat.png")
    blues = [to_hex(colormaps["Blues"](share)).upper() for share in (0.0, 0.5, 1.0)]
    assert {*blues, GREY.upper()} <= seen


def test_a_snapshot_shows_the_gpus_of_that_time(hand, tmp_path):
    """At 2 s two of four GPUs are busy, at 7 s one: less blue."""
    jobs = [hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),)), hand.Job(0.0, 5.0, ((0.0, 5.0, [1]),))]
    run = hand.build_run(jobs, 2, 2, 1)
    blue = []
    for at_s in (2.0, 7.0):
        heatmap(run, path=tmp_path / "heat.png", at_s=at_s)
        pixels = imread(tmp_path / "heat.png")[..., :3]
        blue.append(int((np.abs(pixels - np.array([8, 48, 107]) / 255).max(axis=2) < 0.01).sum()))
    assert blue[0] > 1.5 * blue[1] > 0


@pytest.mark.parametrize("partitions", [2, 12])
def test_few_queues_are_lines_and_many_an_image(hand, tmp_path, partitions):
    jobs = [hand.Job(0.0, 10.0, ((5.0, 15.0, [row]),), home=row % partitions) for row in range(24)]
    run = hand.build_run(jobs, 12, 2, partitions)
    heatmap(run, path=tmp_path / "heat.png", at_s=None)
    assert ("#0072B2" in colours_in(tmp_path / "heat.png")) == (partitions == 2)


def test_the_chart_hatches_servers_that_are_away(hand, tmp_path):
    jobs = [hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),))]
    for name, events in (("up", ()), ("down", ((2.0, Kind.SERVER_DOWN, [2, 3]),))):
        draw_gantt(hand.build_run(jobs, 2, 2, 1, events), path=tmp_path / f"{name}.png")
    assert "#F0F0F0" in colours_in(tmp_path / "down.png") - colours_in(tmp_path / "up.png")


def test_a_huge_cluster_has_one_cell_a_rack(hand, tmp_path):
    run = hand.build_run([hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),))], 300, 2, 1)
    assert run.topology.num_racks == 150
    heatmap(run, path=tmp_path / "heat.png", at_s=None)
    assert imread(tmp_path / "heat.png").shape[0] < 2500


def test_use_of_servers_in_bins(gantt):
    use = busy_frac_by_server(gantt, rows=10, bins=4)
    # 0-10, 10-20, 20-30, 30-40 of server 0: both GPUs, both, one, both; of server 1: -, 2, 2, 1.5
    assert use.tolist() == [[1, 1, 0.5, 1], [0, 1, 1, 0.75]]
