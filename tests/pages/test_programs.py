"""The key `page` of a program."""

from pathlib import Path

from tests.scripts.conftest import TRACE, call

TINY = ("workload=csv", "topology=small_leaf_spine", "interference=none", "network=none")


def test_simulate_writes_its_page_last_and_links_the_rest(tmp_path: Path):
    trace = tmp_path / "jobs.csv"
    trace.write_text(TRACE)
    words = ("simulate", *TINY, f"workload.path={trace}")
    outcome = call(*words, folder=tmp_path / "run")
    assert outcome.status == 0, outcome.err
    text = (outcome.folder / "report.html").read_text(encoding="utf-8")
    assert 'href="metrics.json"' in text
    assert 'href="jobs.parquet"' in text
    assert "fifo+consolidated on " in text
    failed = call(*words, "page=maybe", folder=tmp_path / "run")
    assert failed.status == 1 and "page is 'maybe'; it must be true or false" in failed.err
    assert (failed.folder / "report.html").read_text(encoding="utf-8") == text
