"""comparison.csv: order of columns, round trip, errors that name the place."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.files import (
    ROLES,
    ComparisonRow,
    Labels,
    ReportError,
    check_distinct,
    read_comparison_csv,
    write_comparison_csv,
)
from sim.report.comparison_report import write_comparison

COLUMNS = (
    "scheduler topology workload load agents seed window information interference_info physics "
    "role stretch part"
)


def test_the_columns_are_the_labels_then_the_metrics(tmp_path, make, metrics):
    path = tmp_path / "comparison.csv"
    write_comparison_csv(path, [ComparisonRow(make.labels(), metrics)])
    header = path.read_text().splitlines()[0].split(",")
    assert header == [*COLUMNS.split(), *metrics]


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)
NUMBER = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)


@st.composite
def comparison_rows(draw):
    found = []
    for seed in range(draw(st.integers(1, 4))):
        name, load, role = (
            draw(TEXT),
            draw(st.none() | st.floats(0, 2)),
            draw(st.sampled_from(ROLES)),
        )
        labels = Labels(name, "t", 'a, "b"', load, 3, seed, 1, "none", "none", "off", role)
        found.append(ComparisonRow(labels, {"jct_mean_s": draw(NUMBER), "n": draw(NUMBER)}))
    return found


@given(comparison_rows())
def test_rows_read_back_equal(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "comparison.csv"
    write_comparison_csv(path, rows)
    assert read_comparison_csv(path) == rows


def test_a_metric_that_one_row_lacks_reads_back_as_nan(tmp_path, make):
    path = tmp_path / "comparison.csv"
    rows = [ComparisonRow(make.labels("a"), {"x": 1}), ComparisonRow(make.labels("b"), {"y": 2.5})]
    write_comparison_csv(path, rows)
    first, second = read_comparison_csv(path)
    assert (first.metrics["x"], second.metrics["y"]) == (1, 2.5)
    assert math.isnan(first.metrics["y"]) and math.isnan(second.metrics["x"])


def test_the_same_result_twice_is_refused(make):
    with pytest.raises(ReportError, match="two rows of scheduler fifo"):
        check_distinct([make.row(jct_h=1), make.row(jct_h=2)])


def test_an_unknown_role_is_refused(make):
    with pytest.raises(ReportError, match="role is 'baseline'; use one of ours, composite"):
        make.labels(role="baseline")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("scheduler,topology", "name,topology", r"line 1: column 1 is 'name'.*'scheduler'"),
        (",0.9,2,", ",0.9,two,", r"line 2: column agents is 'two'"),
        (",0.9,2,", ",high,2,", r"line 2: column load is 'high'"),
        (",composite,", ",best,", r"line 2: scheduler fifo: role is 'best'"),
        (",0.75,", ",most,", r"line 2: column gpu_util_frac is 'most'"),
        (",0.75,", ",", r"line 2: 24 cells for 25 columns"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, make, old, new, words):
    path = tmp_path / "comparison.csv"
    write_comparison_csv(path, [make.row()])
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ReportError, match=words):
        read_comparison_csv(path)


def test_one_queue_on_fewer_windows_is_told_where_it_stands(tmp_path, make):
    """It has one agent in the file, and stands beside those with more."""
    rows = [make.row("a", window=window) for window in range(3)]
    rows += [make.row("queue", window=window, agents=1, role="global_queue") for window in range(2)]
    write_comparison(tmp_path, rows, ours=None, confidence=0.95)
    text = (tmp_path / "comparison.md").read_text()
    assert "Not on all windows and seeds that others ran: queue (2 of 3)." in text
