"""`/decide`: orders for a state, words for what is none, and a trace played against it."""

import json
import re
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuyard.evaluation.experiment import composition_of, experiment_of
from gpuyard.serving.app import _words
from gpuyard.serving.client import Connection, ServedScheduler, ServiceError
from gpuyard.serving.decider import Decider
from gpuyard.serving.forms import RequestError, StateForm
from gpuyard.serving.instants import Defaults, Setter, numbers_of
from sim.decision import Decision, Start
from sim.errors import InvalidDecision
from sim.protocols import Scheduler
from sim.run import Kind
from sim.simulator import simulate
from sim.view import ClusterView, Signal
from tests.serving.conftest import CLUSTER, Service, Talk, job, served
from tests.sim.scripted import Scripted


def waiting(name: str, gpus: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": name, "gpus": gpus, "submitted_s": 0, "estimate_s": 60} | more


def running(name: str, *placement: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "placement": list(placement), "started_s": 5, "estimate_s": 60} | more


def state(*queue: dict[str, Any], runs: tuple[dict[str, Any], ...] = (), **more: Any) -> Any:
    return {"time_s": 10, "queue": list(queue), "running": list(runs)} | more


def test_the_shortest_starts_first_on_gpus_that_nobody_holds(service: Service):
    body = state(
        waiting("long", 48, estimate_s=900), waiting("short", 16, estimate_s=30),
        waiting("last", 48, estimate_s=1000), runs=(running("r", 0, 1),),
    )  # fmt: skip
    told = service.ask("POST", "/decide", body)
    assert service.status == 200
    starts = told["decisions"]
    assert [(each["action"], each["job"]) for each in starts] == [("start", "short")]
    assert len(starts[0]["gpus"]) == 16 and not {0, 1} & set(starts[0]["gpus"])
    assert sum(starts[0]["servers"].values()) == 16
    assert told["waiting"] == ["long", "last"]
    assert (told["turns"], told["ask_again_s"], told["assumed"]["profile"]) == (1, None, 4)


def test_where_nobody_waits_there_is_nothing_to_do(service: Service):
    for body in (state(), state(runs=(running("r", 3),))):
        told = service.ask("POST", "/decide", body)
        assert (told["decisions"], told["waiting"]) == ([], [])


def test_nobody_is_sent_to_a_server_that_is_away_and_who_runs_there_stays(service: Service):
    away = [str(server) for server in range(7)]
    told = service.ask("POST", "/decide", state(waiting("a", 8), waiting("b", 1), away=away))
    assert [each["servers"] for each in told["decisions"]] == [{"7": 8}]
    body = state(waiting("a", 8), runs=(running("r", 0),), away=away)
    assert service.ask("POST", "/decide", body)["decisions"][0]["servers"] == {"7": 8}


def test_a_placement_may_be_told_by_servers(service: Service):
    runs = ({"id": "r", "servers": {"0": 8, "1": 8}, "started_s": 1, "estimate_s": 9},)
    told = service.ask("POST", "/decide", state(waiting("a", 48), runs=runs))
    assert sorted(told["decisions"][0]["gpus"]) == list(range(16, 64))


def test_it_describes_cluster_and_schema(service: Service):
    cluster = service.ask("GET", "/cluster")
    assert (cluster["gpus"], len(cluster["servers"]), cluster["needs"]) == (64, 8, ["estimate_s"])
    paths = service.ask("GET", "/openapi.json")["paths"]
    assert {"/decide", "/state", "/filter", "/prioritize", "/cluster", "/healthz"} == set(paths)
    answer = paths["/decide"]["post"]["responses"]["200"]["content"]["application/json"]
    assert answer["schema"]["$ref"].endswith("AnswerForm")


def test_the_page_of_the_schema_needs_no_network(service: Service):
    page = service.text("/docs")
    linked = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(linked) >= 3
    for link in linked:
        assert link.startswith("/"), link
        assert (len(service.text(link)) > 0, service.status) == (True, 200), link


@pytest.mark.parametrize(("body", "words"), [
    ("{", "the body is no JSON"),
    ("[]", "the body is []"),
    ({"queue": []}, "time_s: is missing"),
    (state(at=3), "at: nobody reads this key"),
    (state(body=3), "body: nobody reads this key"),
    (state({"id": "a", "gpu": 1, "submitted_s": 0}),
     "queue[0].gpu (job a): nobody reads this key; did you mean gpus?"),
    (state(waiting("a"), waiting("b", 0)), "queue[1].gpus (job b) is 0"),
    (state(waiting("a", "four")), "queue[0].gpus (job a) is 'four'"),
    (state(waiting("a", True)), "queue[0].gpus (job a) is True"),
    (state(waiting("a", estimate_s=-1)), "queue[0].estimate_s (job a) is -1"),
    (state(waiting("a", estimate_s=None)), "queue[0] (job a): estimate_s is missing"),
    (json.dumps(state(waiting("a"))).replace("60", "NaN"), "queue[0].estimate_s (job a)"),
    (state(waiting("a", submitted_s=11)), "queue[0] (job a): submitted_s is 11.0, after time"),
    (state(waiting("a", ready_s=11)), "queue[0] (job a): ready_s is 11.0, after time"),
    (state(waiting("a", submitted_s=9, ready_s=8)), "ready_s is 8.0, before submitted_s, 9.0"),
    (state(waiting("a", partition=1)), "queue[0] (job a): partition is 1; there are 0 to 0"),
    (state(waiting("a", profile="vgg_16")), "queue[0] (job a).profile is 'vgg_16'"),
    (state(waiting("a"), waiting("a")), "queue[1] (job a): the id is given twice"),
    (state(waiting("a"), runs=(running("a", 0),)), "queue[0] (job a): the id is given twice"),
    (state(runs=(running("r"),)), "running[0].placement (job r)"),
    (state(runs=(running("r", 64),)), "running[0] (job r).placement: there is no GPU 64"),
    (state(runs=(running("r", -1),)), "there is no GPU -1"),
    (state(runs=(running("r", 3, 3),)), "GPU 3 is named twice"),
    (state(runs=tuple(running(name, 5) for name in "abc")),
     "GPU 5 is in the placements of jobs a, b, c; at most 2"),
    (state(runs=(running("r", 0, started_s=11),)), "started_s is 11.0, after time_s"),
    (state(runs=(running("r", 0, submitted_s=7),)), "submitted_s is 7.0, after started_s"),
    (state(runs=(running("r", 0, resume_s=4),)), "resume_s is 4.0, before started_s, 5.0"),
    (state(runs=(running("r", 0, progress_s=5000),)),
     "running[0] (job r): progress_s is 5000.0, above estimate_s, 60.0"),
    (state(waiting("a", submitted_s=9, progress_s=101)), "queue[0] (job a): progress_s is 101"),
    (state(runs=(running("r", 0, servers={"0": 1}),)), "give placement or servers"),
    (state(runs=({"id": "r", "servers": {"0": 9}, "started_s": 1},)),
     "running[0] (job r).servers: 9 GPUs of 0, which has 8"),
    (state(runs=({"id": "r", "servers": {"x": 1}, "started_s": 1},)),
     "there is no server 'x'"),
    (state(runs=(running("r", 0, gpu_types=["h900"]),)),
     "running[0] (job r): gpu_types is h900; small_leaf_spine has p100"),
    (state(waiting("a", memory_gib_per_gpu=1e15)), "queue[0].memory_gib_per_gpu (job a) is"),
    (state(away=["12"]), "away[0]: there is no server '12'"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_words(service: Service, body: Any, words: str):
    assert words in service.refusal("/decide", body)


def test_the_header_that_clients_forget_is_named(service: Service):
    told = service.ask("POST", "/decide", state(waiting("a")), **{"Content-Type": "text/plain"})
    assert service.status == 422 and "the header content-type: application/json" in told["error"]


def test_jobs_that_can_never_start_are_told_and_the_others_decided(service: Service):
    body = state(waiting("huge", 65), waiting("a", 8, gpu_types=["P100", "H900"]),
                 waiting("alien", gpu_types=["h900"]))  # fmt: skip
    told = service.ask("POST", "/decide", body)
    assert [each["job"] for each in told["decisions"]] == ["a"]
    assert told["impossible"]["huge"].startswith("gpus is 65; the largest partition has 64")
    assert "gpu_types is h900; small_leaf_spine has p100" in told["impossible"]["alien"]
    assert service.ask("POST", "/decide", state(waiting("huge", 65)))["waiting"] == []


@pytest.mark.parametrize("name", ["H100", "h100-sxm5", "NVIDIA-H100-80GB-HBM3"])
def test_a_type_has_the_names_that_it_has_in_traces(talk: Callable[..., Talk], name: str):
    board = talk("topology.gpu_types=[p100,h100]", scheduler="fifo")
    told = board.decide(state(waiting("a", 8, gpu_types=[name])))
    assert [each.servers for each in told.decisions] == [{"1": 8}], told.impossible


def test_types_cores_and_memory_decide_where_a_job_starts(talk: Callable[..., Talk]):
    board = talk("topology.gpu_types=[p100,v100]", "topology.cpu_milli=8000", scheduler="fifo")
    fast = waiting("fast", 8, gpu_types=["v100"], cores_per_gpu=1.0)
    told = board.decide(state(fast, waiting("many", cores_per_gpu=9.0)))
    assert [each.servers for each in told.decisions] == [{"1": 8}]
    assert told.impossible["many"] == (
        "gpus is 1, each with 9 cores and 0 GiB; no partition has room for more than 0"
    )
    told = board.decide(state(waiting("wide", 60, cores_per_gpu=2.0)))  # 8 servers of 8 cores
    assert "no partition has room for more than 32" in told.impossible["wide"]
    told = board.decide(state(fast, runs=(running("r", 8, cores_per_gpu=1.0),)))
    assert [each.servers for each in told.decisions] == [{"3": 8}]


def test_parts_of_gpus_are_told_by_servers(talk: Callable[..., Talk]):
    board = talk("placer=packed", scheduler="fifo")
    halves = [job(f"r{at}", {"0": 1}, gpu_milli=500) for at in range(17)]
    body = {"time_s": 10, "running": halves[:16], "queue": [waiting("q", 8)]}
    assert [each.servers for each in board.decide(body).decisions] == [{"1": 8}]
    with pytest.raises(RequestError, match="which has 0 that other jobs of the request leave"):
        board.decide(body | {"running": halves})


def test_an_own_scheduler_may_name_gpus_in_a_list_and_is_named_where_it_errs(
    talk: Callable[..., Talk],
):
    own = Scripted(Decision(starts=(Start(0, [9]),)))
    decider = Decider(talk().decider.world, own, Defaults(None, None), 0)
    form = StateForm.model_validate(state(waiting("q")))
    assert [each.gpus for each in decider.decide(form).decisions] == [[9]]
    own.script = (Decision(starts=(Start(0.5, [9]),)),)
    told = r"Scripted.decide gives a start of job 0\.5; it must"
    with pytest.raises(InvalidDecision, match=told):
        decider.decide(form)


def test_what_may_be_is_not_refused(service: Service):
    runs = (
        running("began", 0, resume_s=5), running("restarts", 1, resume_s=20, restarts=1),
        running("from an older job", 2, progress_s=50), running("outlasts", 3, progress_s=400),
        running("kept", 5, started_s=10, progress_s=61, restarts=1),
        running("no estimate needed", 4, started_s=10, estimate_s=1e9, progress_s=1e9),
    )  # fmt: skip
    body = state(waiting("waits", submitted_s=10, progress_s=60), runs=runs)
    assert service.ask("POST", "/decide", body)["decisions"][0]["job"] == "waits"


def test_where_there_is_no_such_route_is_told_in_the_same_form(service: Service):
    assert service.refusal("/nosuch", {}, 404) == "POST /nosuch: not found (GET /docs)"
    assert "GET /decide: method not allowed" in service.refusal("/decide", None, 405, "GET")


def test_a_larger_body_is_refused_told_or_not(service: Service):
    body = state(*(waiting(f"job {at}") for at in range(1000)))
    assert "max_body_bytes" in service.refusal("/decide", body, status=413)
    chunks = iter([b"x" * 9000] * 9)  # sent without a length
    told = service.ask("POST", "/decide", chunks)
    assert (service.status, "max_body_bytes" in told["error"]) == (413, True)
    assert "max_body_bytes" in service.refusal("/decide", {"huge": "x" * 50_000_000}, status=413)
    assert service.ask("GET", "/healthz") == {"status": "ok"}


def test_equal_requests_get_equal_answers(service: Service):
    body = state(waiting("a", 3), waiting("b", 5), runs=(running("r", 0, 1, 2),))
    assert service.ask("POST", "/decide", body) == service.ask("POST", "/decide", body)


def test_a_job_without_progress_has_done_what_its_speed_makes(talk: Callable[..., Talk]):
    setter = Setter(talk().decider.world, Signal.PREDICTION, Defaults(None, None))
    runs = (running("r", 0, 1), running("s", 8, progress_s=4.0, restarts=1))
    form = StateForm.model_validate(state(waiting("a"), runs=runs))
    opened = setter.set(form, numbers_of(form))
    assert opened is not None
    rows = opened.simulator.state.job
    r, s = (rows[opened.ids.index(name)] for name in "rs")
    assert r["progress_s"] == pytest.approx(5.0)  # compact and alone: speed 1
    assert (s["progress_s"], s["restarts"], r["attained_gpu_s"]) == (4.0, 1, 10.0)


@pytest.mark.parametrize("body", ['{"time_s": 1, "\\ud800": 2}', '{"time_s": "\\ud800"}'])
def test_halves_of_letters_are_told_as_they_were_sent(service: Service, body: str):
    assert "\\ud800" in service.refusal("/decide", body)


def test_a_wrong_key_is_likened_to_those_of_its_place(service: Service):
    assert "did you mean running?" in service.refusal("/decide", {"time_s": 1, "runnin": []})
    assert "did you mean" not in service.refusal("/decide", {"time_s": 1, "gpu": 1})
    placed = {"id": "a", "placement": [0], "started_s": 0, "partition": 0}  # it is where it runs
    told = service.refusal("/decide", {"time_s": 1, "running": [placed]})
    assert told.endswith("running[0].partition (job a): nobody reads this key")


def test_what_is_long_is_told_in_short(service: Service):
    told = service.refusal("/decide", {"time_s": 1, "k" * 19_000: 1})
    assert told.endswith("...: nobody reads this key") and len(told) < 100
    assert len(service.refusal("/" + "a" * 19_000, {}, 404)) < 200


def test_for_a_key_of_megabytes_no_near_one_is_looked_for():
    fault = {"type": "extra_forbidden", "loc": ("body", "k" * 3_000_000), "input": 1}
    began_s = time.process_time()
    assert "nobody reads this key" in _words(fault, {})
    assert time.process_time() - began_s < 5.0


def test_a_path_that_ends_otherwise_is_none_whatever_host_is_named(service: Service):
    told = service.ask("POST", "/decide/", state(), Host="elsewhere.example")
    assert service.status == 404 and "/decide/: not found" in told["error"]


JOBS = ("workload=venus_like", "workload.num_jobs=100", "workload.load=1.5")


class Both:
    """Asks two schedulers at every decision, and goes on as the first says."""

    name = "both"

    def __init__(self, own: Scheduler, other: Scheduler) -> None:
        self.own, self.other = own, other
        self.needs = own.needs | other.needs
        self.orders = 0

    def reset(self, seed: int) -> None:
        self.own.reset(seed)
        self.other.reset(seed)

    def decide(self, view: ClusterView) -> Decision:
        own, other = self.own.decide(view), self.other.decide(view)
        assert plain(own) == plain(other), f"at t={view.now_s}"
        self.orders += len(own.starts) + len(own.preempts) + len(own.forwards)
        return own


def plain(decision: Decision) -> Any:
    starts = [(each.job, each.gpus.tolist(), each.lease_s) for each in decision.starts]
    return starts, decision.preempts, decision.forwards, decision.wake_s, decision.again


def played(config: dict[str, Any], url: str) -> Both:
    """The jobs, many submitted at one time, to their end; the service decides, too."""
    experiment = experiment_of(config)
    own = composition_of(config, experiment.world.partitions)
    both = Both(own, ServedScheduler(url=url, token_file=None, timeout_s=60.0))
    jobs = experiment.whole()
    jobs = replace(jobs, submit_s=np.floor(jobs.submit_s / 20_000.0) * 20_000.0)
    simulator = experiment.world.simulator(jobs)
    run = simulate(simulator, both, experiment.seed, None, compiled=False)
    assert (run.finish_s > 0).all()
    return both


def test_sjf_decides_as_in_the_simulator(service: Service, configured: Callable[..., Any]):
    assert played(configured(*CLUSTER, *JOBS), service.url).orders >= 40


def test_parts_of_gpus_cores_and_memory_reach_the_service(tmp_path: Path, configured: Any):
    words = ("topology=dgx_leaf_spine", "topology.servers=2", "scheduler=fifo")
    jobs = ("workload=openb_like", "workload.num_jobs=100", "workload.load=1.5")
    config = configured(*words, *jobs, "workload.rules.unknown_gpu_types=any")
    assert experiment_of(config).whole().demands is not None
    with served(tmp_path, *words) as service:
        assert played(config, service.url).orders >= 40


@pytest.mark.parametrize("forwarding", ["least_loaded", "own_then_least_loaded"])
def test_who_becomes_ready_after_its_submission_is_routed(
    forwarding: str, tmp_path: Path, configured: Callable[..., Any]
):
    words = ("topology=small_leaf_spine", "scheduler=fifo", f"forwarding={forwarding}",
             "agents.count=4")  # fmt: skip
    config = configured(*words, "workload=dag_like", "workload.num_jobs=300", "workload.load=2")
    experiment = experiment_of(config)
    world, jobs = experiment.world, experiment.whole()
    with served(tmp_path, *words) as service:
        client = ServedScheduler(url=service.url, token_file=None, timeout_s=60.0)
        there, here = (
            simulate(world.simulator(jobs), scheduler, experiment.seed, None)
            for scheduler in (client, composition_of(config, world.partitions))
        )
    for name in ("time_s", "kind", "job", "partition"):
        np.testing.assert_array_equal(getattr(there.log, name), getattr(here.log, name))
    np.testing.assert_array_equal(there.log.gpus.ids, here.log.gpus.ids)
    ready = here.log.job[here.log.kind == Kind.READY]
    assert here.forwards[ready].sum() > 10, "no late arrival was sent anywhere"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("scheduler=marl", "checkpoint=pretrained", "agents.count=4"),
        ("scheduler=marl", "checkpoint=pretrained_suspending", "agents.count=4"),
        ("scheduler=las", "scheduler.quantum_gpu_s=57600"),
        ("scheduler=sjf", "sharing=selective", "forwarding=steal", "agents.count=4"),
    ],
    ids=["agents", "suspending", "las", "sharing"],
)
def test_policies_and_others_decide_as_in_the_simulator(
    words: tuple[str, ...], configured: Callable[..., Any], tmp_path: Path
):
    words = ("topology=small_leaf_spine", *words)
    with served(tmp_path, *words) as service:
        assert played(configured(*words, *JOBS), service.url).orders >= 40


def test_a_connection_that_the_service_has_closed_is_opened_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
):
    connection = Connection(service.url, None, 5.0)
    told = connection.call("GET", "/cluster")
    connection._http.sock.shutdown(socket.SHUT_RDWR)
    monkeypatch.setattr("gpuyard.serving.client.IDLE_S", 0.0)  # as after a pause
    assert connection.call("GET", "/cluster") == told


def test_the_client_refuses_silence_and_another_cluster(service: Service, configured: Any):
    with pytest.raises(ServiceError, match="give both the same topology"):
        played(configured("topology=dgx_leaf_spine", "scheduler=sjf", *JOBS), service.url)
    for word, told in (("agents.count=2", "has agents.count=1, this run 2"),
                       ("max_tenants=3", "has max_tenants=., this run 3")):  # fmt: skip
        with pytest.raises(ServiceError, match=told):
            played(configured("topology=small_leaf_spine", "scheduler=sjf", word, *JOBS),
                   service.url)  # fmt: skip
    with pytest.raises(ServiceError, match="does `gpuyard serve` run"):
        ServedScheduler(url="http://127.0.0.1:9", token_file=None, timeout_s=1.0)
    with pytest.raises(ServiceError, match="must be like http"):
        ServedScheduler(url="127.0.0.1:8023", token_file=None, timeout_s=1.0)
