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
