"""The learned plan generator: what it sees, its environment, its files, and a short training."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv

from gpuyard.launch.errors import heeding_ctrl_c
from gpuyard.training import train
from marl.env import plan_env
from marl.env.plan_env import OfPlace, PlanEnv, PlanPolicyError, drawn_goal, new_scratch
from marl.rllib.checkpoint import MANIFEST, checked
from marl.rllib.trainer import NetworkIteration
from marl.schedulers.worl_rtgs import DqnPlacerSearch, WorlDqnSearch
from marl.training.spec import CheckpointError, DqnSpec, GpuPpoSpec, TrainingError
from sim.dag.list_scheduling import NEAREST, heft, new_lanes
from sim.dag.plan import lower_bound_s, optimistic_costs, schedule
from sim.dag.problem import DagProblem
from sim.dag.search import Meter, start_plans
from sim.dag.whales import FORESIGHTS
from tests.dag.plan_rules import check_plan
from tests.marl.trainings import Training, optimizer_of, shipped, wait_for

PROBLEMS = plan_env.TrainingProblems(
    tasks=20, gpus=[4, 20], mb_per_s=[5.0, 50.0], between_gbps=[0.5, 2.0], inside_gbps=100.0,
    least_share=0.2, per_server=4, kinds={"a": [1.0, 16.0], "b": [2.0, 40.0]},
)  # fmt: skip


def network() -> plan_env.PlacementNetwork:
    """With weights that say something."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = plan_env.PlacementNetwork(8)
        torch.nn.init.normal_(made.last.weight)
    return made.eval()


def test_an_episode_places_every_task_and_pays_for_the_makespan():
    check_env(PlanEnv(draw=PROBLEMS, gap_weight=0.1), skip_render_check=True)
    env = PlanEnv(draw=PROBLEMS, gap_weight=0.0)
    seen, _ = env.reset(seed=3)
    paid, done, steps = 0.0, False, 0
    while not done:
        assert seen.shape == (NEAREST, len(OfPlace)) and seen[0, OfPlace.VALID] == 1
        seen, reward, done, _, info = env.step(np.int64(env.action_space.n - 1 if steps else 0))
        paid, steps = paid + reward, steps + 1
    assert steps == 20
    goal = env._goal
    assert paid == pytest.approx(-info["makespan_s"] / goal.hopes.scale_s)
    assert info["makespan_s"] >= lower_bound_s(goal.problem)


def test_hopes_have_all_foresights_of_whales_and_tasks_that_leave():
    foresights, leaving = set(), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        goal = drawn_goal(PROBLEMS(rng), rng)
        table = optimistic_costs(goal.problem.arrays, goal.problem.mean_s_per_mb)
        if table.any():  # else no task has a child
            foresights.add(round(float(goal.hopes.outlook.sum() / table.sum()), 6))
        leaving += bool(goal.hopes.leaves.any())
    assert foresights == set(FORESIGHTS)
    assert 5 < leaving < 30  # in half of the plans none may leave


def test_compiled_and_torch_choose_the_same():
    model = network()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        goal = drawn_goal(PROBLEMS(rng), rng)
        dag, hopes, size = goal.problem.arrays, goal.hopes, (20, goal.problem.num_gpus)
        fast, slow = new_scratch(new_lanes(*size)), new_scratch(new_lanes(*size))
        plan_env.place_by_value(dag, hopes, model.weights(), fast, np.zeros((2, 8)))
        for task in hopes.order.tolist():
            plan_env.look(dag, hopes, task, slow)
            with torch.no_grad():
                values = model(torch.tensor(slow.seen, dtype=torch.float32))
            plan_env.place(dag, task, int(slow.shortlist[int(values.argmax())]), slow)
        assert slow.lanes.gpu.tolist() == fast.lanes.gpu.tolist()
        assert slow.lanes.finish.tolist() == fast.lanes.finish.tolist()


def test_the_order_of_the_shortlist_does_not_matter():
    model = network()
    seen = torch.rand(2, NEAREST, len(OfPlace))
    seen[:, -3:, OfPlace.VALID] = 0
    turned = torch.flip(seen, dims=(1,))
    values = model(seen)
    assert torch.allclose(torch.flip(values, dims=(1,)), model(turned))
    assert torch.isinf(values[:, -3:]).all()


@pytest.mark.parametrize("search", [WorlDqnSearch, DqnPlacerSearch])
def test_a_policy_file_plans(tmp_path, search):
    plan_env.save_plan_policy(tmp_path, network().state_dict(), 8)
    problem = PROBLEMS(np.random.default_rng(0))
    meter, rng = Meter(problem, 50), np.random.default_rng(1)
    plans = start_plans(problem, 5, seeded=True, rng=rng)
    search(checkpoint=str(tmp_path)).search(plans, meter, rng)
    check_plan(problem, meter.best.plan)
    assert meter.left == 0
    assert meter.best.makespan_s <= schedule(problem, heft(problem)).makespan_s


def test_a_missing_or_foreign_policy_is_named(tmp_path):
    with pytest.raises(PlanPolicyError, match=r"train it first: python scripts/train_worl\.py"):
        WorlDqnSearch(checkpoint=str(tmp_path))
    plan_env.save_plan_policy(tmp_path, network().state_dict(), 8)
    (tmp_path / "policy.json").write_text(json.dumps({"format": 1, "hidden": 9}))
    with pytest.raises(PlanPolicyError, match="cannot be read"):
        plan_env.load_plan_policy(tmp_path)


def trainer_of(draw: Callable[[np.random.Generator], DagProblem] = PROBLEMS, **given: float):
    """A short training; `given`: of its environment or its spec."""
    from marl.rllib.dqn import PlanDqnSpec, PlanTrainer

    gap_weight = given.pop("gap_weight", 0.0)
    spec = PlanDqnSpec(
        hidden=8, steps=400, iteration_steps=100, envs=2, gamma=0.99, batch=16, steps_per_update=20,
        replay_steps=1000, start_steps=50, target_steps=100, learning_rate=0.01, grad_clip=10.0,
        epsilon_first=0.5, epsilon_last=0.1, epsilon_steps=200,
    )  # fmt: skip
    return PlanTrainer(
        make_env=lambda: PlanEnv(draw=draw, gap_weight=gap_weight), spec=replace(spec, **given),
        seed=1,
    )  # fmt: skip


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_losses_that_are_no_numbers_stop_the_training():
    trainer = trainer_of(gap_weight=np.nan)
    with pytest.raises(PlanPolicyError, match=r"iteration 1: loss \[nan.*begin anew: fresh=true"):
        trainer.iterate()
    trainer.close()


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_weights_that_are_no_numbers_stop_the_training():
    trainer = trainer_of(start_steps=1000)  # before there is a loss
    with torch.no_grad():  # the last of them alone
        list(trainer._algorithm.get_module("default_policy").network.parameters())[-1].fill_(np.nan)
    with pytest.raises(PlanPolicyError, match=r"iteration 1: loss \[\], .*nan; begin anew"):
        trainer.iterate()
    trainer.close()


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_training_changes_weights_and_goes_on(tmp_path):
    drawn = tmp_path / "drawn"  # a file: Ray copies what it is given

    def draw(rng: np.random.Generator) -> DagProblem:
        problem = PROBLEMS(rng)
        with drawn.open("a") as file:
            file.write(f"{problem.graph.work_s.sum()!r}\n")
        return problem

    first, second = trainer_of(draw), trainer_of(draw, learning_rate=1e-5)
    before = first.weights()
    for _ in range(3):
        done = first.iterate()
    assert done.steps >= 300 and done.return_mean < 0 and np.isfinite(done.loss)
    after = first.weights()
    assert any(not torch.equal(before[key], after[key]) for key in before)
    first.save(tmp_path / "checkpoint")
    first.close()
    drawn_from = torch.initial_seed()
    second.restore(tmp_path / "checkpoint")
    assert torch.initial_seed() != drawn_from
    assert optimizer_of(second).param_groups[0]["lr"] == 1e-5  # as told, from the first update on
    assert all(torch.equal(after[key], value) for key, value in second.weights().items())
    played = set(drawn.read_text().split())
    drawn.unlink()
    assert second.iterate().steps > done.steps
    assert len(played) > 10 and not played & set(drawn.read_text().split())
    second.close()


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_equal_seeds_learn_equal_weights():
    def learned() -> dict[str, torch.Tensor]:
        trainer = trainer_of()
        for _ in range(2):
            trainer.iterate()
        found = trainer.weights()
        trainer.close()
        return found

    first, again = learned(), learned()
    assert all(torch.equal(first[key], value) for key, value in again.items())
    assert first["last.weight"].any()  # it learned


@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_of_an_interrupted_iteration_nothing_is_kept_and_a_cut_checkpoint_is_named(tmp_path):
    left = tmp_path / "left"  # episodes; a file, for Ray copies what it is given

    def draw(rng: np.random.Generator) -> DagProblem:
        if left.is_file():
            left.write_text(left.read_text()[:-1])
            if not left.read_text():
                raise KeyboardInterrupt
        return PROBLEMS(rng)

    trainer, path = trainer_of(draw), tmp_path / "checkpoint"
    for _ in range(2):
        trainer.iterate()
    whole = trainer.weights()
    left.write_text("...")
    with pytest.raises(KeyboardInterrupt):
        trainer.iterate()
    left.unlink()
    assert trainer.iterations_done == 2
    assert any(not torch.equal(whole[key], now) for key, now in trainer._current().items())
    assert all(torch.equal(whole[key], kept) for key, kept in trainer.weights().items())
    trainer.save(path)
    trainer.close()
    trainer = trainer_of(draw)
    trainer.restore(path)
    assert trainer.iterations_done == checked(path, None).iteration == 2
    assert all(torch.equal(whole[key], now) for key, now in trainer._current().items())
    assert trainer.iterate().steps >= 300
    state = path / "learner_group" / "learner" / "state.pkl"
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"state\.pkl: has .* cut off .*anew: fresh=true"):
        trainer.restore(path)
    (path / MANIFEST).unlink()  # as those of before were
    with pytest.raises(CheckpointError, match=r"manifest\.json: is missing, .*anew: fresh=true"):
        trainer.restore(path)
    trainer.close()


def test_a_resumed_stream_of_episodes_is_another_one():
    from marl.rllib.dqn import OwnStream

    def first_seen(behind: int | None) -> list[float]:
        env = OwnStream(PlanEnv(draw=PROBLEMS, gap_weight=0.0), 3)
        copies = SyncVectorEnv([lambda: env])
        copies.reset(seed=9)  # is not heard
        if behind is not None:
            copies.call("leave_behind", behind)
        return env.reset(seed=8)[0].ravel().tolist()

    plain = PlanEnv(draw=PROBLEMS, gap_weight=0.0)
    fresh = plain.reset(seed=3)[0].ravel().tolist()
    second = plain.reset()[0].ravel().tolist()
    assert first_seen(0) == fresh and first_seen(None) == second
    assert first_seen(1) == first_seen(1)
    assert len({tuple(each) for each in (fresh, second, first_seen(1), first_seen(2))}) == 4


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("problems.gpus=[]", "problems.gpus is empty; give one at least"),
        ("problems.mb_per_s=[9,5]", "problems.mb_per_s is [9, 5]; the lower one stands first"),
        ("problems.kinds.t4=[a,1]", "problems.kinds.t4[0] is 'a'; it must be above 0, a finite"),
        ("problems.kinds.t4=3", "problems.kinds.t4 is 3; it must be a list of two numbers"),
    ],
)
def test_problems_that_cannot_be_drawn_are_told_before_anything_is_lost(tmp_path, word, message):
    (tmp_path / "policy").mkdir()
    refused = Training("train_worl.py", ("fresh=true",)).run(tmp_path, word)
    assert refused.returncode == 1 and message in refused.stderr, refused.stderr
    assert (tmp_path / "policy").is_dir()


def test_knobs_that_no_learner_takes_are_told_by_their_keys():
    knobs = shipped("picker/topdrl.yaml")["learner"]
    knobs = {key: value for key, value in knobs.items() if key != "_target_"}
    for key, value in {"batch": 0, "epsilon_steps": 0, "n_step": 1.5, "epsilon_last": 2}.items():
        with pytest.raises(TrainingError, match=rf"picker\.learner\.{key} is {value}; it must be"):
            DqnSpec(**knobs | {key: value})
    with pytest.raises(TrainingError, match=r"batch is 64, above picker.*replay_steps, 10"):
        DqnSpec(**knobs | {"replay_steps": 10})
    knobs = shipped("picker/proximity.yaml")["learner"] | {"batch": 100, "minibatch": 101}
    knobs.pop("_target_")
    with pytest.raises(TrainingError, match=r"minibatch is 101, above picker\.learner\.batch, 100"):
        GpuPpoSpec(**knobs)


@pytest.mark.parametrize("every", [1, 2])
def test_an_interrupt_saves_what_was_trained(tmp_path, monkeypatch, every):
    saved = []

    class Interrupted:
        """Stands for a trainer that drops Ctrl-C in its third iteration, as Ray may."""

        iterations_done = 0

        def __init__(self, **_: object) -> None:
            self.weights = network().state_dict

        def iterate(self) -> NetworkIteration:
            self.iterations_done += 1
            assert self.iterations_done <= 3
            with suppress(KeyboardInterrupt):
                if self.iterations_done == 3:
                    signal.raise_signal(signal.SIGINT)
            done = self.iterations_done
            return NetworkIteration(done, 100 * done, 0.5, 0.0, -1.0)

        def save(self, folder: Path) -> None:
            folder.mkdir()
            saved.append(self.iterations_done)

        def close(self) -> None:
            pass

    monkeypatch.setattr("marl.rllib.cluster.start_ray", lambda **_: None)
    monkeypatch.setattr("marl.rllib.dqn.PlanTrainer", Interrupted)
    values = {"checkpoint_every": every, "gap_weight": 0.0, "seed": 0, "dqn": {}, "problems": {}}
    launch = SimpleNamespace(config=values, folder=tmp_path)
    with pytest.raises(KeyboardInterrupt), heeding_ctrl_c():
        train._train_plans(launch, PROBLEMS, SimpleNamespace(steps=1000, hidden=8))
    assert saved == [*range(every, 4, every), 3]
    assert len((tmp_path / "training.csv").read_text().splitlines()) == 4
    plan_env.load_plan_policy(tmp_path / "policy")


@pytest.mark.slow
@pytest.mark.ray
def test_who_is_ended_goes_on_with_the_curve_of_the_checkpoint(tmp_path):
    tiny = (
        "dqn.iteration_steps=100", "dqn.start_steps=100", "problems.tasks=10", "checkpoint_every=1",
    )  # fmt: skip
    training = Training("train_worl.py", tiny)
    folder = tmp_path / "run"
    curve = folder / "training.csv"
    with training.begun(folder, "dqn.steps=1000000") as running:
        wait_for(lambda: curve.is_file() and len(curve.read_text().splitlines()) > 2, running, 120)
        os.killpg(running.pid, signal.SIGTERM)  # as `timeout` does
        assert running.wait(timeout=40) == 130, (tmp_path / "printed").read_text()
    assert "to go on: python " in (tmp_path / "printed").read_text()
    before = curve.read_text()
    done = before.splitlines()[1:]
    assert checked(folder / "checkpoint", None).iteration == len(done)
    curve.write_text(before + "999999,-1,0\n")  # killed before the checkpoint that belongs to it
    most = int(done[-1].split(",")[0]) + 200
    ended = training.run(folder, f"dqn.steps={most}")
    assert ended.returncode == 0, ended.stderr
    steps = [int(line.split(",")[0]) for line in curve.read_text().splitlines()[1:]]
    assert curve.read_text().startswith(before) and most <= steps[-1] < 999999
