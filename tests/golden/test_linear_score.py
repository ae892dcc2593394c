"""The linear score, and agents whose network is one: placements and forwards worked by hand."""

import contextlib
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.env.layout import CodecRules
from marl.policy.build import PolicySpec, build_policy, save_policy
from marl.schedulers.marl import MarlScheduler
from sim.engine.composed import PartitionedScheduler
from sim.errors import GpuYardError, SignalError, SimulationError
from sim.forwarding import OwnOnly
from sim.jobs import ANY_TYPE
from sim.placers.by_room import Consolidated
from sim.report.job_times import counted, jct_s, mean_jct_s
from sim.schedulers.orders import Sjf
from sim.scoring.linear_score import LinearScore, unlogged
from sim.scoring.weights import FORWARD_FEATURES, START_FEATURES, SUSPEND_FEATURES
from sim.sharing import NoSharing
from sim.simulator import Simulator, simulate
from sim.view import Signal
from tests.engine.playing import assert_same
from tests.oracle.cases import Case, cases
from tests.sim.worlds import Job, chart, charted, cluster, demands, gantt, physics_of, play, world

NEVER = {"bias": -5.0}  # no forward is worth it
SPREAD_STEP = (0.0, 0.0, 0.5)  # seconds a step over two servers: 1.5 times as slow


def linear(start, forward=NEVER, suspend=None, **given) -> LinearScore:
    values = {
        "window": 16, "patience_s": 1e9, "use_durations": True, "rest_share": 0.0,
        "weights_file": None,
    } | given  # fmt: skip
    weights = {
        "start": dict.fromkeys(START_FEATURES, 0.0) | start,
        "forward": dict.fromkeys(FORWARD_FEATURES, 0.0) | forward,
    }
    if suspend is not None:
        weights["suspend"] = dict.fromkeys(SUSPEND_FEATURES, 0.0) | suspend
    return LinearScore(**{"weights": weights, **values})


# A and B stand on one server each where servers are liked partly free; C wants two GPUs.
TWO_APART = [Job(0, 1, 100), Job(0, 1, 100), Job(10, 2, 60)]
FOUR = [Job(0, 1, 1000), Job(100, 1, 400), Job(200, 1, 600), Job(300, 1, 200)]
CONSOLIDATED = Sjf(placer=Consolidated(), sharing=NoSharing(), skip_blocked=True)
# At 1000 four short jobs would fill a window of 4; the long B has waited 990 s.
OLD_AND_NEW = [Job(0, 1, 1000), Job(10, 1, 5000), *(Job(900, 1, 50) for _ in range(4))]
AGED = {"bias": 1.0, "age": 1.0}


@pytest.mark.parametrize(
    ("spread", "drawing"),
    [
        # ln 1.5 = 0.41: with weight -1 the spread place scores 1 - 0.41 > 0: 60 s of work in 90 s.
        (-1.0, "Aaaaaaaaaa .Ccccccccc Bbbbbbbbbb .Ccccccccc"),
        (-4.0, "AaaaaaaaaaCccccc ..........Cccccc Bbbbbbbbbb"),  # it does not
        (None, "Aaaaaaaaaa Bbbbbbbbbb .Cccccc*2"),  # best fit leaves C a whole server
    ],
)
def test_a_gang_starts_spread_where_that_costs_less_than_waiting_scores(spread, drawing):
    topology = cluster(2, 2)
    scheduler = CONSOLIDATED
    if spread is not None:
        scheduler = linear({"bias": 1.0, "fragments": 0.5, "spread": spread})
    physics = physics_of(topology, server_s=SPREAD_STEP)
    assert charted(TWO_APART, topology, scheduler, physics=physics, column_s=10.0) == drawing


def test_waiting_jobs_are_forwarded_to_where_there_is_room_now():
    # B goes at once; C and D wait at home until 500, where D is shorter and so scores more; C goes
    # at 700.
    scheduler = linear(
        {"bias": 1.0}, {"bias": -1.5, "placeable": 2.0, "duration": -0.2, "load_difference": 0.1}
    )
    run = play(world(FOUR, cluster(2, 1), partitions=2), scheduler)
    assert chart(run, 100.0) == "Aaaaaaaaaa .BbbbDdCccccc"
    assert run.forwards.tolist() == [0, 1, 1, 1]
    # Without a hop left everybody waits at home.
    scheduler = linear({"bias": 1.0, "duration": -0.1}, {"bias": 1.0})
    run = play(world(FOUR, cluster(2, 1), partitions=2, max_forwards=0), scheduler)
    assert gantt(run)["D"] == (1000, 1200, (0,))
    assert run.forwards.sum() == 0


@pytest.mark.parametrize(
    ("weight", "drawing"),
    # Both 1.2 times as slow: 4 ln 1.2 = 0.73 < 1.  B does 400 s in 480 s; A has 600 left then. With
    # -8 it is not worth it: the shorter B first.
    [(-4.0, f"Bbbbbbbbbbbb+A{'a' * 26}"), (-8.0, f"BbbbbbbbbbA{'a' * 24}")],
)
def test_it_shares_a_gpu_where_the_slow_down_is_worth_it(weight: float, drawing: str):
    topology = cluster(1, 1)
    scheduler = linear({"bias": 1.0, "own_slowdown": weight, "duration": -0.1})
    yard = world([Job(0, 1, 1000), Job(0, 1, 400)], topology, max_tenants=2,
                 physics=physics_of(topology, slowdown=((1.2,),)))  # fmt: skip
    assert chart(play(yard, scheduler), 40.0) == drawing


def test_a_pair_that_does_not_fit_is_never_put_together():
    topology = cluster(1, 1)
    yard = {"physics": physics_of(topology, infeasible=[(0, 0)]), "max_tenants": 2}
    found = charted([Job(0, 1, 10)] * 2, topology, linear({"bias": 1.0}), column_s=10.0, **yard)
    assert found == "AB"


def test_an_idle_partition_must_start_the_best_there_is():
    # Nothing is worth starting. GPU 1 stays empty; B is shorter, so it comes first.
    scheduler = linear({"bias": -5.0, "duration": -1.0})
    jobs = [Job(0, 1, 400), Job(0, 1, 200)]
    assert charted(jobs, cluster(1, 2), scheduler, column_s=100.0) == "BbAaaa"


@pytest.mark.parametrize(("patience_s", "began_s"), [(300.0, 310.0), (5000.0, 1000.0)])
def test_an_old_job_with_a_compact_place_is_not_kept_waiting(patience_s: float, began_s: float):
    # Nothing happens at 310: the scheduler asks to be woken when B runs out of patience.
    scheduler = linear({"bias": -5.0}, patience_s=patience_s)
    run = play(world([Job(0, 1, 1000), Job(10, 1, 100)], cluster(1, 2)), scheduler)
    assert gantt(run)["B"] == (began_s, began_s + 100, (1,) if began_s < 1000 else (0,))
    # An old gang, too, for whose cores two servers are the fewest: two GPUs a server, but cores for
    # one worker of B beside or without A.
    topology = dataclasses.replace(cluster(2, 2), server_cpu_milli=np.full(2, 1000))
    asks = (1000, 100, 0, ANY_TYPE), (1000, 600, 0, ANY_TYPE)
    yard = world([Job(0, 1, 1000), Job(10, 2, 100)], topology, traits=demands(*asks))
    assert gantt(play(yard, scheduler))["B"][:2] == (began_s, began_s + 100)


@pytest.mark.parametrize(("patience_s", "first"), [(500.0, True), (5000.0, False)])
def test_old_jobs_have_a_quarter_of_the_window(patience_s: float, first: bool):
    scheduler = linear(AGED, window=4, patience_s=patience_s)
    began_s = gantt(play(world(OLD_AND_NEW, cluster(1, 1)), scheduler))["B"][0]
    assert began_s == 1000 if first else began_s > 1000


def test_a_job_too_large_for_its_partition_is_sent_where_it_fits():
    # Servers 0 and 1 are partition 0, server 2 is partition 1: its one GPU never holds the gang.
    jobs = [Job(0, 2, 10, home=1)]
    run = play(world(jobs, cluster(3, 1), partitions=2), linear({"bias": 1.0}))
    assert gantt(run) == {"A": (0, 10, (0, 1))}


def test_demands_decide_where_a_gang_goes():
    # Two GPUs a server, but cores for one worker of C: it spreads although server 1 is empty.
    topology = dataclasses.replace(cluster(2, 2), server_cpu_milli=np.full(2, 1000))
    yard = world([Job(0, 2, 10)], topology, traits=demands((1000, 600, 0, ANY_TYPE)))
    assert gantt(play(yard, linear({"bias": 1.0}))) == {"A": (0, 10, (0, 2))}


def test_features_of_one_placement():
    # A holds GPU 0. B (2 GPUs, 1 h) has waited 600 s; from server 0 it takes GPUs 1 and 2, from
    # server 1, the last one looked at, GPUs 2 and 3.
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=SPREAD_STEP)
    yard = world([Job(0, 1, 9e4), Job(0, 2, 3600)], topology, physics=physics)
    refuses = linear({"bias": -1.0, "duration": 0.5})
    views = yard.views(refuses.needs)
    yard.advance()
    yard.apply(refuses.decide(views.view()))  # idle: the longer job A is forced in
    yard.state.world["wake_s"] = 600.0
    yard.advance()
    view = views.view()
    assert (view.now_s, view.queued.tolist()) == (600.0, [1])
    assert refuses.decide(view).starts == ()
    seen = dict(zip(START_FEATURES, refuses.scoring(view).start_x.tolist(), strict=True))
    known = {
        "bias": 1.0, "spread": 0.0, "duration": 0.0, "age": np.log(2) / 2.5,
        "relative_age": np.log(1 + 1 / 6) / 2.5, "gang": 0.25, "occupancy": 0.25,
        "pressure": np.log(1.5), "shared": 0.0, "fragments": 0.0,
    }  # fmt: skip
    assert {name: seen[name] for name in known} == pytest.approx(known, rel=1e-12)


def test_blind_it_reads_no_prediction_and_looks_at_small_gangs():
    blind = linear({"bias": 1.0, "gang": -0.1}, use_durations=False, window=1)
    assert blind.name == "linear_score_blind"
    assert blind.needs == Signal.PROFILE | Signal.INTERFERENCE
    jobs = [Job(0, 2, 100), Job(1, 2, 10, np.nan), Job(2, 1, 50, np.nan)]
    run = play(world(jobs, cluster(1, 2)), blind)
    assert gantt(run)["C"] == (100, 150, (0,))
    assert gantt(run)["B"] == (150, 160, (0, 1))
    with pytest.raises(SignalError, match="no duration prediction"):
        play(world(jobs, cluster(1, 2)), linear({"bias": 1.0}))


def random_yard(seed: int) -> Simulator:
    rng = np.random.default_rng(seed)
    topology = cluster(6, 4, servers_per_rack=2)
    physics = physics_of(
        topology, slowdown=((1.1, 1.4), (1.3, 1.6)), server_s=(0, 0, 0.3, 0.5, 0.7, 0.8, 0.9),
        infeasible=[(1, 1)], nic_factor=(1.0, 1.0, 1.5),
    )  # fmt: skip
    at_s = np.cumsum(rng.exponential(40.0, 120))
    jobs = [
        Job(float(at), int(rng.choice([1, 1, 2, 4, 6])), float(rng.uniform(30, 2000)),
            float(rng.uniform(30, 2000)), int(rng.integers(2)), int(rng.integers(3)))
        for at in at_s
    ]  # fmt: skip
    return world(jobs, topology, physics=physics, partitions=3, max_tenants=2)


def weights_drawn(names: tuple[str, ...], rng: np.random.Generator) -> dict[str, float]:
    return dict(zip(names, rng.normal(0, 2, len(names)).tolist(), strict=True))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_run_in_compiled_code_is_the_same_run(seed: int):
    rng = np.random.default_rng(seed)
    start, forward = weights_drawn(START_FEATURES, rng), weights_drawn(FORWARD_FEATURES, rng)
    scheduler = linear(start, forward | {"placeable": 8.0}, patience_s=3000.0)
    run = simulate(random_yard(seed), scheduler, 0, None, compiled=False)
    assert run.forwards.sum() > 0
    assert_same(play(random_yard(seed), scheduler), run)
    assert mean_jct_s(unlogged(random_yard(seed), scheduler)) == jct_s(run)[counted(run)].mean()


def assert_loops_agree(case: Case, scheduler: LinearScore, seed: int) -> None:
    """The compiled loop decides as who is asked, and any weights are legal."""
    runs = []
    for compiled in (True, False):
        simulator = Simulator(**case.arguments())
        # A gang of more workers than any server that is left can take waits for ever.
        with contextlib.suppress(SimulationError):
            simulate(simulator, scheduler, seed, None, compiled=compiled)
        runs.append(simulator.outcome(scheduler.name, 0, 0.0, 0.0))
    assert_same(*runs)
    assert np.all(runs[0].forwards <= case.rules.max_forwards)


@settings(max_examples=15)
@given(case=cases(most_partitions=3, most_jobs=30, life=True), seed=st.integers(0, 9))
def test_any_weights_are_legal_in_several_partitions_through_all_of_life(
    case: Case, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    start, forward = weights_drawn(START_FEATURES, rng), weights_drawn(FORWARD_FEATURES, rng)
    window = int(rng.integers(1, 6))
    assert_loops_agree(case, linear(start, forward, patience_s=20.0, window=window), seed)


def test_one_scheduler_may_play_one_world_after_another():
    scheduler = linear({"bias": 1.0})
    first = gantt(play(world(FOUR, cluster(2, 1)), scheduler))
    play(random_yard(0), scheduler)
    assert gantt(play(world(FOUR, cluster(2, 1)), scheduler)) == first


def test_a_file_of_weights_is_read_instead(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    names = "".join(f"  {name}: 0.5\n" for name in START_FEATURES)
    path.write_text(f"start:\n{names}forward:\n" + "".join(f"  {n}: 2\n" for n in FORWARD_FEATURES))
    scheduler = linear({"bias": -1.0}, weights_file=str(path))
    assert set(scheduler.weights["start"].values()) == {0.5}
    assert set(scheduler.weights["forward"].values()) == {2.0}
    path.write_text("just words")
    with pytest.raises(GpuYardError, match="holds no mapping"):
        linear({}, weights_file=str(path))


# All arrive at partition 0.
TRACE = [Job(0, 1, 1000), Job(100, 1, 400), Job(200, 1, 600), Job(300, 1, 200)]


@pytest.fixture
def eager(tmp_path: Path) -> MarlScheduler:
    spec = PolicySpec(gpu_dim=2, hidden_dim=4, rounds=1, head_dim=4, prior_scale=0.0)
    policy = build_policy(spec)
    with torch.no_grad():
        for weights in policy.parameters():
            weights.zero_()
        policy.start.score.bias.fill_(2.0)
        policy.forward_to.score.bias.fill_(1.0)
    rules = CodecRules(window=4, only_placeable=True, sharing=True, patience_s=1e9)
    save_policy(tmp_path, policy, spec, rules)
    return MarlScheduler(checkpoint=str(tmp_path))


COMPACT = Sjf(placer=Consolidated(), sharing=NoSharing(), skip_blocked=True)


def test_a_waiting_job_is_forwarded_to_where_it_fits_the_shortest_first(eager):
    # A runs at home; B is forwarded and starts at once. C and D wait at home until 500: D is
    # shorter, so it goes, C at 700.
    run = play(world(TRACE, cluster(2, 1), partitions=2), eager)
    assert chart(run, 100.0) == "Aaaaaaaaaa .BbbbDdCccccc"
    assert run.forwards.tolist() == [0, 1, 1, 1]
    assert run.scheduler == "marl"
    # Its order without forwarding: shortest first at home, GPU 1 idles.
    alone = PartitionedScheduler(child=COMPACT, forwarding=OwnOnly())
    found = charted(TRACE, cluster(2, 1), alone, partitions=2, column_s=100.0)
    assert found == "AaaaaaaaaaDdBbbbCccccc"


def test_jobs_of_less_than_a_minute_go_as_they_came(eager):
    # D is shorter than C, but not told apart: C goes at 5, D finds room at home at 10.
    trace = [Job(0, 1, 10), Job(1, 1, 4), Job(2, 1, 6), Job(3, 1, 2)]
    assert charted(trace, cluster(2, 1), eager, partitions=2) == "AaaaaaaaaaDd .BbbbCccccc"


def test_a_gang_is_filled_outwards_from_the_chosen_server(eager):
    # Two servers of two GPUs. A holds GPU 0. The lowest action starts B from server 0: GPU 1 there,
    # then the nearest other. A compact placement would be GPUs 2 and 3.
    trace = [Job(0, 1, 10), Job(1, 2, 5)]
    assert charted(trace, cluster(2, 2), eager) == "Aaaaaaaaaa .Bbbbb*2"
    assert charted(trace, cluster(2, 2), COMPACT) == "Aaaaaaaaaa . .Bbbbb*2"


def test_with_room_for_two_it_shares_rather_than_forwards(eager):
    # Both fit on GPU 0; without physics sharing costs nothing.
    trace = [Job(0, 1, 10), Job(1, 1, 4)]
    found = charted(trace, cluster(2, 1), eager, partitions=2, max_tenants=2)
    assert found == "Aaaaaaaaaa+.Bbbb"
