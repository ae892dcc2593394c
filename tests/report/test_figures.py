"""Figures: PNG files, what is drawn in them, and of runs of every size."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.image import imread

from sim.files import ReportError
from sim.report import figures
from sim.report.figure_gpus import MOST_BARS, draw_bars, heatmap
from sim.report.figure_gpus import gantt as draw_gantt
from sim.report.figure_studies import learning_curve, read_learning_curve
from sim.report.gpu_use import Tenancy, frac_by_server
from sim.report.standings import standings
from sim.report.timeline import Timeline, gpu_changes, timeline_of
from sim.run import Kind
from sim.times import HOURS, MINUTES, SECONDS, unit_for


def test_units_follow_the_typical_value():
    assert unit_for([10.0, 20.0]) == SECONDS
    assert unit_for([600.0, np.nan]) == MINUTES
    assert unit_for([1.0, 9000.0, 1e6]) == HOURS


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


def test_numbers_stand_only_where_they_fit():
    gpus = np.arange(40)
    tenancy = Tenancy(
        job=np.where(gpus < 10, 7, gpus), row=gpus, start_s=np.zeros(40), end_s=np.full(40, 60.0),
        place=np.zeros(40, dtype=np.int64), tenants=np.ones(40, dtype=np.int64), start_event=gpus,
    )  # fmt: skip
    for height_in, numbers in ((0.2, set()), (1.5, {"7"}), (8.0, {"7", *map(str, range(10, 40))})):
        axes = figures.new_figure(4.0, height_in).subplots()
        axes.set_ylim(40, 0)
        draw_bars(axes, tenancy, (0.0, 60.0), 0.0, MINUTES)
        assert {text.get_text() for text in axes.texts} == numbers


def test_jobs_have_colours_where_they_are_few_and_large_and_long_runs_show_a_part(hand, tmp_path):
    paths = {name: tmp_path / f"{name}.png" for name in ("few", "small", "large", "long")}
    for name, count, servers in (
        ("few", 11, 1), ("small", 128, 16), ("large", 320, 40), ("long", 3 * MOST_BARS, 1),
    ):  # fmt: skip
        draw_gantt(queue_of_short_jobs(hand, count, servers), path=paths[name])
    assert set(figures.JOB_COLOURS[:11]) <= colours_in(paths["few"])
    assert figures.JOB_COLOURS[11] not in colours_in(paths["few"])
    assert imread(paths["large"]).shape[0] > imread(paths["small"]).shape[0]  # the second panel
    assert len(colours_in(paths["large"])) > len(figures.JOB_COLOURS)
    assert paths["long"].stat().st_size > 10_000


def test_odd_runs_can_be_drawn(hand, eventful, tmp_path):
    nothing = hand.build_run([hand.Job(0.0, 5.0)], 1, 2, 1)
    instant = hand.build_run([hand.Job(3.0, 0.0, ((3.0, 3.0, [0]),))], 1, 1, 1)
    for run in (nothing, instant, eventful(0)):
        draw_gantt(run, path=tmp_path / "gantt.png")
        heatmap(run, path=tmp_path / "heat.png", at_s=None)
        assert imread(tmp_path / "heat.png").shape[1] > 1000


def test_use_is_white_to_blue_and_servers_that_are_away_are_grey_and_hatched(hand, tmp_path):
    jobs = [hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),)), hand.Job(0.0, 5.0, ((0.0, 5.0, [1]),))]
    away = hand.build_run(jobs, 4, 2, 1, ((0.0, Kind.SERVER_DOWN, [6, 7]),))
    heatmap(away, path=tmp_path / "heat.png", at_s=None)
    blues = [to_hex(colormaps["Blues"](share)).upper() for share in (0.0, 0.5, 1.0)]
    assert {*blues, figures.GREY.upper()} <= colours_in(tmp_path / "heat.png")
    for name, events in (("up", ()), ("down", ((2.0, Kind.SERVER_DOWN, [2, 3]),))):
        draw_gantt(hand.build_run(jobs[:1], 2, 2, 1, events), path=tmp_path / f"{name}.png")
    assert "#F0F0F0" in colours_in(tmp_path / "down.png") - colours_in(tmp_path / "up.png")


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


def test_a_huge_cluster_has_one_cell_a_rack(hand, tmp_path):
    run = hand.build_run([hand.Job(0.0, 10.0, ((0.0, 10.0, [0]),))], 300, 2, 1)
    assert run.topology.num_racks == 150
    heatmap(run, path=tmp_path / "heat.png", at_s=None)
    assert imread(tmp_path / "heat.png").shape[0] < 2500


def test_use_of_servers_in_bins(gantt):
    use = frac_by_server(gantt, gpu_changes(gantt.log), rows=10, bins=4)
    # 0-10, 10-20, 20-30, 30-40 of server 0: both GPUs, both, one, both; of server 1: -, 2, 2, 1.5
    assert use.tolist() == [[1, 1, 0.5, 1], [0, 1, 1, 0.75]]


def test_every_scheduler_has_a_curve_of_its_colour_and_a_distribution_of_nothing_none(tmp_path):
    path, rng = tmp_path / "jct_cdf.png", np.random.default_rng(0)
    with pytest.raises(ReportError, match="stuck"):
        figures.jct_cdf({"stuck": np.empty(0)}, path=path)
    assert not list(tmp_path.iterdir())
    figures.jct_cdf({f"s{at}": rng.lognormal(6 + at, 2, size=200) for at in range(3)}, path=path)
    assert {figures.line_look(place)["color"] for place in range(3)} <= colours_in(path)
    figures.jct_cdf({"s": np.zeros(3)}, path=path)
    assert figures.line_look(0)["color"] in colours_in(path)


def test_at_most_four_timelines_are_drawn(tmp_path, run):
    time_s, path = np.linspace(0, 9e5, 500), tmp_path / "u.png"
    lines = {
        f"s{place}": Timeline(time_s, np.full(500, 0.1 * place + 0.1), np.full(500, place + 1.0))
        for place in range(6)
    }
    figures.utilisation_queue(lines, path=path)
    drawn = colours_in(path)
    assert {figures.line_look(place)["color"] for place in range(4)} <= drawn
    assert not {figures.line_look(place)["color"] for place in (4, 5)} & drawn
    figures.utilisation_queue({"by_hand": timeline_of(run, bins=50)}, path=path)
    assert figures.line_look(0)["color"] in colours_in(path)


def curve_file(path, text):
    path.write_text(text)
    return path


def test_a_learning_curve_with_and_without_evaluations(tmp_path):
    plain = curve_file(tmp_path / "a.csv", "iteration,return_mean,kl\n0,-5,0.1\n1,,0.1\n2,-3,0.1\n")
    curve = read_learning_curve(plain)
    assert curve.iteration.tolist() == [0, 1, 2] and np.isnan(curve.return_mean[1])
    learning_curve(curve, references_s={}, path=tmp_path / "a.png")
    text = "iteration,return_mean,eval_jct_mean_s\n"
    text += "".join(f"{i},{i - 50},{9000 - i if i % 5 == 0 else ''}\n" for i in range(40))
    both = read_learning_curve(curve_file(tmp_path / "b.csv", text))
    learning_curve(both, references_s={"sjf": 8000.0}, path=tmp_path / "b.png")
    assert imread(tmp_path / "b.png").shape[1] > imread(tmp_path / "a.png").shape[1]
    assert figures.line_look(1)["color"] in colours_in(tmp_path / "b.png")
    assert figures.line_look(1)["color"] not in colours_in(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iteration,reward\n0,1\n", "line 1: column 'return_mean' is missing"),
        ("iteration,return_mean\n0,1\n1,x\n", "line 3: return_mean is 'x'"),
        ("iteration,return_mean\n", "holds no iteration"),
    ],
)
def test_a_broken_learning_curve_names_its_line(tmp_path, text, words):
    with pytest.raises(ReportError, match=words):
        read_learning_curve(curve_file(tmp_path / "c.csv", text))


def test_bars_have_one_panel_a_setting_and_the_colours_of_roles(tmp_path, make, three_schedulers):
    path = tmp_path / "jct_bars.png"
    figures.jct_bars(
        standings(three_schedulers, ours=None, confidence=0.95), path=path, confidence=0.95
    )
    single = imread(path).shape
    assert {"#D55E00", "#0072B2"} <= colours_in(path)
    more = [
        make.row(name, jct_h, agents=agents)
        for agents in (1, 2, 4)
        for name, jct_h in (("a", 1.0), ("b", 50.0), ("stuck", float("nan")))
    ]
    figures.jct_bars(standings(more, ours=None, confidence=0.95), path=path, confidence=0.95)
    assert imread(path).shape[0] > single[0] and imread(path).shape[1] > single[1]


def test_intervals_are_drawn_to_their_end_unless_far_away(tmp_path, make):
    def thickest(*hours):  # pixels of an interval's line above each other; an arrow has more
        rows = [make.row("a", jct_h, window=place) for place, jct_h in enumerate(hours)]
        path = tmp_path / "bars.png"
        figures.jct_bars(standings(rows, ours=None, confidence=0.95), path=path, confidence=0.95)
        dark = np.all(np.abs(imread(path)[..., :3] * 255 - 0x22) < 1, axis=2)
        return dark.sum(axis=0).max()

    for scale in (1.0, 4.7):  # at 4.7 the end of the axis is rounded down
        assert thickest(*(scale * hours for hours in (2.0, 6.0, 2.5, 5.5, 4.0))) < 6
    assert thickest(0.1, 12.0) > 6


def test_reports_load_no_heavy_library_before_they_draw_and_no_pandas_to_write_columns():
    code = (
        "import sys, sim.report.comparison_report, sim.report.run_folder, sim.report.summary\n"
        "import sim.report.figure_studies, sim.report.figures\n"
        "import sim.report.figure_gpus, sim.report.perfetto, sim.report.replay\n"
        "print({'matplotlib', 'pandas', 'pyarrow', 'rich', 'torch'} & set(sys.modules))\n"
        "import numpy as np\nfrom sim.report.run_tables import parquet_bytes\n"
        "parquet_bytes({'a': np.arange(3), 't': np.array(['x', None, 'y'], dtype=object),"
        " 'l': [np.arange(2)] * 3, 'b': np.ones(3, dtype=bool)})\nprint('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "False"]
