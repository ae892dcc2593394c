"""Figures: PNG files with something drawn in them."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from sim.files import ReportError
from sim.report.figure_studies import learning_curve, read_learning_curve
from sim.report.figures import jct_bars, jct_cdf, line_look, utilisation_queue
from sim.report.standings import standings
from sim.report.timeline import Timeline
from tests.report.test_run_figures import colours_in


def test_every_scheduler_has_a_curve_of_its_colour(tmp_path):
    rng = np.random.default_rng(0)
    times = {f"s{place}": rng.lognormal(6 + place, 2, size=200) for place in range(3)}
    jct_cdf(times, path=tmp_path / "jct_cdf.png")
    assert {line_look(place)["color"] for place in range(3)} <= colours_in(tmp_path / "jct_cdf.png")


def test_jobs_of_zero_seconds_can_be_drawn(tmp_path):
    jct_cdf({"s": np.zeros(3)}, path=tmp_path / "jct_cdf.png")
    assert line_look(0)["color"] in colours_in(tmp_path / "jct_cdf.png")


def test_a_distribution_of_nothing_is_refused(tmp_path):
    with pytest.raises(ReportError, match="stuck"):
        jct_cdf({"stuck": np.empty(0)}, path=tmp_path / "jct_cdf.png")
    assert not list(tmp_path.iterdir())


def test_at_most_four_timelines_are_drawn(tmp_path):
    time_s = np.linspace(0, 9e5, 500)
    lines = {
        f"s{place}": Timeline(time_s, np.full(500, 0.1 * place + 0.1), np.full(500, place + 1.0))
        for place in range(6)
    }
    utilisation_queue(lines, path=tmp_path / "u.png")
    drawn = colours_in(tmp_path / "u.png")
    assert {line_look(place)["color"] for place in range(4)} <= drawn
    assert not {line_look(place)["color"] for place in (4, 5)} & drawn


def test_the_timeline_of_a_run_can_be_drawn(tmp_path, run):
    from sim.report.timeline import timeline_of

    utilisation_queue({"by_hand": timeline_of(run, bins=50)}, path=tmp_path / "u.png")
    assert line_look(0)["color"] in colours_in(tmp_path / "u.png")


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
    assert line_look(1)["color"] in colours_in(tmp_path / "b.png")
    assert line_look(1)["color"] not in colours_in(tmp_path / "a.png")


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
    jct_bars(standings(three_schedulers, ours=None, confidence=0.95), path=path, confidence=0.95)
    single = imread(path).shape
    assert {"#D55E00", "#0072B2"} <= colours_in(path)
    more = [
        make.row(name, jct_h, agents=agents)
        for agents in (1, 2, 4)
        for name, jct_h in (("a", 1.0), ("b", 50.0), ("stuck", float("nan")))
    ]
    jct_bars(standings(more, ours=None, confidence=0.95), path=path, confidence=0.95)
    assert imread(path).shape[0] > single[0] and imread(path).shape[1] > single[1]


def test_intervals_are_drawn_to_their_end_unless_far_away(tmp_path, make):
    def thickest(*hours):  # pixels of an interval's line above each other; an arrow has more
        rows = [make.row("a", jct_h, window=place) for place, jct_h in enumerate(hours)]
        path = tmp_path / "bars.png"
        jct_bars(standings(rows, ours=None, confidence=0.95), path=path, confidence=0.95)
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
