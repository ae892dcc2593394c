"""One table of a sweep, and its lines over a number."""

from dataclasses import replace

import pytest

from gpuyard.evaluation.compare import MOST_CURVES
from gpuyard.pages.sections import MOST_CURVES as MOST_ON_PAGE
from gpuyard.pages.sections import looks as page_looks
from sim.report.comparison_report import sweep_markdown, sweep_of, write_comparison
from sim.report.figures import colours_of, looks
from sim.report.standings import standings


@pytest.fixture
def at_load(make):
    def rows(load, **jct_h):
        found = [make.row(name, value) for name, value in jct_h.items()]
        return [replace(row, labels=replace(row.labels, load=load)) for row in found]

    return rows


def swept(rows):
    return sweep_of(standings(rows, ours=None, confidence=0.95))


def test_schedulers_down_and_what_was_swept_across(at_load):
    sweep = swept([*at_load(0.9, fifo=4.0, sjf=3.0), *at_load(0.5, fifo=2.5, sjf=2.0)])
    assert sweep_markdown(sweep).splitlines() == [
        "## mean JCT [h] over load",
        "",
        "| scheduler | 0.5 | 0.9 |",
        "|:--|--:|--:|",
        "| sjf | 2.00 | 3.00 |",
        "| fifo | 2.50 | 4.00 |",
    ]
    assert sweep.numbers() == (0, (0.5, 0.9))


def test_keys_that_no_column_tells_are_read_from_the_names(make):
    names = [f"sjf [estimator.sigma={sigma} seed={seed}]" for sigma in (1, 2) for seed in (3, 4)]
    sweep = swept([make.row(name, 1.0 + place) for place, name in enumerate(names)])
    assert sweep.keys == ("estimator.sigma", "seed")
    assert sweep.points == (("1", "3"), ("1", "4"), ("2", "3"), ("2", "4"))
    assert list(sweep.roles) == ["sjf"]


def test_what_is_no_sweep_has_no_such_table(make, at_load):
    assert swept([make.row("a", 1.0), make.row("b", 2.0)]) is None
    many = [row for step in range(13) for row in at_load(0.1 + step / 10, sjf=1.0)]
    assert swept(many) is None


def test_a_point_without_a_run_stays_open(at_load):
    sweep = swept([*at_load(0.5, fifo=2.5, sjf=2.0), *at_load(0.9, fifo=4.0)])
    assert "| sjf | 2.00 | - |" in sweep_markdown(sweep)


def test_a_number_that_was_swept_has_lines(at_load, tmp_path):
    rows = [*at_load(0.5, fifo=2.5, sjf=2.0), *at_load(0.9, fifo=4.0, sjf=3.0)]
    write_comparison(tmp_path / "swept", rows, ours=None, confidence=0.95, sweeps=True)
    text = (tmp_path / "swept" / "comparison.md").read_text()
    assert text.startswith("## mean JCT [h] over load")
    assert "at load 0.9" in text  # all metrics stand below
    assert (tmp_path / "swept" / "sweep.png").read_bytes()[1:4] == b"PNG"
    write_comparison(tmp_path / "plain", rows[:2], ours=None, confidence=0.95, sweeps=True)
    assert not (tmp_path / "plain" / "sweep.png").exists()


def test_a_scheduler_has_one_colour_in_all_figures():
    runs = [("b", "composite"), ("a", "composite"), ("m", "ours"), ("c", "composite")]
    colours = colours_of(runs)
    assert len(set(colours.values())) == 4
    lines = looks({f"{name}, 4 agents": (name, role) for name, role in runs})
    assert {name: lines[f"{name}, 4 agents"]["color"] for name, _ in runs} == {
        name: colour for (name, _), colour in colours.items()
    }
    assert len({line["linestyle"] for name, line in lines.items() if name[0] != "m"}) == 3


def test_no_two_lines_look_alike():
    found = looks({f"{at:02}": (f"{at:02}", "composite") for at in range(MOST_CURVES)}).values()
    assert len({tuple(look.values()) for look in found}) == MOST_CURVES
    found = page_looks([f"{at}" for at in range(MOST_ON_PAGE)]).values()
    assert len({tuple(look.values()) for look in found}) == MOST_ON_PAGE
