"""What an extender holds to: gangs of whole pods, pods that come again, states and answers."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gpuyard.serving.forms import Pod, StateForm, read
from tests.serving.conftest import Service
from tests.serving.test_extender import NODES, asked_of, pod, verdict


def test_who_waits_for_what_no_filter_expresses_keeps_its_age_and_nobody_from_gpus(
    board_of: Callable[..., Any],
):
    now_s = [100.0]
    board = board_of(lambda: now_s[0], "scheduler=srsf")
    runs = {"id": "r", "servers": {"0": 8}, "started_s": 0.0, "estimate_s": 9000.0}
    board.tell(StateForm.model_validate({"time_s": 100.0, "running": [runs]}))
    assert "would preempt others" in asked_of(board, "short", 8, nodes=["0"]).reason
    now_s[0] = 120.0
    full = {"id": "s", "servers": dict.fromkeys(NODES[1:6], 8), "started_s": 0.0, "estimate_s": 1}
    board.tell(StateForm.model_validate({"time_s": 120.0, "running": [runs, full]}))
    assert asked_of(board, "long", 8, estimate_s="900", nodes=["0", "6"]).server == "6"
    (told,) = board.state().queue
    assert (told.id, told.submitted_s) == ("default/short", 100.0)


def test_who_goes_to_gpus_that_nobody_holds_preempts_nobody(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=srsf")
    waits = {"id": "q", "gpus": 8, "submitted_s": 0.0, "estimate_s": 1.0}
    running = [
        {"id": f"r{at}", "servers": {name: 8}, "started_s": 0.0, "estimate_s": 9000.0}
        for at, name in enumerate(NODES[:7])
    ] + [{"id": "x", "servers": {"7": 4}, "started_s": 99.0, "estimate_s": 2.0}]
    told = {"time_s": 100.0, "queue": [waits], "running": running}
    answer = board.tell(StateForm.model_validate(told))
    assert [each.action for each in answer.decisions] == ["preempt", "start"]
    assert asked_of(board, "other", 4, estimate_s="500").server == "7"


@pytest.mark.parametrize(("gpus", "pods"), [(5, 2), (6, 2), (3, 3), (7, 3), (8, 2), (2, 6)])
def test_pods_of_a_gang_lie_on_a_server_each_or_several_on_one(fresh: Service, gpus, pods):
    gang = {"group": "g", "group_size": str(pods)}
    nodes = [verdict(fresh, pod(f"g-{at}", gpus, **gang))["NodeNames"] for at in range(pods)]
    assert all(len(each) == 1 for each in nodes)
    assert max(Counter(node for (node,) in nodes).values()) * gpus <= 8


def test_of_a_gang_that_lost_a_pod_the_new_one_is_placed(board_of: Callable[..., Any]):
    board, gang = board_of(lambda: 100.0, "scheduler=sjf"), {"group": "g", "group_size": "3"}
    runs = {"id": "default/g", "servers": {"0": 8, "1": 8}, "started_s": 0.0, "estimate_s": 60.0}
    board.tell(StateForm.model_validate({"time_s": 100.0, "running": [runs]}))
    server = asked_of(board, "g-2", 8, **gang).server
    assert server not in {None, "0", "1"}
    assert asked_of(board, "g-2", 8, **gang).server == server
    assert "runs already" in asked_of(board, "g-1", 8, **gang).reason
    assert asked_of(board, "else", 8).server not in {None, "0", "1", server}
    whole = runs | {"servers": {"0": 8, "1": 8, server: 8}}
    board.tell(StateForm.model_validate({"time_s": 101.0, "running": [whole]}))
    assert {job.id for job in board.state().running} == {"default/g", "default/else"}


def test_a_pod_of_another_size_is_another_pod(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    assert asked_of(board, "a", 8).server is not None
    assert asked_of(board, "a", 2).server is not None
    assert [len(job.placement) for job in board.state().running] == [2]


def test_who_was_sent_to_a_server_that_went_away_is_sent_elsewhere(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    first = asked_of(board, "a", 8).server
    board.tell(StateForm.model_validate({"time_s": 100.0, "away": [first]}))
    assert asked_of(board, "a", 8).server not in {None, first}


def test_what_a_state_brings_is_decided_beside_what_was_answered(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    held = [asked_of(board, f"a {at}", 8).server for at in range(7)]
    queue = [{"id": "q", "gpus": 8, "submitted_s": 0.0, "estimate_s": 1.0}]
    answer = board.tell(StateForm.model_validate({"time_s": 100.0, "queue": queue}))
    (start,) = answer.decisions
    assert start.job == "q" and set(start.servers) == set(NODES) - set(held)


def test_sidecars_stay_beside_what_comes_after_them():
    def asks(gpus: int, **more: str) -> dict[str, Any]:
        return {"resources": {"limits": {"nvidia.com/gpu": gpus}}} | more

    def gpus(init: list[dict[str, Any]]) -> int:
        spec = {"containers": [asks(2)], "initContainers": init}
        return read(Pod.model_validate({"metadata": {"name": "a"}, "spec": spec})).gpus

    assert gpus([asks(4, restartPolicy="Always")]) == 6
    assert gpus([asks(4, restartPolicy="Always"), asks(3)]) == 7
    assert gpus([asks(3), asks(4, restartPolicy="Always")]) == 6


def gang_of(board: Any, servers: dict[str, int], pods: int, time_s: float) -> dict[str, str]:
    """Tell that a gang runs on these servers; its annotations."""
    runs = {"id": "default/g", "servers": servers, "started_s": 0.0, "estimate_s": 60.0}
    board.tell(StateForm.model_validate({"time_s": time_s, "running": [runs]}))
    return {"group": "g", "group_size": str(pods)}


def test_of_two_new_pods_the_one_that_a_state_shows_is_confirmed(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    gang = gang_of(board, {"0": 8, "1": 8}, 4, 100.0)
    two, three = (asked_of(board, name, 8, **gang).server for name in ("g-2", "g-3"))
    assert len({two, three, "0", "1"}) == 4
    gang_of(board, {"0": 8, "1": 8, three: 8}, 4, 101.0)
    assert {job.id for job in board.state().running} == {"default/g", "default/g-2"}
    assert asked_of(board, "g-2", 8, **gang).server == two
    gang_of(board, {"0": 8, "1": 8, two: 8, three: 8}, 4, 102.0)
    assert {job.id for job in board.state().running} == {"default/g"}


def test_a_new_pod_goes_to_the_partition_of_its_gang(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf", "agents.count=2")
    gang = gang_of(board, {"5": 8, "6": 8}, 3, 100.0) | {"partition": "0"}
    server = asked_of(board, "g-2", 8, **gang).server
    assert server in {"4", "7"}
    gang_of(board, {"5": 8, "6": 8, server: 8}, 3, 101.0)


def test_whole_pods_pass_by_servers_that_are_shut_or_of_other_partitions(
    board_of: Callable[..., Any],
):
    """A gang of two pods of 6 gets 8 + 4 of the scheduler; where may the second pod go?"""
    gang = {"group": "g", "group_size": "2", "partition": "0"}
    board = board_of(lambda: 100.0, "scheduler=sjf", "agents.count=2")
    away = {"time_s": 100.0, "away": ["2", "3"]}
    board.tell(StateForm.model_validate(away))
    servers = [asked_of(board, name, 6, **gang).server for name in ("g-0", "g-1")]
    assert sorted(servers) == ["0", "1"]
    held = {"id": "r", "servers": {"0": 8, "1": 4}, "started_s": 0.0, "estimate_s": 99.0}
    board = board_of(lambda: 100.0, "scheduler=sjf", "agents.count=2")
    board.tell(StateForm.model_validate(away | {"away": ["2"], "running": [held]}))
    told = asked_of(board, "g-0", 6, **gang)  # 8 + 4 GPUs are free there, but one pod's place
    assert told.server is None and "would spread the 6 GPUs" in told.reason
    long = asked_of(board, "long", 8, estimate_s="900", partition="0")
    assert long.server == "3"  # which the gang, though shorter, keeps from nobody


def test_a_new_pod_that_a_state_shows_is_held_no_longer(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    gang = gang_of(board, {"0": 2, "1": 2}, 3, 100.0)
    server = asked_of(board, "g-2", 2, **gang).server
    whole = {"0": 2, "1": 2}
    whole[server] = whole.get(server, 0) + 2
    gang_of(board, whole, 3, 101.0)
    (only,) = board.state().running
    assert only.id == "default/g" and len(only.placement) == 6


def test_whole_pods_leave_what_others_are_started_on(board_of: Callable[..., Any]):
    """Three free servers, half of one goes to the shorter job that waits."""
    board = board_of(lambda: 100.0, "scheduler=sjf")
    runs = {"id": "r", "servers": dict.fromkeys(NODES[:5], 8), "started_s": 0.0, "estimate_s": 99}
    first = {"id": "q", "gpus": 4, "submitted_s": 0.0, "estimate_s": 1.0}
    told = {"time_s": 100.0, "running": [runs], "queue": [first]}
    answer = board.tell(StateForm.model_validate(told))
    (taken,) = answer.decisions[0].servers
    gang = {"group": "g", "group_size": "2"}
    servers = [asked_of(board, name, 6, **gang).server for name in ("g-0", "g-1")]
    assert {*servers, taken} == {"5", "6", "7"}


def test_what_a_state_orders_is_for_its_own_queue(board_of: Callable[..., Any]):
    board = board_of(lambda: 100.0, "scheduler=sjf")
    runs = {"id": "r", "servers": dict.fromkeys(NODES[:7], 8), "started_s": 0.0, "estimate_s": 99}
    board.tell(StateForm.model_validate({"time_s": 100.0, "running": [runs]}))
    assert asked_of(board, "w", 8, estimate_s="1", nodes=["3"]).server is None
    waits = {"id": "q", "gpus": 8, "submitted_s": 0.0, "estimate_s": 50.0}
    told = {"time_s": 100.0, "running": [runs], "queue": [waits]}
    (start,) = board.tell(StateForm.model_validate(told)).decisions
    assert (start.action, start.job, start.servers) == ("start", "q", {"7": 8})


def test_a_group_without_a_name_is_none():
    told = pod("a") | {"metadata": {"name": "a", "annotations": {"gpuyard.dev/group": ""}}}
    assert read(Pod.model_validate(told)).job == "default/a"
