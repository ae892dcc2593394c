"""A Kubernetes scheduler asks for pods one by one and is answered as the simulator decides."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuyard.evaluation.experiment import composition_of, experiment_of
from gpuyard.serving.forms import Asked, Pod, read
from sim.jobs import JobTable
from sim.run import Kind, Run
from sim.simulator import simulate
from tests.serving.conftest import CLUSTER, NODES, Service, job, pod

PODS = json.loads((Path(__file__).parent / "pods.json").read_text())


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


def full_but(*free: str) -> dict[str, Any]:
    return {"time_s": 1, "running": [job("r", [name for name in NODES if name not in free])]}


def nodes(service: Service, name: str, gpus: int, pool: list[str] = NODES, **more: Any) -> Any:
    return verdict(service, pod(name, gpus, **more), pool)["NodeNames"]


def running(service: Service) -> set[str]:
    return {job["id"] for job in service.ask("GET", "/state")["running"]}


def test_nodes_given_whole_come_back_whole(fresh: Service):
    items = [{"metadata": {"name": name, "labels": {"zone": "a"}}} for name in ("3", "5")]
    body = {"Pod": pod("whole", "8"), "Nodes": {"kind": "NodeList", "items": items}}
    told = fresh.ask("POST", "/filter", body)
    assert told["Nodes"] == {"kind": "NodeList", "items": [items[0]]}
    assert told["NodeNames"] is None and told["FailedNodes"] == {"5": "the pod goes to 3"}


def test_only_nodes_that_are_offered_are_chosen(fresh: Service):
    assert nodes(fresh, "here", 4, ["6", "elsewhere"]) == ["6"]
    told = verdict(fresh, pod("nowhere", 4), ["elsewhere", "6"])
    assert told["NodeNames"] == ["6"] and told["FailedNodes"] == {}
    told = verdict(fresh, pod("whole", 8), ["elsewhere", "6"])
    assert told["NodeNames"] == [] and "wait" in told["FailedNodes"]["6"]
    (why,) = told["FailedAndUnresolvableNodes"].values()
    assert "no server 'elsewhere' in small_leaf_spine" in why and "GET /cluster" in why
    assert nodes(fresh, "here", 4, ["1"]) == ["1"]  # not bound, as it asks
    held = [job["placement"] for job in fresh.ask("GET", "/state")["running"]]
    assert sorted(gpus[0] // 8 for gpus in held) == [1, 6]


def test_an_answer_holds_until_a_state_confirms_or_denies_it(fresh: Service):
    (first,), (second,) = nodes(fresh, "one", 8), nodes(fresh, "two", 8)
    assert first != second
    assert running(fresh) == {"default/one", "default/two"}
    fresh.ask("PUT", "/state", {"time_s": 1, "running": [job("default/one", [first])]})
    told = verdict(fresh, pod("one", 8))
    assert told["NodeNames"] == [] and "runs already" in told["FailedNodes"][first]
    assert nodes(fresh, "two", 8) == [second]


def test_a_state_older_than_an_answer_does_not_undo_it(fresh: Service):
    fresh.ask("PUT", "/state", {"time_s": 50})
    (first,) = nodes(fresh, "one", 8)
    refusal = fresh.refusal("/state", {"time_s": 49.5}, method="PUT")
    assert "a state of 50.0 was told already" in refusal
    fresh.ask("PUT", "/state", {"time_s": 50})
    assert nodes(fresh, "two", 8) != [first]
    assert running(fresh) == {"default/one", "default/two"}


def test_who_waits_is_remembered_when_a_state_tells_only_what_runs(fresh: Service):
    fresh.ask("PUT", "/state", full_but())
    assert nodes(fresh, "short", 8, estimate_s="5") == []
    fresh.ask("PUT", "/state", full_but("0") | {"time_s": 2})
    assert nodes(fresh, "long", 8, estimate_s="500") == []
    assert nodes(fresh, "short", 8, estimate_s="5") == ["0"]


def test_a_pod_without_gpus_may_go_anywhere(fresh: Service):
    assert nodes(fresh, "web", 0) == NODES
    assert nodes(fresh, "bare", 0, containers=[{}]) == NODES


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
        (pod("a", 8, group="g", group_size="99999999"), "its gang has 99,999,999 pods"),
        (pod("a", user=""), "its user cannot be"),
        (pod("a", 9), "limits['nvidia.com/gpu'] is 9; the largest server has 8 GPUs"),
    ],
)
def test_what_a_pod_cannot_say_is_told_as_the_error(fresh: Service, asked, words: str):
    assert words in verdict(fresh, asked)["Error"]
    assert words in fresh.refusal("/prioritize", {"Pod": asked, "NodeNames": NODES})


def test_pods_of_a_gang_are_alike_and_as_many_as_they_say(fresh: Service):
    gang = {"group": "g", "group_size": "2"}
    assert [len(nodes(fresh, name, 4, **gang)) for name in ("g-0", "g-1")] == [1, 1]
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


def test_a_node_without_room_is_told_so(fresh: Service):
    fresh.ask("PUT", "/state", full_but("3") | {"away": ["3"]})
    told = verdict(fresh, pod("late", 4))["FailedNodes"]
    assert told["0"].endswith("wait at this instant; 0 has 0 free GPUs, the pod asks for 4")
    assert told["3"].endswith("; 3 takes nobody new (away)")


@pytest.mark.parametrize("pool", [["0", "1"], ["0", "6"]])
def test_who_may_not_go_to_a_free_server_keeps_nobody_from_it(fresh: Service, pool: list[str]):
    fresh.ask("PUT", "/state", full_but("7"))
    for _ in range(2):
        assert nodes(fresh, "short", 8, pool) == []
    assert nodes(fresh, "long", 8, ["6", "7"], estimate_s="600") == ["7"]
    assert nodes(fresh, "short", 8, pool) == []


def test_who_may_go_to_a_free_server_goes_first_if_shorter(fresh: Service):
    fresh.ask("PUT", "/state", full_but())
    assert nodes(fresh, "short", 8, ["6", "7"]) == []
    fresh.ask("PUT", "/state", full_but("7"))
    assert nodes(fresh, "long", 8, ["5", "7"], estimate_s="600") == []
    assert nodes(fresh, "short", 8, ["6", "7"]) == ["7"]


def test_of_pods_made_in_one_second_the_first_to_ask_goes_first(fresh: Service):
    fresh.ask("PUT", "/state", full_but())
    assert [nodes(fresh, name, 8, submitted_s="0") for name in ("one", "two")] == [[], []]
    fresh.ask("PUT", "/state", full_but("7"))
    assert [nodes(fresh, name, 8, submitted_s="0") for name in ("two", "one")] == [[], ["7"]]
