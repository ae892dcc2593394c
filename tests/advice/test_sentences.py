"""The three sentences, the ranking and the frame on results made up by hand."""

from dataclasses import replace

import numpy as np
import pytest

from gpuyard.advice.aims import AIMS
from gpuyard.advice.answer import advice_of, table_of, write_advice
from gpuyard.advice.playing import WHAT_HAPPENED, Played
from gpuyard.advice.sentences import compared, sentences
from gpuyard.launch.errors import ConfigError
from sim.times import HOUR_S

NOISE = np.linspace(0.9, 1.1, 101)  # common to all rows, as draws of one bootstrap are


def row(name: str, hours: float, *, information: str = "none", preempts: bool = False,
        own: float = 0.0, lost: float = 0.0) -> Played:  # fmt: skip
    """`own` is the half width of a noise that no other row shares."""
    noise = NOISE + own * np.resize([-1.0, 1.0], len(NOISE))
    draws = {key: np.full(len(NOISE) + 1, np.nan) for key in AIMS}
    draws["jct_mean_s"] = HOUR_S * hours * np.concatenate([[1.0], noise])
    draws["lost_gpu_h"] = np.full(len(NOISE) + 1, lost)
    return Played(
        name=name, contender=name.partition(",")[0], scheduler=f"{name}+consolidated",
        information=information, needs=(), preempts=preempts,
        stops_per_job=0.5 if preempts else 0.0, jobs=200, withdrawn=0, unserved=0, draws=draws,
        seconds=1.0,
    )  # fmt: skip


ROWS = [
    row("fifo", 10.0),
    row("smallest_gang", 8.0),
    row("sjf, limit", 6.0, information="limit"),
    row("sjf, predicted", 6.1, information="predicted", own=0.2),
    row("sjf, oracle", 4.0, information="oracle"),
    row("las", 2.0, preempts=True, lost=120.0),
    row("srtf", 1.0, information="oracle", preempts=True),
    replace(row(WHAT_HAPPENED, 12.0), information="-", stops_per_job=float("nan")),
]


def test_what_to_take_what_preemption_adds_and_what_durations_are_worth():
    still, moving, durations = sentences(ROWS, "jct_mean_s", 0.95)
    assert still == (
        "Without preemption take sjf, limit, which is told users' time limits: mean JCT 6.00 h "
        "[5.43, 6.57], 40% less [40% to 40%] than fifo, 50% less [50% to 50%] than what_happened; "
        "not told apart from it: sjf, predicted."
    )
    assert moving == (
        "Preemption would add this: las, which is told nothing of durations, has mean JCT 2.00 h "
        "[1.81, 2.19], 67% less [67% to 67%] than sjf, limit, for 0.50 stops a job and 120 "
        "GPU-hours lost."
    )
    assert durations.startswith(
        "Knowing durations, nobody preempting: without them smallest_gang is best, mean JCT 8.00 h "
        "[7.24, 8.76]; with users' time limits sjf, limit 25% less [25% to 25%]; with durations "
        "learned from finished jobs sjf, predicted 24% less ["
    )
    assert durations.endswith(
        "; with the true ones, which nobody can run, sjf, oracle 50% less [50% to 50%]."
    )


def test_a_policy_of_ones_own_is_named_where_it_is_not_the_best():
    own = row("learned, limit", 6.6, information="limit")
    told = sentences([*ROWS, own], "jct_mean_s", 0.95)[0]
    assert "what_happened, 9% less [9% to 9%] than learned, limit; not" in told
    best = row("learned, limit", 5.0, information="limit")
    assert sentences([*ROWS, best], "jct_mean_s", 0.95)[0].startswith(
        "Without preemption take learned, limit, which is told users' time limits: mean JCT 5.00 h"
    )


def test_preemption_that_costs_or_cannot_be_told_says_so():
    worse = [row("fifo", 3.0), row("las", 3.6, preempts=True)]
    assert sentences(worse, "jct_mean_s", 0.95)[1].startswith(
        "Preemption would add nothing: the best that preempts, las, which is told nothing of "
        "durations, has mean JCT 3.60 h [3.26, 3.94], 20% more [20% to 20%] than fifo"
    )
    unclear = [row("fifo", 3.0), row("las", 2.9, preempts=True, own=0.2)]
    words = sentences(unclear, "jct_mean_s", 0.95)[1]
    assert words.startswith("Preemption would add nothing that these jobs can tell")
    same = [row("fifo", 3.0), row("drf", 3.0)]
    assert "as much as fifo; not told apart from it: fifo." in sentences(same, "jct_mean_s", 0.9)[0]


def test_a_difference_says_whether_it_is_clear_of_zero():
    plain = row("fifo", 10.0)
    for hours, own, said in (
        (10.0, 0.0, "as much as fifo"),
        (9.9997, 0.0, "as much as fifo"),
        (9.97, 0.0, "0.3% less [0.3% to 0.3%] than fifo"),
        (8.0, 0.0, "20% less [20% to 20%] than fifo"),
        (9.0, 0.2, "10% less [30% less to 10% more: not clear of zero] than fifo"),
        (10.0, 0.2, "as much [22% less to 22% more: not clear of zero] as fifo"),
    ):
        told = compared(row("las", hours, own=own), plain, "jct_mean_s", 0.95)
        assert told == said


def test_an_aim_of_which_nothing_can_be_lost_is_told_in_differences():
    still, moving, _ = sentences(ROWS, "lost_gpu_h", 0.95)
    assert "GPU-hours lost to stops 0 GPU h [0, 0], as much as what_happened" in still
    assert "120 GPU h more than fifo" in moving


def test_the_frame_is_ranked_and_bounds_are_no_best(tmp_path):
    advice = advice_of(ROWS, aim="jct_mean_s", confidence=0.95)
    frame = advice.frame.set_index("scheduler")
    assert list(frame.index) == [
        "srtf", "las", "sjf, oracle", "sjf, limit", "sjf, predicted", "smallest_gang", "fifo",
        WHAT_HAPPENED,
    ]  # fmt: skip
    assert frame["bound"].sum() == 2
    assert frame["ratio_to_best"]["las"] == 1.0  # the first that a cluster can run
    assert frame["ratio_to_best"]["fifo"] == pytest.approx(5.0)
    assert frame["jct_mean_s"]["srtf"] == HOUR_S
    assert frame["jct_mean_s_low"]["fifo"] == pytest.approx(HOUR_S * 9.05)
    assert str(advice).count("\n") == 2 and "<table" in advice._repr_html_()

    ((_, rows),) = table_of(advice).settings
    cells = {cells[0]: cells for cells in rows}
    assert cells["srtf °"][1] == "all (a bound)"
    assert cells["las"][5] == "0.50" and cells["fifo"][5] == "never"
    assert cells[WHAT_HAPPENED][5] == "-"
    write_advice(tmp_path, advice)
    assert (tmp_path / "advice.png").read_bytes().startswith(b"\x89PNG")
    assert all(sentence in (tmp_path / "advice.md").read_text() for sentence in advice.sentences)


def test_the_words_that_play_what_is_advised_are_told():
    still = replace(ROWS[2], words="scheduler=sjf estimator=limit")
    moving = replace(ROWS[5], words="scheduler=las scheduler.quantum_gpu_s=57600")
    others = [replace(each, words="scheduler=other") for each in (ROWS[0], ROWS[4])]
    advice = advice_of([*others, still, moving], aim="jct_mean_s", confidence=0.95)
    assert advice.said[-1] == (
        "They are played by themselves with these words: sjf, limit by `scheduler=sjf "
        "estimator=limit`; las by `scheduler=las scheduler.quantum_gpu_s=57600`."
    )
    assert advice.frame.set_index("scheduler")["words"]["las"] == moving.words


def test_who_fails_is_left_out_with_the_reason_and_an_aim_without_values_is_refused():
    broken = replace(ROWS[0], failed="12 jobs wait forever", draws={})
    advice = advice_of([*ROWS[1:], broken], aim="jct_mean_s", confidence=0.95)
    assert advice.left_out == ("fifo: 12 jobs wait forever",)
    assert "fifo" not in set(advice.frame["scheduler"])
    with pytest.raises(ConfigError, match=r"user_fairness.*no job names its user"):
        advice_of(ROWS, aim="user_fairness", confidence=0.95)
