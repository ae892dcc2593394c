"""Optional columns from file to job table: read, selected, clipped, prepared and written back."""

import logging
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TraceError
from sim.jobs import ANY_TYPE, CANCELLED, COMPLETED, FAILED, Attempts, Precedence
from sim.physics.catalogue import Catalogue
from sim.traces.csv_reader import CsvReader, trace_csv
from sim.traces.job_traits import TypeWords
from sim.traces.prepare import cap, offered_load
from sim.traces.trace import Trace, split, take, thinned_window, time_window
from tests.traces.trace_samples import (
    CSV,
    CSV_MORE,
    HEADER,
    SAMPLES,
    caps,
    loaded,
    preset,
    refusal,
    setting,
    trace_of,
)

INF = float("inf")
CATALOGUE = Catalogue(
    names=tuple(f"{model}/{batch}" for model in ("LM", "ResNet-50") for batch in (1, 2, 4, 8)),
    gpu_types=("k80", "v100"),
    compute_s=np.arange(8, 0, -1.0)[:, None] * np.array([[2.0, 1.0]]),  # the first is the heaviest
    sync_bytes=np.ones(8),
    gang_ok=np.array([True, False] * 4),
    source="shipped",
)
SETTING = setting(catalogue=CATALOGUE, gpu_types=("k80", "v100"))


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Jobs a, c, b, d of the CSV sample, by submission; b waits for a, and c for both."""
    return loaded("csv", tmp_path, CSV.encode())[0]


def lists(links: Precedence | Attempts) -> list[list[float]]:
    values = links.parents if isinstance(links, Precedence) else links.fail_at_s
    return [each.tolist() for each in np.split(values, links.first[1:-1])]


def table(tmp_path: Path, *options: str, where=SETTING, text: str = CSV):
    """The job table of the CSV sample, or of the text of a file with such columns."""
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    columns = SAMPLES["csv"].options if text == CSV else ()
    return preset("csv", f"path={path}", *columns, *options).whole(setting=where, seed=0)


def test_every_column_is_read(trace: Trace) -> None:
    assert list(trace.job_id) == ["a", "c", "b", "d"]
    assert list(trace.group) == ["g1", "g1", "", ""]
    assert list(trace.model) == ["resnet50", "", "LM", ""]
    assert trace.priority.tolist() == [3, 0, -1, 0]
    assert trace.deadline_s.tolist() == [500, 900, INF, INF]
    assert trace.cpu_milli.tolist() == [4000, 1000, 0, 0]
    assert trace.gpu_milli.tolist() == [500, 1000, 1000, 1000]
    assert list(trace.gpu_types) == ["v100|P100", "k80", "", ""]
    assert trace.least_gpus.tolist() == [1, 2, 4, 1]
    assert trace.most_gpus.tolist() == [4, 2, 4, 1]
    assert trace.outcome.tolist() == [COMPLETED, CANCELLED, FAILED, COMPLETED]
    assert trace.withdraw_s.tolist() == [INF, 30, INF, INF]
    assert lists(trace.attempts) == [[20, 60.5], [], [], []]
    assert lists(trace.precedence) == [[], [0, 2], [0], []]
    assert len(set(trace.precedence.workflow[:3].tolist())) == 1
    assert trace.precedence.workflow[3] == -1


def test_a_trace_without_the_columns_has_none_of_the_traits(tmp_path: Path) -> None:
    jobs = table(tmp_path, text=f"{HEADER}\na,0,1,5\n")
    assert {getattr(jobs, each.name) for each in fields(jobs)[8:]} == {None}


def test_parents_make_workflows_and_a_skipped_job_is_no_parent_any_more(tmp_path: Path) -> None:
    trace, _ = loaded("csv", tmp_path, CSV.encode(), "columns.workflow=null")
    workflow = trace.precedence.workflow.tolist()
    assert workflow[0] == workflow[1] == workflow[2] >= 0
    assert workflow[3] == -1
    text = CSV.replace("a,0,1,100", "a,0,1,-1")
    trace, notes = loaded("csv", tmp_path, text.encode(), strict=False)
    assert (list(trace.job_id), notes.skipped) == (["c", "b", "d"], 1)
    assert lists(trace.precedence) == [[1], [], []]


def test_a_trace_written_is_read_back_the_same(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "again.csv"
    path.write_text(trace_csv(trace))
    columns = {name: name for name in (*HEADER.split(","), *CSV_MORE)}
    plain = CsvReader(delimiter="comma", time_format=None, duration_format="seconds")
    again, _ = plain.read(path=str(path), columns=columns, name="csv", strict=True)
    for each in fields(Trace):
        before, after = getattr(trace, each.name), getattr(again, each.name)
        if each.name in ("line", "file"):  # where it was read
            continue
        if isinstance(before, Attempts | Precedence):
            assert lists(before) == lists(after)
        else:
            unknown = each.name == "waited_s"  # NaN where a job never began
            assert np.array_equal(before, after, equal_nan=unknown), each.name


def test_taking_jobs_keeps_their_columns_and_drops_links_out(trace: Trace) -> None:
    some = take(trace, np.array([2, 1]))
    assert list(some.job_id) == ["b", "c"]
    assert lists(some.precedence) == [[], [0]]
    assert some.priority.tolist() == [-1, 0]
    assert lists(take(trace, np.array([True, False, True, False])).attempts) == [[20, 60.5], []]
    assert lists(time_window(trace, 5.0, None).precedence) == [[1], [], []]
    assert lists(split(trace, "late", {"early": 0.25, "late": 0.75}).precedence) == [[1], [], []]


def random_trace(rng: np.random.Generator, jobs: int) -> Trace:
    """Jobs of which each waits for some earlier ones of its workflow, or belongs to none."""
    workflow = rng.integers(-1, max(jobs // 3, 1), jobs)
    parents = [
        [row for row in range(job) if workflow[row] == workflow[job] >= 0 and rng.random() < 0.5]
        for job in range(jobs)
    ]
    failures = [np.sort(rng.random(rng.integers(0, 4))) * 9 + 0.5 for _ in range(jobs)]
    made = trace_of(np.sort(rng.integers(0, 50, jobs)), num_gpus=rng.integers(1, 9, jobs))
    fail_at_s = np.concatenate([*failures, np.empty(0)])
    rows = np.array([row for rows in parents for row in rows], dtype=np.int64)
    return replace(
        made,
        attempts=Attempts(np.cumsum([0, *map(len, failures)]), fail_at_s),
        precedence=Precedence(np.cumsum([0, *map(len, parents)]), rows, workflow),
    )


@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 30), picks=st.data())
def test_links_and_failures_follow_their_jobs(seed: int, jobs: int, picks) -> None:
    trace = random_trace(np.random.default_rng(seed), jobs)
    rows = picks.draw(st.lists(st.integers(0, jobs - 1), unique=True, min_size=1))
    some = take(trace, np.array(rows))
    before, after = lists(trace.precedence), lists(some.precedence)
    for place, row in enumerate(rows):
        kept = [trace.job_id[parent] for parent in before[row] if parent in rows]
        assert [some.job_id[parent] for parent in after[place]] == kept
        assert lists(some.attempts)[place] == lists(trace.attempts)[row]
    assert some.precedence.workflow.tolist() == trace.precedence.workflow[rows].tolist()


@given(
    seed=st.integers(0, 10**6), jobs=st.integers(1, 40), wanted=st.integers(1, 40),
    thin=st.integers(1, 4),
)  # fmt: skip
def test_thinning_keeps_workflows_whole(seed: int, jobs: int, wanted: int, thin: int) -> None:
    trace = random_trace(np.random.default_rng(seed), jobs)
    wanted = min(wanted, jobs)
    kept = thinned_window(trace, wanted, thin, np.random.default_rng(seed))
    size = {number: int(np.sum(trace.precedence.workflow == number))
            for number in trace.precedence.workflow.tolist()}  # fmt: skip
    for number in set(kept.precedence.workflow.tolist()) - {-1}:
        assert np.sum(kept.precedence.workflow == number) == size[number]
    largest = max([1, *(count for number, count in size.items() if number >= 0)])
    assert wanted <= len(kept) < wanted + largest
    assert np.all(np.diff(kept.submit_s) >= 0)
    names = trace.job_id.tolist()
    full = {name: parents for name, parents in zip(names, lists(trace.precedence), strict=True)}
    for row, parents in enumerate(lists(kept.precedence)):
        now = [kept.job_id[parent] for parent in parents]
        assert now == [names[parent] for parent in full[kept.job_id[row]]]


def test_a_thinned_window_of_single_jobs_takes_any_of_them() -> None:
    trace = random_trace(np.random.default_rng(1), 40)
    alone = replace(trace, precedence=replace(trace.precedence, workflow=np.full(40, -1)))
    rng = np.random.default_rng(2)
    windows = [thinned_window(alone, 5, 2, rng) for _ in range(300)]
    assert {len(window) for window in windows} == {5}
    assert {name for window in windows for name in window.job_id} == set(trace.job_id)


def test_caps_reach_elastic_ranges_and_failures(trace: Trace) -> None:
    capped, _ = cap(trace, caps(max_gang=2, max_duration_s=60.5), 64)
    assert capped.num_gpus.tolist() == [1, 2, 2, 1]
    assert capped.least_gpus.tolist() == [1, 2, 2, 1]
    assert capped.most_gpus.tolist() == [2, 2, 2, 1]
    assert lists(capped.attempts) == [[20], [], [], []]  # the run ends when 60.5 s are done


def test_a_load_counts_shares_of_gpus_or_without_demands_whole_ones(trace, tmp_path) -> None:
    # 0.5 x 100 + 2 x 80 + 4 x 50 + 1 x 5 GPU-s on 4 GPUs for 20 s
    assert offered_load(trace, 4) == pytest.approx(415 / 80)
    jobs = table(tmp_path, "load=0.5", "rules.ignore=[demands]")
    work_gpu_s = float(np.sum(jobs.num_gpus * jobs.duration_s))
    assert work_gpu_s / (SETTING.gpus * jobs.submit_s[-1]) == pytest.approx(0.5)


def test_the_job_table_gets_the_traits(tmp_path: Path) -> None:
    jobs = table(tmp_path, "load=0.5", "rules.unknown_gpu_types=any")
    stretch = jobs.submit_s[1] / 5.0
    assert stretch != pytest.approx(1.0)
    assert jobs.demands.type_mask.tolist() == [0b10, 0b01, ANY_TYPE, ANY_TYPE]  # no P100 here
    assert jobs.demands.gpu_milli.tolist() == [500, 1000, 1000, 1000]
    assert jobs.demands.memory_mib.tolist() == [2048, 0, 0, 0]
    assert jobs.elastic.most_gpus.tolist() == [4, 2, 4, 1]
    assert jobs.identity.user.tolist() == [0, 0, 1, -1]
    assert jobs.identity.group.tolist() == [0, 0, -1, -1]
    assert jobs.urgency.priority.tolist() == [3, 0, -1, 0]
    assert jobs.urgency.deadline_s.tolist() == [500, jobs.submit_s[1] + 900, INF, INF]
    assert jobs.fates.outcome.tolist() == [COMPLETED, CANCELLED, FAILED, COMPLETED]
    assert jobs.fates.withdraw_s.tolist() == [INF, 30, INF, INF]
    assert lists(jobs.attempts) == [[20, 60.5], [], [], []]
    assert lists(jobs.precedence) == [[], [0, 2], [0], []]


def test_traits_can_be_left_out(tmp_path: Path) -> None:
    names = "demands,elastic,identity,urgency,fates,attempts,precedence"
    jobs = table(tmp_path, f"rules.ignore=[{names}]")
    assert [getattr(jobs, name) for name in names.split(",")] == [None] * 7
    with refusal(r"rules\.ignore is 'demand'; did you mean 'demands'"):
        preset("csv", "path=x", "rules.ignore=[demand]")


def test_gpu_types_are_matched_renamed_or_refused(tmp_path: Path, caplog) -> None:
    small = replace(SETTING, gpu_types=("a100", "T4"))
    with pytest.raises(TraceError, match=r"job a: gpu_types is 'v100\|P100'.* cluster has a100, "
                       r"T4; .*gpu_type_names=\{v100: TYPE\}'.*unknown_gpu_types=any"):  # fmt: skip
        table(tmp_path, where=small)
    renamed = table(tmp_path, "+rules.gpu_type_names={k80:t4,P100:A100}", where=small)
    names = (f"rules.{name}=null" for name in ("models", "ignore", "gpu_type_names"))
    for words in (("+rules.gpu_type_names={k80:v100,v100:k80}",), names):
        kept = table(tmp_path, *words)  # the cluster has the names of the file
        assert kept.demands.type_mask.tolist() == [0b10, 0b01, ANY_TYPE, ANY_TYPE]
    assert renamed.demands.type_mask.tolist() == [0b01, 0b10, ANY_TYPE, ANY_TYPE]
    with caplog.at_level(logging.WARNING):
        anywhere = table(tmp_path, "rules.unknown_gpu_types=any", where=small)
    assert anywhere.demands.type_mask.tolist() == [ANY_TYPE] * 4
    assert "2 jobs ask for GPU types that the cluster lacks (the first: job a" in caplog.text
    assert "gpu_type_names={v100: TYPE}' says which type a name is (here: a100, T4)" in caplog.text


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("V100| P100", 0b0101), ("NVIDIA V100 , a100_80gb", 0b0011), ("P100|K80", 0b0100),
        ("tesla p100", 0b1000), ("NVIDIA-P100", 0b1100),
        ("x|p100", 0b1100), ("", ANY_TYPE), ("nan", ANY_TYPE), (" Any ", ANY_TYPE),
    ],
)  # fmt: skip
def test_gpu_types_are_found_in_any_spelling(text: str, mask: int) -> None:
    known = ("V100", "A100-80GB", "p100", "Tesla P100")
    words = TypeWords(known=known, names={"x": "P100"}, unknown="error")
    assert words.masks(np.array(["a"]), np.array([text])).tolist() == [mask]


def test_a_named_model_gets_its_profiles_under_either_rule(tmp_path: Path) -> None:
    rows = "".join(f"{row},{row},1,{10 * row},m{row % 3}\n" for row in range(300))
    for rule, others in (("uniform", set(range(8))), ("by_size", {6, 7})):
        words = ("columns.model=model", f"rules.profile_rule={rule}",
                 "+rules.models={m1:lm,m2:unheard}")  # fmt: skip
        jobs = table(tmp_path, *words, text=f"{HEADER},model\n{rows}")
        named = np.arange(300) % 3 == 1
        assert set(jobs.profile[named].tolist()) == {0, 1, 2, 3}
        assert set(jobs.profile[~named].tolist()) == others


def test_a_named_profile_is_the_jobs_own(tmp_path: Path, caplog) -> None:
    names = SETTING.catalogue.names
    rows = "".join(f"{row},{row},1,60,{names[row % 8]}\n" for row in range(80))
    jobs = table(tmp_path, "columns.model=model", text=f"{HEADER},model\n{rows}")
    assert jobs.profile.tolist() == [row % 8 for row in range(80)]
    assert "profiles lack" not in caplog.text


def sized(tmp_path: Path, rule: str, gang: int = 1):
    """Profiles of 400 jobs, 100 of each size class in turn."""
    hours = (0.5, 5.0, 50.0, 500.0)
    rows = "".join(f"{k},{k},{gang},{hours[k % 4] * 3600 / gang}\n" for k in range(400))
    profile = table(tmp_path, f"rules.profile_rule={rule}", text=f"{HEADER}\n{rows}").profile
    return [set(profile[k::4].tolist()) for k in range(4)]


def test_by_size_gives_longer_jobs_longer_iterations(tmp_path: Path) -> None:
    assert sized(tmp_path, "by_size") == [{7, 6}, {5, 4}, {3, 2}, {1, 0}]
    assert sized(tmp_path, "by_size", gang=2) == [{6}, {4}, {2}, {0}]  # rows that allow gangs
    assert sized(tmp_path, "uniform") == [set(range(8))] * 4
    with pytest.raises(Exception, match=r"rules\.profile_rule is 'by_sise'; did you mean 'by_siz"):
        sized(tmp_path, "by_sise")
