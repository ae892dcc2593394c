"""What an extender holds to: gangs of whole pods, pods that come again, states and answers."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gpuyard.serving.forms import Pod, read
from tests.serving.conftest import NODES, Service, Talk, job, pod
from tests.serving.test_extender import verdict

Begun = Callable[..., Talk]
TWO = {"group": "g", "group_size": "2"}
THREE = TWO | {"group_size": "3"}
FOUR = TWO | {"group_size": "4"}


def test_a_pod_that_waits_keeps_its_place_and_is_forgotten_in_time(talk: Begun):
    board = talk(scheduler="fifo")
    assert None not in board.servers(*(f"first {at}" for at in range(8)), gpus=7)
    assert board.ask("big", 8).server is None
    board.now_s = 120.0
    assert "lets default/behind wait" in board.ask("behind", 1).reason  # first come
    board.now_s = 152.0
    assert board.ask("behind", 1).server is not None  # nobody asked for the others since


def test_answers_hold_by_the_own_clock_whatever_the_clock_of_states(talk: Begun):
    board = talk(now_s=1.7e9)
    kept = board.ask("early", 8).server
    assert board.ask("waits", 8, [kept]).server is None
    others = job("r", [name for name in NODES if name != kept], started_s=1.0)
    for told_s in (100.0, 1.7e12, 200.0):
        board.tell(others, time_s=told_s)
        assert board.ask("waits", 8).server is None
        state = board.board.state()
        times = [job.started_s for job in state.running] + [job.submitted_s for job in state.queue]
        assert len(times) == 3 and max(times) <= state.time_s
    board.now_s += 49.0
    assert board.ask("waits", 8).server is None
    board.now_s += 2.0
    assert board.ask("waits", 8).server == kept


def test_a_gang_that_runs_in_part_gets_the_rest_of_what_it_was_given(talk: Begun):
    board = talk()
    (first,) = board.servers("g-0", **TWO)
    board.tell(job("default/g", [first], started_s=100.0), time_s=101.0)
    assert board.held() == {"default/g": 16}
    (second,) = board.servers("g-1", **TWO)
    assert second not in {None, first}
    board.tell(job("default/g", [first, second], started_s=100.0), time_s=102.0)
    assert "runs already" in board.ask("g-1", 8, **TWO).reason
    board.now_s = 200.0
    assert board.held() == {"default/g": 16}


def test_a_gang_whose_rest_is_taken_runs_as_the_state_says(talk: Begun):
    board = talk()
    first, second = board.servers("g-0", "g-1", **TWO)
    board.tell(job("default/g", [first]), job("x", [second]))
    assert board.held() == {"default/g": 8, "x": 8}
    assert board.ask("g-1", 8, **TWO).server not in {None, first, second}


def test_a_state_drops_only_the_answers_that_it_leaves_no_room_for(talk: Begun):
    board = talk()
    first, second = board.servers("a", "b")
    board.tell(job("x", [first]))
    assert set(board.held()) == {"x", "default/b"}
    assert board.ask("c", 8).server not in {None, first, second}


def test_who_waits_for_what_no_filter_expresses_keeps_its_age_and_nobody_from_gpus(talk: Begun):
    board, long = talk(scheduler="srsf"), job("r", ["0"], estimate_s=9000.0)
    board.tell(long)
    assert "would preempt others" in board.ask("short", 8, ["0"]).reason
    board.now_s = 120.0
    board.tell(long, job("s", NODES[1:6], estimate_s=1), time_s=120.0)
    assert board.ask("long", 8, ["0", "6"], estimate_s="900").server == "6"
    (told,) = board.board.state().queue
    assert (told.id, told.submitted_s) == ("default/short", 100.0)


def test_who_goes_to_gpus_that_nobody_holds_preempts_nobody(talk: Begun):
    board = talk(scheduler="srsf")
    long = [job(f"r{name}", [name], estimate_s=9000.0) for name in NODES[:7]]
    half = job("x", {"7": 4}, started_s=99.0, estimate_s=2.0)
    waits = {"id": "q", "gpus": 8, "submitted_s": 0.0, "estimate_s": 1.0}
    answer = board.tell(*long, half, queue=[waits])
    assert [each.action for each in answer.decisions] == ["preempt", "start"]
    assert board.ask("other", 4, estimate_s="500").server == "7"


@pytest.mark.parametrize(("gpus", "pods"), [(5, 2), (6, 2), (3, 3), (7, 3), (8, 2), (2, 6)])
def test_pods_of_a_gang_lie_on_a_server_each_or_several_on_one(fresh: Service, gpus, pods):
    gang = {"group": "g", "group_size": str(pods)}
    nodes = [verdict(fresh, pod(f"g-{at}", gpus, **gang))["NodeNames"] for at in range(pods)]
    assert all(len(each) == 1 for each in nodes)
    assert max(Counter(node for (node,) in nodes).values()) * gpus <= 8


def test_of_a_gang_that_lost_a_pod_the_new_one_is_placed(talk: Begun):
    board = talk()
    board.tell(job("default/g", ["0", "1"]))
    server, again = board.servers("g-2", "g-2", **THREE)
    assert server == again not in {None, "0", "1"}
    assert "runs already" in board.ask("g-1", 8, **THREE).reason
    assert board.ask("else", 8).server not in {None, "0", "1", server}
    board.tell(job("default/g", ["0", "1", server]), time_s=101.0)
    assert set(board.held()) == {"default/g", "default/else"}


def test_a_pod_of_another_size_is_another_pod(talk: Begun):
    board = talk()
    assert None not in (board.ask("a", 8).server, board.ask("a", 2).server)
    assert list(board.held().values()) == [2]


def test_who_was_sent_to_a_server_that_went_away_is_sent_elsewhere(talk: Begun):
    board = talk()
    (first,) = board.servers("a")
    board.tell(away=[first])
    assert board.ask("a", 8).server not in {None, first}


def test_what_a_state_brings_is_decided_beside_what_was_answered(talk: Begun):
    board = talk()
    held = board.servers(*(f"a {at}" for at in range(7)))
    queue = [{"id": "q", "gpus": 8, "submitted_s": 0.0, "estimate_s": 1.0}]
    (start,) = board.tell(queue=queue).decisions
    assert start.job == "q" and set(start.servers) == set(NODES) - set(held)


def containers(*asked: Any) -> list[dict[str, Any]]:
    """With so many GPUs each; as a text of a sidecar, which stays beside what comes after it."""
    always = [{"restartPolicy": "Always"} if isinstance(gpus, str) else {} for gpus in asked]
    return [{"resources": {"limits": {"nvidia.com/gpu": gpus}}} | more
            for gpus, more in zip(asked, always, strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("init", "gpus"),
    [((), 4), ((3, 1), 4), ((3, 1, 6), 6), (("2",), 6), (("4", 5), 9), ((7, "4"), 8)],
)
def test_init_containers_count_one_by_one_and_sidecars_beside_the_others(init, gpus: int):
    spec = {"containers": containers(2, 2), "initContainers": containers(*init)}
    assert read(Pod.model_validate({"metadata": {"name": "a"}, "spec": spec})).gpus == gpus


def test_of_two_new_pods_the_one_that_a_state_shows_is_confirmed(talk: Begun):
    board = talk()
    board.tell(job("default/g", ["0", "1"]))
    two, three = board.servers("g-2", "g-3", **FOUR)
    assert len({two, three, "0", "1"}) == 4
    board.tell(job("default/g", ["0", "1", three]), time_s=101.0)
    assert set(board.held()) == {"default/g", "default/g-2"}
    assert board.servers("g-2", **FOUR) == [two]
    board.tell(job("default/g", ["0", "1", two, three]), time_s=102.0)
    assert set(board.held()) == {"default/g"}


def test_a_new_pod_goes_to_the_partition_of_its_gang(talk: Begun):
    board = talk("agents.count=2")
    board.tell(job("default/g", ["5", "6"]))
    (server,) = board.servers("g-2", partition="0", **THREE)
    assert server in {"4", "7"}
    board.tell(job("default/g", ["5", "6", server]), time_s=101.0)


def test_whole_pods_pass_by_servers_that_are_shut_or_of_other_partitions(talk: Begun):
    """A gang of two pods of 6 gets 8 + 4 of the scheduler; where may the second pod go?"""
    gang = TWO | {"partition": "0"}
    board = talk("agents.count=2")
    board.tell(away=["2", "3"])
    assert sorted(board.servers("g-0", "g-1", gpus=6, **gang)) == ["0", "1"]
    board = talk("agents.count=2")
    board.tell(job("r", {"0": 8, "1": 4}, estimate_s=99.0), away=["2"])
    told = board.ask("g-0", 6, **gang)  # 8 + 4 GPUs are free there, but one pod's place
    assert told.server is None and "would spread the 6 GPUs" in told.reason
    long = board.ask("long", 8, estimate_s="900", partition="0")
    assert long.server == "3"  # which the gang, though shorter, keeps from nobody


def test_a_new_pod_that_a_state_shows_is_held_no_longer(talk: Begun):
    board = talk()
    board.tell(job("default/g", {"0": 2, "1": 2}))
    (server,) = board.servers("g-2", gpus=2, **THREE)
    board.tell(job("default/g", Counter(["0", "0", "1", "1", server, server])), time_s=101.0)
    assert board.held() == {"default/g": 6}


def test_whole_pods_leave_what_others_are_started_on(talk: Begun):
    """Three free servers, half of one goes to the shorter job that waits."""
    board = talk()
    first = {"id": "q", "gpus": 4, "submitted_s": 0.0, "estimate_s": 1.0}
    answer = board.tell(job("r", NODES[:5], estimate_s=99), queue=[first])
    (taken,) = answer.decisions[0].servers
    assert {*board.servers("g-0", "g-1", gpus=6, **TWO), taken} == {"5", "6", "7"}


def test_what_a_state_orders_is_for_its_own_queue(talk: Begun):
    board, runs = talk(), job("r", NODES[:7], estimate_s=99)
    board.tell(runs)
    assert board.ask("w", 8, ["3"], estimate_s="1").server is None
    waits = {"id": "q", "gpus": 8, "submitted_s": 0.0, "estimate_s": 50.0}
    (start,) = board.tell(runs, queue=[waits]).decisions
    assert (start.action, start.job, start.servers) == ("start", "q", {"7": 8})


def test_a_group_without_a_name_is_none():
    assert read(Pod.model_validate(pod("a", group=""))).job == "default/a"
