"""`simulate.py explain=JOB`: each reason on a trace worked by hand, and nothing else changes.

Two servers of 8 GPUs, each a rack of its own; physics is off, so a job runs its duration.
"""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from gpuyard.evaluation.explain import explain_folder
from tests.contract.compositions import resolved
from tests.scripts.conftest import SMALL

HEAD = "job_id,submit_s,num_gpus,duration_s\n"
# b leaves 2 + 0 GPUs; c wants 12 and waits for both a and b, which end at 100 and 101.
QUEUE = HEAD + "a,0,6,100\nb,1,8,100\nc,2,12,50\nd,3,1,20\ne,30,2,110\n"
# a and b each leave 2 GPUs of a server of their own; c wants 4.
SPREAD = HEAD + "a,0,6,100\nb,1,6,100\nc,2,4,50\nd,3,8,5\n"
# Service in steps of 100 GPU-s: a has attained one after 6.25 s, and b, with none, takes over.
LAS = HEAD + "a,0,16,100\nb,1,16,10\n"
# Server 0 has p100s and server 1 v100s, which big fills until it ends; want may use no others.
TYPED = (
    "topology.gpu_types=[p100,v100]", "workload.columns.gpu_types=gpu_types", "estimator=oracle",
)  # fmt: skip
TYPES = HEAD.replace("\n", ",gpu_types\n") + "big,0,8,1000,v100\nwant,600,4,10,v100\n"
COLUMNS = [
    "time_s", "until_s", "decisions", "reason", "words", "certain", "partition", "rank_first",
    "rank_last", "waiting_most", "free_gpus_least", "free_gpus_most", "server_gpus_most",
    "rack_gpus_most",
]  # fmt: skip


@pytest.fixture
def told(tmp_path):
    """What is told of a job, and its rows: the run is played here, from the folder it is in."""

    def explained(trace: str, job: str, *words: str):
        path = tmp_path / "jobs.csv"
        path.write_text(trace)
        config = resolved("simulate", *SMALL, f"workload.path={path}", *words)
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        found = explain_folder(tmp_path, job)
        return found, found.record()["rows"]

    return explained


def short(rows):
    return [(r["reason"], r["time_s"], r["until_s"], r["decisions"]) for r in rows]


def test_an_id_that_hydra_reads_as_a_number_is_that_job(done, tmp_path):
    (tmp_path / "jobs.csv").write_text(QUEUE.replace("\nd,", "\n41_7,"))
    words = (*SMALL, f"workload.path={tmp_path / 'jobs.csv'}", "log_decisions=true")
    folder = done("simulate", *words, "explain=41_7").folder
    rows = json.loads((folder / "explain.json").read_text())["rows"]
    assert rows[-1]["reason"] == "finished"
    seen = done("replay", f"path={folder}", "job=41_7", "heatmap=false", folder="again").out
    assert "41_7" in seen and "consistent" in seen


def test_the_head_of_the_line_blocks(told, done, tmp_path):
    found, rows = told(QUEUE, "d")
    words = ("simulate", *SMALL, f"workload.path={tmp_path / 'jobs.csv'}")
    outcome = done(*words, "explain=d")
    assert outcome.read("explain.json") == json.loads(json.dumps(found.record()))
    assert found.text() in outcome.out
    pd.testing.assert_frame_equal(done(*words, folder="plain").jobs(), outcome.jobs())
    assert short(rows) == [
        ("submitted", 3, 3, 0),
        ("behind others in the queue", 3, 101, 3),
        ("started", 101, 121, 0),
        ("finished", 121, 121, 0),
    ]
    waits = rows[1]
    assert "job c of 12 GPUs blocks it" in waits["words"]
    assert (waits["rank_first"], waits["rank_last"], waits["waiting_most"]) == (2, 2, 3)
    assert (waits["free_gpus_least"], waits["free_gpus_most"]) == (2, 8)
    assert waits["certain"]
    assert "behind others in the queue: job c of 12 GPUs blocks it" in outcome.out
    assert pd.read_csv(outcome.folder / "explain.csv").columns.tolist() == COLUMNS


LAST = ("scheduler=las", "scheduler.quantum_gpu_s=100", "restart_s=0")


@pytest.mark.parametrize(
    ("trace", "job", "words", "wait", "told_of"),
    [
        (QUEUE, "c", (), ("no GPUs free", 2, 101, 4), "GPUs 0-11 of servers 0, 1"),
        (SPREAD, "c", (), ("fragments", 2, 100, 2), ""),
        # tried again when one rack would do, if it had room
        (SPREAD, "c", ("placer=delay", "placer.rack_wait_s=30", "placer.anywhere_wait_s=60"),
         ("waits for a compact place", 2, 62), "tried again by t=32 s"),
        (QUEUE, "e", ("scheduler=easy", "estimator=oracle"),
         ("behind a reservation", 30, 101, 2), "delay job c"),
        # 40 s x 4 of 16 GPUs
        (HEAD + "a,0,16,100\nb,1,4,40\n", "b", ("scheduler=a_srpt", "estimator=oracle"),
         ("held back by its order", 1, 11), ""),
    ],
    ids=["full", "fragments", "compact", "reservation", "order"],
)  # fmt: skip
def test_a_wait_has_its_reason_and_its_end(told, trace, job, words, wait, told_of: str):
    _, rows = told(trace, job, *words)
    assert short(rows)[1][: len(wait)] == wait and "at most" not in rows[1]["words"]
    assert short(rows)[2][:2] == ("started", wait[2])
    assert told_of in rows[1]["words"] + rows[2]["words"]


def test_ranks_and_fragments_are_counted(told):
    assert told(QUEUE, "c")[1][1]["rank_first"] == 1
    rows = told(SPREAD, "c")[1]
    most = [rows[1][f"{name}_gpus_{end}"] for name, end in
            (("free", "least"), ("server", "most"), ("rack", "most"))]  # fmt: skip
    assert most == [4, 2, 2]


def test_preempted_and_by_whom(told):
    _, rows = told(LAS, "a", *LAST)
    assert short(rows)[:5] == [
        ("submitted", 0, 0, 0),
        ("started", 0, 6.25, 0),
        ("preempted", 6.25, 6.25, 0),
        ("no GPUs free", 6.25, 16.25, 2),
        ("started", 16.25, 110, 0),
    ]
    assert rows[2]["words"] == "by job b"


def test_who_moves_and_keeps_some_of_its_gpus_is_not_preempted_by_itself(told):
    """b wants 6 on one server, of which a holds half of one and all of the next.

                 t=5         t=10
    server 0     r r a a     b b b .     2 GPUs a sign; a, with most to go, gives way,
    server 1     a a a a     a a a a     and goes on where it was and beside q
    server 2     q q . .     q q a a
    """
    trace = HEAD + "r,0,4,5\na,1,12,1000\nq,2,4,500\nb,10,6,50\n"
    _, rows = told(trace, "a", "scheduler=srtf", "restart_s=0", "topology.servers=3")
    assert [row["words"] for row in rows[1:4]] == [
        "on GPUs 4-15 of servers 0, 1", "by job b", "on GPUs 8-15,20-23 of servers 1, 2",
    ]  # fmt: skip


def test_who_comes_after_a_large_gang_and_stops_others_left_it_nothing_free(told):
    """At 20 small takes the 8 GPUs of lo; big, before it, wants 12, and hi goes on until 200."""
    trace = HEAD + "hi,0,8,200\nlo,0,8,1000\nbig,10,12,300\nsmall,20,8,500\n"
    _, rows = told(trace, "big", "scheduler=srtf", "restart_s=0", "placer=first_fit")
    assert short(rows)[1] == ("no GPUs free", 10, 200, 2)
    assert rows[1]["words"] == "those who run come before it, or would give too few"
    assert (rows[1]["free_gpus_least"], rows[1]["free_gpus_most"]) == (0, 0)


def test_who_would_give_way_may_be_where_the_placer_wants_nobody(told):
    """a and b, 4 GPUs each, come after c, which wants 8 on one server: x has the rest of the first.

    At 101 x is gone, and a gives way.
    """
    trace = HEAD + "a,0,4,1000\nx,1,4,100\nb,2,4,1000\ny,3,4,100\nc,10,8,300\n"
    _, rows = told(trace, "c", "scheduler=srtf", "restart_s=0")
    assert short(rows)[1] == ("no GPUs free", 10, 101, 1)
    give = "those who come after it would give enough, not where consolidated would put 8"
    assert rows[1]["words"] == give


def test_who_is_preempted_and_gives_up_has_waited_in_between(told):
    trace = "job_id,submit_s,num_gpus,duration_s,withdraw_s\na,0,16,100,12\nb,1,16,10000,\n"
    found, rows = told(trace, "a", *LAST, "workload.columns.withdraw_s=withdraw_s")
    assert short(rows)[2:] == [
        ("preempted", 6.25, 6.25, 0),
        ("no GPUs free", 6.25, 12, 1),
        ("withdrawn", 12, 12, 0),
    ]
    assert found.waited_s == {"no GPUs free": 5.75}


def test_forwarded_between_partitions(told):
    # Partitions of 8 GPUs: a and b fill them, c and d wait at partition 1 for the first to end.
    trace = HEAD + "a,0,8,100\nb,1,8,100\nc,2,4,50\nd,3,4,20\n"
    found, rows = told(trace, "d", "agents.count=2", "forwarding=steal")
    assert short(rows) == [
        ("submitted", 3, 3, 0),
        ("no GPUs free", 3, 100, 1),
        ("forwarded", 100, 100, 0),
        ("started", 100, 120, 0),
        ("finished", 120, 120, 0),
    ]
    assert [row["partition"] for row in rows] == [0, 0, 1, 1, 1]
    assert "partition" in found.text() and "forwarded: to partition 1" in found.text()


def test_an_order_by_what_is_free_is_asked_as_of_before_the_starts(told):
    trace = HEAD + "k,0,7,1000\nm,0,1,100\nlong,10,1,5000\nbrief,20,1,400\n"
    tetris = ("scheduler=tetris", "estimator=oracle", "agents.count=1", "topology.servers=1")
    _, rows = told(trace, "long", *tetris)
    waits = next(row for row in rows if row["decisions"])
    assert (waits["reason"], waits["until_s"], waits["certain"]) == ("no GPUs free", 500, True)
    assert (waits["rank_last"], waits["free_gpus_most"]) == (2, 0)


def test_of_an_instant_that_comes_twice_each_decision_has_its_own_starts(told):
    """At 100 zero and y start, and zero, which has no work, ends: w is looked at once more.

    At its turn 14 GPUs were free first, beside zero, and then 8, beside y.
    """
    trace = HEAD + "long,0,16,100\nzero,1,2,0\nw,1,15,50\ny,1,8,100\n"
    passing = ("scheduler=sjf", "estimator=oracle", "scheduler.skip_blocked=true", "agents.count=1")
    _, rows = told(trace, "w", *passing)
    assert short(rows)[1:3] == [("no GPUs free", 1, 200, 3), ("started", 200, 250, 0)]
    assert (rows[1]["free_gpus_least"], rows[1]["free_gpus_most"]) == (0, 14)


def test_looks_and_events_of_one_instant_stand_in_their_order(told):
    """The policy has several turns an instant; in one of them it forwards the job."""
    trace = HEAD + "a,0,8,100\nb,0,8,300\nc,2,4,50\nd,2,4,20\ne,2,2,20\nf,2,8,500\n"
    marl = ("scheduler=marl", "checkpoint=pretrained", "agents.count=2")
    found, rows = told(trace, "e", *marl, "estimator=oracle")
    assert [(row["reason"], row["partition"]) for row in rows] == [
        ("submitted", 0),
        ("the policy chose otherwise", 0),
        ("forwarded", 1),
        ("the policy chose otherwise", 1),
        ("started", 1),
        ("finished", 1),
    ]
    assert "it did not wait" in found.text()


FAMILY = """job_id,submit_s,num_gpus,duration_s,parents,withdraw_s,outcome
p,0,8,100,,,failed
long,0,8,300,,,completed
kid,10,2,100,p,,completed
leaver,20,2,100,long,50,completed
late,30,2,100,long,,completed
grand,500,2,100,kid,,completed
"""


@pytest.mark.parametrize(
    ("job", "end", "told_of", "until_s"),
    [
        ("kid", "withdrawn", "its parent p did not complete", 100),
        ("grand", "withdrawn", "its parent kid did not complete", 500),
        ("leaver", "withdrawn", "its user gave up", 70),
        ("late", "finished", "", 300),
    ],
)
def test_who_waits_for_parents_waits_and_who_is_withdrawn_has_a_cause(
    told, job, end, told_of, until_s
):
    columns = [f"workload.columns.{name}={name}" for name in ("parents", "withdraw_s", "outcome")]
    found, rows = told(FAMILY, job, *columns)
    assert (rows[-1]["reason"], rows[-1]["words"]) == (end, told_of)
    assert rows[0]["until_s"] == until_s
    waits = rows[0]["until_s"] > rows[0]["time_s"]
    assert ("it did not wait" in found.text()) is not waits
    assert found.waited_s.get("waits for its parents", 0) == until_s - rows[0]["time_s"]


def test_a_parent_without_work_starts_and_frees_its_child_at_one_time(told):
    columns = HEAD.replace("\n", ",parents\n")
    trace = columns + "long,0,16,100,\ngate,1,1,0,\nkid,2,1,5,gate\n"
    found, _ = told(trace, "kid", "workload.columns.parents=parents")
    assert (found.first_start_s, found.waited_s) == (100, {"waits for its parents": 98})


def test_who_may_share_is_not_told_that_no_gpus_are_free(told):
    trace = HEAD + "a,0,8,1000\nb,1,8,1000\nc,2,16,500\n"
    _, rows = told(trace, "c", "scheduler=linear_score", "estimator=oracle", "agents.count=1")
    assert (rows[1]["reason"], rows[1]["certain"]) == ("the policy chose otherwise", False)
    assert rows[1]["words"] == "it could have shared"
    _, rows = told(trace, "c", "scheduler=gavel")
    assert not any("shared" in row["words"] for row in rows)


@pytest.mark.parametrize("scheduler", ["dally", "themis", "tiresias_leased"])
def test_an_elastic_job_is_offered_its_whole_gang_by_who_starts_none_on_fewer(told, scheduler):
    """4 of 16 GPUs are free; e asks for 8, and 2 would do for schedulers that resize."""
    sizes = [f"workload.columns.{name}={name}" for name in ("least_gpus", "most_gpus")]
    trace = HEAD.replace("\n", ",least_gpus,most_gpus\n") + "a,0,12,1000,12,12\ne,10,8,100,2,8\n"
    _, rows = told(trace, "e", f"scheduler={scheduler}", *sizes, "estimator=oracle")
    assert (*short(rows)[1][:3], rows[1]["certain"]) == ("no GPUs free", 10, 1000, True)


@pytest.mark.parametrize(
    ("trace", "server", "reason"),
    [
        ("big,0,8,1000,v100\nwant,10,4,100,v100\n", 0, "no GPUs free"),
        ("other,0,1,1000,p100\nwant,10,4,100,v100\n", 1, "servers are down: 8 GPUs of 1 server"),
    ],
)
def test_only_servers_that_the_job_may_use_can_be_missed(told, tmp_path, trace, server, reason):
    (tmp_path / "down.csv").write_text(
        f"time_s,server,change\n5,{server},fail\n600,{server},open\n"
    )
    outages = ("outages=file", f"outages.path={tmp_path / 'down.csv'}")
    skips = ("scheduler=fifo", "scheduler.skip_blocked=true")
    _, rows = told(HEAD.replace("\n", ",gpu_types\n") + trace, "want", *skips, *outages, *TYPED)
    assert (rows[1]["time_s"], rows[1]["until_s"]) == (10, 600)
    assert f"{rows[1]['reason']}: {rows[1]['words']}".startswith(reason)


def test_what_a_policy_chose_is_marked_as_derived(told):
    trace = HEAD + "a,0,16,100\nb,1,16,5000\n"
    found, rows = told(trace, "b", "scheduler=gavel", "scheduler.round_s=30")
    derived = [row for row in rows if not row["certain"]]
    assert {row["reason"] for row in derived} == {"the policy chose otherwise"}
    assert "~ derived" in found.text()


@pytest.mark.parametrize("scheduler", ["fifo", "a_srpt", "dally", "themis"])
def test_what_is_free_is_of_another_type(told, scheduler):
    _, rows = told(TYPES, "want", f"scheduler={scheduler}", *TYPED)
    waits = [row for row in rows if row["decisions"] and row["reason"] != "held back by its order"]
    assert {row["reason"] for row in waits} == {"no cores, memory or GPUs of its type"}
    assert all(row["certain"] and row["free_gpus_most"] == 8 for row in waits)


@pytest.mark.slow
def test_a_late_job_of_a_long_run(done):
    """What comes before it is skipped, and its waits add up to its delay."""
    folder = done("simulate", "workload.num_jobs=2000", "workload.load=2", "scheduler=spjf").folder
    jobs = pd.read_parquet(folder / "jobs.parquet")
    late = jobs.iloc[1500:].sort_values("queue_delay_s").iloc[-1]
    found = explain_folder(folder, late.job_id)
    assert late.queue_delay_s > 0
    assert sum(found.waited_s.values()) == pytest.approx(late.queue_delay_s)
    assert found.first_start_s == late.start_s
    assert all(row.certain for row in found.rows)


def test_both_forms_of_a_scheduler_say_the_same(told):
    _, compiled = told(QUEUE, "d", "scheduler=sjf")
    _, plain = told(QUEUE, "d", "scheduler=sjf", "compiled=false")
    assert compiled == plain


def test_who_waits_while_no_agent_has_a_choice_waits(told):
    trace = HEAD + "a,0,16,100\nb,1,16,50\nc,2,16,10\n"  # two share all GPUs
    agents = ("scheduler=marl", "checkpoint=pretrained", "estimator=oracle")
    compiled, rows = told(trace, "c", *agents)
    plain, _ = told(trace, "c", *agents, "compiled=false")
    assert compiled.waited_s == plain.waited_s == {"no GPUs free": rows[-2]["time_s"] - 2}


@pytest.mark.parametrize(
    ("word", "told_of"),
    [
        ("explain=job-12", ("explain is 'job-12'", "job-11")),
        ("explain=true", ("explain is True", "id of a job")),
    ],
)
def test_wrong_questions(start, tmp_path: Path, word, told_of):
    (tmp_path / "jobs.csv").write_text(HEAD + "job-11,0,1,5\njob-99,1,1,5\n")
    start("simulate", *SMALL, f"workload.path={tmp_path / 'jobs.csv'}", word).failed_with(*told_of)


LONG = HEAD + "".join(f"j{at},{at},{1 + 3 * at % 8},{40 + 17 * at % 90}\n" for at in range(120))


def test_places_in_an_order_that_lasts_are_those_of_sorting_anew(told, tmp_path, monkeypatch):
    from gpuyard.evaluation import reasons

    words = ("scheduler=sjf", "scheduler.skip_blocked=true", "estimator=oracle")
    _, first = told(LONG, "j90", *words)
    monkeypatch.setattr(reasons, "LASTING", ())
    assert explain_folder(tmp_path, "j90").record()["rows"] == first


def test_in_a_long_queue_decisions_are_passed_over_and_it_says_so(told, tmp_path, monkeypatch):
    every, first = told(LONG, "j110", "scheduler.skip_blocked=true")
    assert "not every decision" not in every.text()
    monkeypatch.setattr("gpuyard.evaluation.explain.ENTRIES_A_STRIDE", 400)
    found = explain_folder(tmp_path, "j110")
    assert found.one_in >= 4
    assert f"not every decision was looked at, in the end one in {found.one_in}" in found.text()
    assert sum(row.decisions for row in found.rows) < sum(row["decisions"] for row in first) / 2
    started = [row["time_s"] for row in first if row["reason"] == "started"]
    assert [found.first_start_s] == started  # what is certain stays
    assert sum(found.waited_s.values()) == pytest.approx(sum(every.waited_s.values()))
