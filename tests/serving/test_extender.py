"""A Kubernetes scheduler asks for pods one by one and is answered as the simulator decides."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuyard.evaluation.experiment import composition_of, experiment_of
from gpuyard.serving.forms import Asked, Pod, StateForm, read
from sim.jobs import JobTable
from sim.run import Kind, Run
from sim.simulator import simulate
from tests.serving.conftest import CLUSTER, Service

PODS = json.loads((Path(__file__).parent / "pods.json").read_text())
NODES = [str(server) for server in range(8)]


def pod(name: str, gpus: object = 1, containers: Any = None, **annotations: str) -> dict[str, Any]:
    told = {f"gpuyard.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    own = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    return {
        "metadata": {"name": name, "annotations": {"gpuyard.dev/estimate-s": "60"} | told},
        "spec": {"containers": own if containers is None else containers},
    }


def verdict(service: Service, asked: dict[str, Any], nodes: list[str] = NODES) -> Any:
    told = service.ask("POST", "/filter", {"Pod": asked, "NodeNames": nodes})
    assert service.status == 200
    failed = told["FailedNodes"] | told["FailedAndUnresolvableNodes"]
    assert {*(told["NodeNames"] or ()), *failed} == (set() if told["Error"] else set(nodes))
    return told


def jobs_of(pods: list[Asked]) -> JobTable:
    """What the simulator plays: a gang is one job; its duration is the estimate."""
    jobs = list({each.job: each for each in pods}.values())
    estimate_s = np.array([each.estimate_s for each in jobs])
    whole = np.zeros(len(jobs), dtype=np.int64)
    return JobTable(
        job_id=np.array([each.job for each in jobs], dtype=object),
        submit_s=np.array([each.submitted_s for each in jobs]),
        num_gpus=np.array([each.gpus * each.pods for each in jobs]),
        duration_s=estimate_s, estimate_s=estimate_s, profile=whole, home=whole,
        measured=whole == 0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def simulated(configured: Callable[..., Any]) -> Run:
    config = configured(*CLUSTER)
    world = experiment_of(config).world
    jobs = jobs_of([read(Pod.model_validate(each)) for each in PODS])
    return simulate(world.simulator(jobs), composition_of(config, 1), 0, None)


def test_recorded_pods_go_where_the_simulator_sends_them(fresh: Service, simulated: Run):
    """At each instant: the state is told, those who start are asked for, then those who wait."""
    jobs, log, seats = simulated.jobs, simulated.log, simulated.topology.gpu_server
    waiting, running, seen = set[int](), dict[int, tuple[float, list[int]]](), Counter[str]()
    for now_s in np.unique(log.time_s):
        at = np.flatnonzero(log.time_s == now_s)
        kinds, rows = log.kind[at], log.job[at].tolist()
        waiting |= {row for row, kind in zip(rows, kinds, strict=True) if kind == Kind.ARRIVAL}
        for row, kind in zip(rows, kinds, strict=True):
            if kind == Kind.FINISH:
                del running[row]
        fresh.ask("PUT", "/state", _state(jobs, float(now_s), waiting, running))
        assert fresh.status == 200
        for event in at[kinds == Kind.START]:
            row, gpus = int(log.job[event]), log.gpus[event]
            _starts(fresh, jobs, row, Counter(map(str, seats[gpus].tolist())), seen)
            waiting.remove(row)
            running[row] = float(now_s), gpus.tolist()
        fresh.ask("PUT", "/state", _state(jobs, float(now_s), waiting, running))
        for row in waiting:
            for each in _pods(jobs, row):
                told = verdict(fresh, each)
                assert told["NodeNames"] == [] and "wait" in told["FailedNodes"]["0"]
                seen["waits"] += 1
    assert seen["starts"] == len(PODS) and seen["waits"] > 3


def _pods(jobs: JobTable, row: int) -> list[dict[str, Any]]:
    return [each for each in PODS if read(Pod.model_validate(each)).job == jobs.job_id[row]]


def _starts(
    service: Service, jobs: JobTable, row: int, wanted: Counter[str], seen: Counter[str]
) -> None:
    """Each pod of a job gets one node, together those of the simulator; asked again, the same."""
    got = Counter[str]()
    for each in _pods(jobs, row):
        told = verdict(service, each)
        assert len(told["NodeNames"]) == 1, told["FailedNodes"] or told["Error"]
        node = told["NodeNames"][0]
        body = {"Pod": each, "NodeNames": NODES}
        scores = service.ask("POST", "/prioritize", body)
        assert scores == [{"Host": name, "Score": 10 * (name == node)} for name in NODES]
        got[node] += read(Pod.model_validate(each)).gpus
        seen["starts"] += 1
    assert got == wanted


def _state(
    jobs: JobTable, now_s: float, waiting: set[int], running: dict[int, Any]
) -> dict[str, Any]:
    def named(row: int) -> dict[str, Any]:
        submitted_s, estimate_s = float(jobs.submit_s[row]), float(jobs.estimate_s[row])
        return {"id": jobs.job_id[row], "submitted_s": submitted_s, "estimate_s": estimate_s}

    return {
        "time_s": now_s,
        "queue": [named(row) | {"gpus": int(jobs.num_gpus[row])} for row in sorted(waiting)],
        "running": [
            named(row) | {"started_s": began_s, "placement": gpus}
            for row, (began_s, gpus) in running.items()
        ],
    }  # fmt: skip


def test_nodes_given_whole_come_back_whole(fresh: Service):
    items = [{"metadata": {"name": name, "labels": {"zone": "a"}}} for name in ("3", "5")]
    body = {"Pod": pod("whole", "8"), "Nodes": {"kind": "NodeList", "items": items}}
    told = fresh.ask("POST", "/filter", body)
    assert told["Nodes"] == {"kind": "NodeList", "items": [items[0]]}
    assert told["NodeNames"] is None and told["FailedNodes"] == {"5": "the pod goes to 3"}


def test_only_nodes_that_are_offered_are_chosen(fresh: Service):
    assert verdict(fresh, pod("here", 4), ["6", "elsewhere"])["NodeNames"] == ["6"]
    told = verdict(fresh, pod("nowhere", 4), ["elsewhere", "6"])
    assert told["NodeNames"] == ["6"] and told["FailedNodes"] == {}
    told = verdict(fresh, pod("whole", 8), ["elsewhere", "6"])
    assert told["NodeNames"] == [] and "wait" in told["FailedNodes"]["6"]
    (why,) = told["FailedAndUnresolvableNodes"].values()
    assert "no server 'elsewhere' in small_leaf_spine" in why and "GET /cluster" in why
    assert verdict(fresh, pod("here", 4), ["1"])["NodeNames"] == ["1"]  # not bound, as it asks
    held = [job["placement"] for job in fresh.ask("GET", "/state")["running"]]
    assert sorted(gpus[0] // 8 for gpus in held) == [1, 6]


def test_an_answer_holds_until_a_state_confirms_or_denies_it(fresh: Service):
    (first,) = verdict(fresh, pod("one", 8))["NodeNames"]
    (second,) = verdict(fresh, pod("two", 8))["NodeNames"]
    assert first != second
    held = {job["id"]: job for job in fresh.ask("GET", "/state")["running"]}
    assert set(held) == {"default/one", "default/two"}
    kept = {"id": "default/one", "servers": {first: 8}, "started_s": 0, "estimate_s": 60}
    fresh.ask("PUT", "/state", {"time_s": 1, "running": [kept]})
    told = verdict(fresh, pod("one", 8))
    assert told["NodeNames"] == [] and "runs already" in told["FailedNodes"][first]
    assert verdict(fresh, pod("two", 8))["NodeNames"] == [second]


def test_a_state_older_than_an_answer_does_not_undo_it(fresh: Service):
    fresh.ask("PUT", "/state", {"time_s": 50})
    (first,) = verdict(fresh, pod("one", 8))["NodeNames"]
    refusal = fresh.refusal("/state", {"time_s": 49.5}, method="PUT")
    assert "a state of 50.0 was told already" in refusal
    fresh.ask("PUT", "/state", {"time_s": 50})
    assert verdict(fresh, pod("two", 8))["NodeNames"] != [first]
    assert {job["id"] for job in fresh.ask("GET", "/state")["running"]} == {
        "default/one", "default/two",
    }  # fmt: skip


def test_who_waits_is_remembered_when_a_state_tells_only_what_runs(fresh: Service):
    full = {"id": "r", "servers": dict.fromkeys(NODES, 8), "started_s": 0, "estimate_s": 9}
    fresh.ask("PUT", "/state", {"time_s": 1, "running": [full]})
    assert verdict(fresh, pod("short", 8, estimate_s="5"))["NodeNames"] == []
    most = full | {"servers": dict.fromkeys(NODES[1:], 8)}
    fresh.ask("PUT", "/state", {"time_s": 2, "running": [most]})
    assert verdict(fresh, pod("long", 8, estimate_s="500"))["NodeNames"] == []
    assert verdict(fresh, pod("short", 8, estimate_s="5"))["NodeNames"] == ["0"]


def test_a_pod_without_gpus_may_go_anywhere(fresh: Service):
    assert verdict(fresh, pod("web", 0))["NodeNames"] == NODES
    assert verdict(fresh, pod("bare", containers=[{}]))["NodeNames"] == NODES


def test_init_containers_count_one_by_one():
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}] * 2}
    init = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}} for gpus in ("3", "1")]
    assert read(Pod.model_validate({"metadata": {"name": "a"}, "spec": spec})).gpus == 4
    spec["initContainers"] = [*init, {"resources": {"limits": {"nvidia.com/gpu": 6}}}]
    asked = read(Pod.model_validate({"metadata": {"name": "a"}, "spec": spec}))
    assert asked.gpus == 6


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (pod("a", "1.5"), "limits['nvidia.com/gpu'] is '1.5'"),
        (pod("a", "-1"), "it must be a whole number"),
        (pod("a", estimate_s="soon"), "gpuyard.dev/estimate-s is 'soon'"),
        (pod("a", estimate_s="nan"), "it must be a number of seconds"),
        (pod("a", estimated="1"), "annotation gpuyard.dev/estimated is unknown"),
        (pod("a", group="g"), "give gpuyard.dev/group and gpuyard.dev/group-size"),
        (pod("a", group="g", group_size="0"), "group-size is '0'"),
        (pod("a", 8, group="g", group_size="9"), "even empty servers have room for 8 of them"),
        (pod("a", 8, group="g", group_size="99999999"), "its gang has 99999999 pods"),
        (pod("a", user=""), "its user cannot be"),
        (pod("a", 9), "limits['nvidia.com/gpu'] is 9; the largest server has 8 GPUs"),
    ],
)
def test_what_a_pod_cannot_say_is_told_as_the_error(fresh: Service, asked, words: str):
    assert words in verdict(fresh, asked)["Error"]
    assert words in fresh.refusal("/prioritize", {"Pod": asked, "NodeNames": NODES})


def test_pods_of_a_gang_are_alike_and_as_many_as_they_say(fresh: Service):
    gang = {"group": "g", "group_size": "2"}
    for name in ("g-0", "g-1"):
        assert len(verdict(fresh, pod(name, 4, **gang))["NodeNames"]) == 1
    assert "all 2 pods" in verdict(fresh, pod("g-2", 4, **gang))["Error"]
    assert "have to be alike" in verdict(fresh, pod("g-0", 2, **gang))["Error"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/filter", {"NodeNames": []}, "Pod: is missing"),
        ("/filter", {"Pod": {"spec": {}}, "NodeNames": []}, "Pod.metadata: is missing"),
        ("/prioritize", {"Pod": pod("a")}, "give Nodes or NodeNames"),
        ("/prioritize", {"Pod": pod("a"), "Nodes": {"items": [{}]}}, "Nodes.items[0].metadata"),
    ],
)
def test_what_is_no_request_of_an_extender_is_refused(service: Service, path, body, words: str):
    assert words in service.refusal(path, body)


def test_a_state_that_cannot_be_leaves_the_old_one(fresh: Service):
    good = {"id": "r", "placement": [0], "started_s": 0, "estimate_s": 1}
    fresh.ask("PUT", "/state", {"time_s": 5, "running": [good]})
    bad = {"time_s": 5, "running": [good | {"placement": [99]}]}
    assert "there is no GPU 99" in fresh.refusal("/state", bad, method="PUT")
    assert [job["placement"] for job in fresh.ask("GET", "/state")["running"]] == [[0]]


def asked_of(board: Any, *told: Any, nodes: list[str] = NODES, **more: str) -> Any:
    return board.ask(read(Pod.model_validate(pod(*told, **more))), nodes)


def test_a_pod_that_waits_keeps_its_place_and_is_forgotten_in_time(board_of: Callable[..., Any]):
    now_s = [100.0]
    board = board_of(lambda: now_s[0], "scheduler=fifo")
    for at in range(8):
        assert asked_of(board, f"first {at}", 7).server is not None
    assert asked_of(board, "big", 8).server is None
    now_s[0] = 120.0
    assert "lets default/behind wait" in asked_of(board, "behind", 1).reason  # first come
    now_s[0] = 152.0
    assert asked_of(board, "behind", 1).server is not None  # nobody asked for the others since


def test_answers_hold_by_the_own_clock_whatever_the_clock_of_states(board_of: Callable[..., Any]):
    now_s = [1.7e9]
    board = board_of(lambda: now_s[0], "scheduler=sjf")
    kept = asked_of(board, "early", 8)
    assert asked_of(board, "waits", 8, nodes=[kept.server]).server is None
    servers = dict.fromkeys([name for name in NODES if name != kept.server], 8)
    others = {"id": "r", "servers": servers, "started_s": 1.0, "estimate_s": 60.0}
    for told_s in (100.0, 1.7e12, 200.0):
        board.tell(StateForm.model_validate({"time_s": told_s, "running": [others]}))
        assert asked_of(board, "waits", 8).server is None
        state = board.state()
        times = [job.started_s for job in state.running] + [job.submitted_s for job in state.queue]
        assert len(times) == 3 and max(times) <= state.time_s
    now_s[0] += 49.0
    assert asked_of(board, "waits", 8).server is None
    now_s[0] += 2.0
    assert asked_of(board, "waits", 8).server == kept.server


def test_a_gang_that_runs_in_part_gets_the_rest_of_what_it_was_given(board_of: Callable[..., Any]):
    now_s = [100.0]
    board = board_of(lambda: now_s[0], "scheduler=sjf")
    gang = {"group": "g", "group_size": "2"}
    first = asked_of(board, "g-0", 8, **gang).server
    half = {"id": "default/g", "servers": {first: 8}, "started_s": 100.0, "estimate_s": 60.0}
    board.tell(StateForm.model_validate({"time_s": 101.0, "running": [half]}))
    (job,) = board.state().running
    assert job.id == "default/g" and len(job.placement) == 16
    second = asked_of(board, "g-1", 8, **gang).server
    assert second not in {None, first}
    whole = half | {"servers": {first: 8, second: 8}}
    board.tell(StateForm.model_validate({"time_s": 102.0, "running": [whole]}))
    assert "runs already" in asked_of(board, "g-1", 8, **gang).reason
    now_s[0] = 200.0
    (job,) = board.state().running
    assert len(job.placement) == 16


def test_a_gang_whose_rest_is_taken_runs_as_the_state_says(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    gang = {"group": "g", "group_size": "2"}
    first, second = (asked_of(board, name, 8, **gang).server for name in ("g-0", "g-1"))
    running = [
        {"id": name, "servers": {server: 8}, "started_s": 1.0, "estimate_s": 60.0}
        for name, server in (("default/g", first), ("x", second))
    ]
    board.tell(StateForm.model_validate({"time_s": 100.0, "running": running}))
    held = {job.id: len(job.placement) for job in board.state().running}
    assert held == {"default/g": 8, "x": 8}
    assert asked_of(board, "g-1", 8, **gang).server not in (None, first, second)


def test_a_state_drops_only_the_answers_that_it_leaves_no_room_for(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    first, second = (asked_of(board, name, 8).server for name in ("a", "b"))
    other = {"id": "x", "servers": {first: 8}, "started_s": 1.0, "estimate_s": 60.0}
    board.tell(StateForm.model_validate({"time_s": 100.0, "running": [other]}))
    assert {job.id for job in board.state().running} == {"x", "default/b"}
    assert asked_of(board, "c", 8).server not in {None, first, second}


def test_a_node_without_room_is_told_so(fresh: Service):
    fresh.ask("PUT", "/state", full_but("3") | {"away": ["3"]})
    told = verdict(fresh, pod("late", 4))["FailedNodes"]
    assert told["0"].endswith("wait at this instant; 0 has 0 free GPUs, the pod asks for 4")
    assert told["3"].endswith("; 3 takes nobody new (away)")


def full_but(*free: str) -> dict[str, Any]:
    servers = dict.fromkeys([name for name in NODES if name not in free], 8)
    run = {"id": "r", "servers": servers, "started_s": 0, "estimate_s": 9}
    return {"time_s": 1, "running": [run]}


@pytest.mark.parametrize("pool", [["0", "1"], ["0", "6"]])
def test_who_may_not_go_to_a_free_server_keeps_nobody_from_it(fresh: Service, pool: list[str]):
    fresh.ask("PUT", "/state", full_but("7"))
    for _ in range(2):
        assert verdict(fresh, pod("short", 8), pool)["NodeNames"] == []
    assert verdict(fresh, pod("long", 8, estimate_s="600"), ["6", "7"])["NodeNames"] == ["7"]
    assert verdict(fresh, pod("short", 8), pool)["NodeNames"] == []


def test_who_may_go_to_a_free_server_goes_first_if_shorter(fresh: Service):
    fresh.ask("PUT", "/state", full_but())
    assert verdict(fresh, pod("short", 8), ["6", "7"])["NodeNames"] == []
    fresh.ask("PUT", "/state", full_but("7"))
    assert verdict(fresh, pod("long", 8, estimate_s="600"), ["5", "7"])["NodeNames"] == []
    assert verdict(fresh, pod("short", 8), ["6", "7"])["NodeNames"] == ["7"]


def test_of_pods_made_in_one_second_the_first_to_ask_goes_first(fresh: Service):
    twins = [pod(name, 8, submitted_s="0") for name in ("one", "two")]
    fresh.ask("PUT", "/state", full_but())
    assert [verdict(fresh, each)["NodeNames"] for each in twins] == [[], []]
    fresh.ask("PUT", "/state", full_but("7"))
    assert [verdict(fresh, each)["NodeNames"] for each in reversed(twins)] == [[], ["7"]]
