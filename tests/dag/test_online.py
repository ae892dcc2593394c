"""Online plans against a plain-Python generator, and what any run with workflows keeps to."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.dag import online_tasks
from sim.dag.online_listing import NEVER, Rule, list_tasks, new_listing, new_scratch, new_timetable
from sim.dag.online_search import hoped_finishes_s, order_of
from sim.physics.laws import NetworkTables
from sim.report.balance import check_run
from sim.report.job_times import workflow_metrics
from sim.run import Kind
from tests.golden.test_worl_online import worl as golden_worl
from tests.sim.worlds import Job, attempts, cluster, fates, physics_of, play, waiting, world

HORIZON = 400
worl = partial(golden_worl, plans=8, makespan_weight=0.1)


@st.composite
def dags(draw, most: int = 12):
    """Parents of each task, earlier ones, and their workflows of about four."""
    count = draw(st.integers(1, most))
    parents = []
    for task in range(count):
        begin = task - task % 4
        rows = st.lists(st.integers(begin, max(begin, task - 1)), max_size=2, unique=True)
        parents.append(draw(rows) if task > begin else [])
    return parents, [task // 4 for task in range(count)]


def tasks_of(parents, workflow, gang, work, sizes) -> online_tasks.Tasks:
    precedence = waiting(*parents, workflow=workflow)["precedence"]
    count = len(gang)
    jobs = np.arange(count)
    edges = online_tasks.edges_among(jobs, count, precedence.first, precedence.parents)
    return online_tasks.Tasks(
        np.zeros(count, dtype=np.int64), np.array(gang), np.zeros(count, dtype=np.int64),
        np.array(work, dtype=np.float64), np.full(count, online_tasks.PENDING),
        precedence.workflow, *edges, np.array([sizes]),
    )  # fmt: skip


def site_of(kinds: list[int]) -> online_tasks.Site:
    """Servers of type 0, on which work is counted, and 1, half as fast; spreading is free."""
    rack, compute_s = np.zeros(len(kinds), dtype=np.int64), np.array([[1.0, 2.0]])
    network = NetworkTables(*[np.zeros((1, 2))] * 3, *[np.ones(2)] * 2)
    return online_tasks.Site(np.array(kinds), rack, compute_s, network, np.ones((1, 99)))


def plain_plan(
    tasks: online_tasks.Tasks, order, kinds, sizes, patience
) -> dict[int, tuple[int, int]]:
    """Begin and end of each task, second by second: one server first, then one type, then any."""
    free = np.tile(np.array(sizes), (HORIZON, 1))
    found: dict[int, tuple[int, int]] = {}
    for task in order.tolist():
        parents = tasks.parent[tasks.first_parent[task] : tasks.first_parent[task + 1]].tolist()
        if any(parent not in found for parent in parents):
            continue
        ready = max((found[parent][1] for parent in parents), default=0)
        gang, work = int(tasks.gang[task]), int(tasks.work_s[task])
        options = [[server] for server in range(len(sizes)) if sizes[server] >= gang]
        if gang > 1:
            alike = [[s for s in range(len(sizes)) if kinds[s] == kind] for kind in (0, 1)]
            alike = [each for each in alike if sum(sizes[s] for s in each) >= gang]
            options += alike or [list(range(len(sizes)))]
        best = None
        for at, servers in enumerate(options):
            for begin in range(ready, HORIZON // 2):
                place = _place(free, servers, kinds, begin, gang, work)
                if place is not None:
                    length, takes = place
                    spare = int(free[begin, servers[0]]) if len(servers) == 1 else 99
                    score = (begin + length + patience * (begin - ready), spare, at)
                    if best is None or score < best[0]:
                        best = (score, begin, length, takes)
                    break
        if best is not None:
            _, begin, length, takes = best
            for server, gpus in takes.items():
                free[begin : begin + length, server] -= gpus
            found[task] = begin, begin + length
    return found


def _place(free, servers, kinds, begin, gang, work):
    """Length and GPUs by server if the gang can begin there, those with most free first."""
    length = work
    for _ in range(3):
        window = free[begin : max(begin + length, begin + 1)]
        most = {server: int(window[:, server].min()) for server in servers}
        if sum(most.values()) < gang:
            return None
        takes, left = {}, gang
        for server in sorted(servers, key=lambda s: (-most[s], s)):
            if left > 0:
                takes[server] = min(left, most[server])
                left -= takes[server]
        needed = work * max(kinds[server] + 1 for server in takes)
        if needed <= length:
            return needed, takes
        length = needed
    return None


@settings(max_examples=60)
@given(
    dag=dags(),
    kinds=st.lists(st.integers(0, 1), min_size=1, max_size=4),
    seed=st.integers(0, 10_000),
    patience=st.sampled_from([0.0, 1.0]),
)
def test_the_generator_places_tasks_as_the_plain_one_does(dag, kinds, seed, patience):
    rng = np.random.default_rng(seed)
    parents, workflow = dag
    count = len(parents)
    sizes = rng.integers(1, 4, len(kinds)).tolist()
    gang = rng.integers(1, 5, count)
    tasks = tasks_of(parents, workflow, gang, rng.integers(1, 7, count), sizes)
    order = order_of(tasks, np.zeros(max(workflow) + 1), rng.random(count))
    site, table = site_of(kinds), new_timetable(np.array(sizes), 2 * count + 2)
    listing = new_listing(tasks, len(sizes))
    rule = Rule(patience, True, False)
    list_tasks(site, tasks, order, rule, table, new_scratch(len(sizes), 1), listing)
    expected = plain_plan(tasks, order, kinds, sizes, patience)
    for task in range(count):
        if task in expected:
            assert (listing.begin_s[task], listing.end_s[task]) == expected[task]
        else:
            assert listing.begin_s[task] == NEVER
    assert table.free.min(where=np.arange(table.free.shape[1]) < table.stretches[:, None],
                         initial=9) >= 0  # fmt: skip


def test_orders_of_two_workflows():
    # A (1 s) then B (5 s); C (2 s) then D (2 s); E (9 s) with three GPUs.
    tasks = tasks_of([[], [0], [], [2], []], [0, 0, 1, 1, 2], [1, 1, 1, 1, 3], [1, 5, 2, 2, 9], [4])
    length_s = online_tasks.mean_lengths_s(site_of([0]), tasks)
    to_go_s = online_tasks.times_to_go_s(tasks, length_s)
    assert to_go_s.tolist() == [6, 5, 4, 2, 9]

    def order(rule: str) -> str:
        hope = hoped_finishes_s(rule, tasks, length_s, to_go_s, 4)
        return "".join("ABCDE"[task] for task in order_of(tasks, hope, to_go_s))

    assert order("together") == "EABCD"
    assert order("submitted") == "ABCDE"
    assert order("shortest") == "CDABE"
    # Shares of four GPUs: 1 s for C D, 2.5 s with A B, 9.25 s with E; none before its own 4, 6, 9
    # s to go, so that A and C should start now and E at 0.25.
    assert order("shared") == "ACEBD"


@settings(max_examples=25)
@given(dag=dags(16), seed=st.integers(0, 10_000), plans=st.sampled_from([0, 8]))
def test_no_task_before_its_parents_all_finish_and_again_the_same(dag, seed, plans):
    rng = np.random.default_rng(seed)
    parents, workflow = dag
    submit_s = np.cumsum(rng.exponential(4.0, max(workflow) + 1))
    jobs = [
        Job(float(submit_s[number]), int(rng.integers(1, 6)), float(rng.uniform(0.5, 9)),
            estimate_s=float(rng.uniform(0.1, 12)))
        for number in workflow
    ]  # fmt: skip
    topology = cluster(3, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 2.0), server_s=[0.0, 0.0, 0.5, 1.0])
    traits = waiting(*parents, workflow=workflow)

    def run():
        return play(world(jobs, topology, physics=physics, traits=traits), worl(plans=plans))

    first, again = run(), run()
    assert np.isfinite(first.finish_s).all()
    check_run(first)
    stays = attempts(first.log)
    name = [chr(ord("A") + row) for row in range(len(jobs))]
    for row, rows in enumerate(parents):
        assert len(stays[name[row]]) == 1
        assert all(stays[name[row]][0][0] >= stays[name[parent]][0][1] for parent in rows)
    assert first.log.time_s.tobytes() == again.log.time_s.tobytes()
    assert [g.tolist() for g in first.log.gpus] == [g.tolist() for g in again.log.gpus]
    assert workflow_metrics(first)["workflows_finished"] == len(set(workflow))


def test_a_task_that_left_with_its_parent_holds_no_gpus():
    # A fails; B (2 GPUs), which waited for it, goes with it; C need not leave room for B.
    ended = fates(*[np.inf] * 3, outcome=[1, 0, 0])
    traits = waiting([], [0], [], workflow=[0, 0, 1]) | ended
    jobs = [Job(0, 1, 2), Job(0, 2, 5), Job(3, 2, 10)]
    run = play(world(jobs, cluster(1, 2), traits=traits), worl())
    assert attempts(run.log)["C"] == [(3, 13, (0, 1))]
    assert Kind.WITHDRAW in run.log.kind.tolist()


def test_children_submitted_before_their_parents_are_planned_once_these_are_known():
    traits = waiting([1], [])
    run = play(world([Job(0, 1, 2), Job(5, 1, 3)], cluster(1, 1), traits=traits), worl())
    assert attempts(run.log) == {"B": [(5, 8, (0,))], "A": [(8, 10, (0,))]}


def test_depths_and_presence():
    precedence = waiting([2], [], [1])["precedence"]
    assert online_tasks.depths(precedence.first, precedence.parents).tolist() == [2, 0, 1]
    columns = SimpleNamespace(num_gpus=np.ones(3, dtype=np.int64), precedence=precedence,
                              submit_s=np.array([0.0, 0.0, 4.0]))  # fmt: skip

    def view(now_s: float, queued: list[int], running: list[int]) -> SimpleNamespace:
        rows = (np.array(each, dtype=np.int64) for each in (queued, running))
        return SimpleNamespace(jobs=columns, now_s=now_s, queued=next(rows), running=next(rows))

    presence = online_tasks.Presence(view(0, [], []))
    jobs, fresh = presence.follow(view(0, [1], []))
    assert (jobs.tolist(), fresh) == ([1], True)  # task 0 waits for one that nobody knows yet
    jobs, fresh = presence.follow(view(4, [], [1]))
    assert (jobs.tolist(), fresh) == ([1, 2, 0], True)
    jobs, fresh = presence.follow(view(6, [2], []))
    assert (jobs.tolist(), fresh) == ([2, 0], False)
    assert presence.follow(view(7, [], []))[0].tolist() == []  # 2 was given up, and 0 with it


@pytest.mark.parametrize("most_tasks", [1, 3])
def test_plans_may_be_short(most_tasks):
    traits = waiting([], [0], [0], [], [3], [], workflow=[0, 0, 0, 1, 1, 2])
    jobs = [Job(0, 1 + row % 2, 3.0 + row) for row in range(6)]
    run = play(world(jobs, cluster(2, 2), traits=traits), worl(most_tasks=most_tasks))
    assert np.isfinite(run.finish_s).all()
