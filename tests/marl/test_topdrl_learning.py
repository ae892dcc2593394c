"""Images and networks, the rule, its imitation, and double DQN: files, resuming, diverging."""

import os
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.progress import Progress

from gpuyard.launch.errors import ConfigError
from gpuyard.training.topdrl_training import COLUMNS, Meter
from gpuyard.training.topdrl_training import Training as Run
from marl.rllib.checkpoint import Maker, checked, seal
from marl.rllib.trainer import NetworkIteration
from marl.topdrl import env
from marl.topdrl import network as images
from marl.topdrl.network import build_network, dueling, load_picker
from marl.training.spec import CheckpointError
from tests.contract.compositions import resolved
from tests.marl.topdrl_worlds import env_of, network_of, observation_of, york_world
from tests.marl.trainings import Training, curve, wait_for

SPEC = env.ImitationSpec(
    episodes=8, epochs=30, minibatch=32, learning_rate=1e-2, least_speed=0.9, random_share=0.2,
    margin=0.1,
)  # fmt: skip
TINY = (
    "workload=topdrl_york", "workload.num_jobs=40", "validation_windows=1",
    "picker.imitation.episodes=1", "picker.imitation.epochs=1", "picker.learner.start_steps=100",
    "picker.learner.validate_every=2", "picker.learner.checkpoint_every=1",
    "picker.learner.iteration_steps=100", "picker.network.channels=2", "picker.network.hidden=8",
)  # fmt: skip
TRAINING = Training("train_topdrl.py", TINY)


def batch_of(world):
    seen, _ = env_of(world).reset(seed=1)
    return {key: torch.from_numpy(value)[None] for key, value in seen.items()}


def test_the_canvas_fills_columns_until_gpus_are_free():
    gpus = torch.zeros(1, 1, 1, 3, 3)
    gpus[0, 0, 0, :, 2] = 1.0
    gpus[0, 0, 0, 1] = torch.tensor([0.5, 0.25, 1.0])
    gpus[0, 0, 0, 2] = torch.tensor([1.0, 0.75, 1.0])
    canvas = images.canvas(gpus, 4)
    assert canvas[0, 0].tolist() == [[0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]]
    assert canvas[0, 1].tolist() == [[0, 0.25, 0.75], [0, 0.25, 0.75], [0, 0, 0.75], [0, 0, 0.75]]
    assert images.topology_map(gpus)[0].tolist() == [[[1, 0, 0]], [[0, 0.5, 1]], [[1, 1, 1]]]


def test_blocks_are_rows_of_time_times_gpus():
    slots = torch.zeros(1, 2, 6)
    slots[0, 0] = torch.tensor([1.0, 0.5, 0.5, 0.1, 0.2, 0.3])
    blocks = images.blocks(slots, 4, 2)
    job = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert blocks[0, 0].tolist() == job
    assert blocks[0, 1].tolist() == [pytest.approx([0.1, 0.1, 0, 0])] * 4
    assert blocks[0, 3].tolist() == [pytest.approx([0.3, 0.3, 0, 0])] * 4


def test_dueling_heads_average_over_what_is_legal():
    values = dueling(
        torch.tensor([[2.0]]), torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[1.0, 0.0, 1.0]])
    )
    assert values.tolist() == [[1.0, -torch.inf, 3.0]]


def small_network(branches="multi"):
    return build_network(network_of(york_world(), branches), observation_of())


@pytest.mark.parametrize("branches", ["multi", "single"])
def test_gradients_reach_every_weight(branches):
    network = small_network(branches)
    values = network(batch_of(york_world()))
    values[torch.isfinite(values)].pow(2).sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in network.parameters())


def test_scores_follow_their_jobs_from_slot_to_slot():
    network, seen = small_network(), batch_of(york_world())
    seen["slots"] = torch.rand(1, 4, 6)
    seen["action_mask"] = torch.ones(1, 5)
    order = [2, 0, 3, 1]
    turned = {**seen, "slots": seen["slots"][:, order]}
    before, after = (network(each)[0].detach() for each in (seen, turned))
    assert after[:4].tolist() == pytest.approx(before[order].tolist(), abs=1e-5)
    assert float(after[4]) == pytest.approx(float(before[4]), abs=1e-5)


def test_the_same_weights_read_a_larger_cluster():
    larger = batch_of(york_world(racks=3, servers=4))
    assert torch.isfinite(small_network()(larger)[0]).any()


def test_the_rule_starts_the_first_compact_job_or_holds_or_starts_the_fastest():
    mask = [[1, 1, 1, 1], [0, 1, 1, 1], [1, 1, 0, 1], [1, 1, 0, 0]]
    slots = torch.zeros(4, 3, 6)
    slots[..., 5] = torch.tensor(
        [[0.5, 0.95, 0.9], [1.0, 0.5, 0.9], [0.5, 0.6, 1.0], [0.5, 0.6, 1]]
    )
    seen = {"action_mask": torch.tensor(mask).float(), "slots": slots}
    assert env.CompactTeacher(0.9).act_on_batch(seen).tolist() == [1, 2, 3, 1]
    each = [{key: value[row].numpy() for key, value in seen.items()} for row in range(4)]
    assert [env.CompactTeacher(0.9).act(one) for one in each] == [1, 2, 3, 1]


def test_gains_are_discounted_and_go_on_after_a_cut():
    assert env.discounted([1.0, 2.0], 0.5, True) == [2.0, 2.0]
    assert env.discounted([1.0, 1.0], 0.5, False) == pytest.approx([2.0, 2.0])


def test_the_margin_is_nothing_where_the_rule_leads():
    values = torch.tensor([[1.0, 0.0, -torch.inf], [1.0, 0.95, 0.0]])
    assert env.behind_by(values, torch.tensor([0, 0]), 0.1).tolist() == pytest.approx([0.0, 0.05])
    assert env.behind_by(values, torch.tensor([1, 1]), 0.1).tolist() == pytest.approx([1.1, 0.15])


def test_imitation_comes_to_agree_with_the_rule():
    world = york_world()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = build_network(replace(network_of(world), channels=4, hidden=16), observation_of())
    lessons = env.gathered(list(env.play_lessons(env_of(world), SPEC, 0.9, 0)))
    agreed = [share for _, share in env.imitate(network, lessons, SPEC, 0)]
    assert agreed[-1] > 0.85
    assert agreed[-1] > agreed[0]


@pytest.mark.ray
@pytest.mark.slow
def test_a_run_is_interrupted_and_goes_on(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with TRAINING.begun(first, "picker.learner.steps=1000000") as running:
        wait_for(lambda: len(curve(first)) >= 4, running, 240)
        os.killpg(running.pid, signal.SIGTERM)  # as `timeout` does
        assert running.wait(timeout=40) == 130, (tmp_path / "printed").read_text()
    assert checked(first / "checkpoint", None).iteration == int(curve(first)[-1]["iteration"])
    done = int(curve(first)[-1]["steps"])
    assert done >= 300
    with (first / "learning_curve.csv").open("a") as file:  # killed later, before its checkpoint
        file.write("999,999999,,,,,9.0\n")
    ended = TRAINING.run(second, f"resume={first}", f"picker.learner.steps={done + 100}")
    assert ended.returncode == 0, ended.stderr
    assert "best validation throughput" in ended.stdout
    later = curve(second)
    assert int(float(later[-1]["steps"])) >= done + 100
    assert [int(row["iteration"]) for row in later] == list(range(len(later)))
    assert float(later[0]["validation"]) > 0  # of the imitation, taken over
    load_picker(second / "policy")
    assert (second / "learning_curve.png").stat().st_size > 0


class OneStepMore:
    """Stands for a trainer after two iterations."""

    asked = 0

    def save(self, folder):
        folder.mkdir()

    def weights(self):
        return {}

    def iterate(self):
        self.asked += 1
        return NetworkIteration(2 + self.asked, 200 + 100 * self.asked, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("steps", "judged", "more"), [(200, "0.5", 0), (400, "0.5", 2), (200, "", 1)]
)
def test_a_run_that_ended_learns_no_more(tmp_path, monkeypatch, steps, judged, more):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first / "checkpoint", first / "policy", second):
        folder.mkdir(parents=True)
    (first / "checkpoint" / "state").write_text("whole")
    seal(first / "checkpoint", Maker("DQN", {}, "2.60.0"), 2)
    rows = f"0,0,,,,0.4,1.0\n1,100,0,0,0,,2.0\n2,200,0,0,0,{judged},3.0\n"
    (first / "learning_curve.csv").write_text(",".join(COLUMNS) + "\n" + rows)
    words = [*TINY, f"picker.learner.steps={steps}", f"resume={first}"]
    config = resolved("train_topdrl", *words)
    run = Run(config, second)
    monkeypatch.setattr(run, "validate", lambda _: 0.6)
    trainer = OneStepMore()
    run.adopt(first, 2)
    run.iterate(trainer, Meter(Progress(disable=True)))
    assert trainer.asked == more and len(curve(second)) == 3 + more
    assert (second / "checkpoint").is_dir()
    (first / "checkpoint" / "state").write_text("who")
    with pytest.raises(CheckpointError, match=r"checkpoint/state: has 3 bytes of 5: it was cut"):
        Run(config, second)


def test_what_was_best_in_another_setting_is_not_kept_in_this_one(tmp_path, monkeypatch, caplog):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first / "policy", second):
        folder.mkdir(parents=True)
    rows = "0,0,,,,0.9,1.0\n2,200,0,0,0,0.9,3.0\n"
    (first / "learning_curve.csv").write_text(",".join(COLUMNS) + "\n" + rows)
    Run(resolved("train_topdrl", *TINY), first).save(OneStepMore())
    seal(first / "checkpoint", Maker("DQN", {}, "2.60.0"), 2)
    words = (*TINY, "picker.learner.steps=200", f"resume={first}")
    for more, asked, best in ((), 0, 0.9), (("workload.load=1.5",), 1, -np.inf):
        run, trainer = Run(resolved("train_topdrl", *words, *more), second), OneStepMore()
        monkeypatch.setattr(run, "validate", lambda _: 0.6)
        run.adopt(first, 2)
        assert run.best == best
        run.iterate(trainer, Meter(Progress(disable=True)))
        assert trainer.asked == asked
    assert "another setting: workload.load was None, is 1.5" in caplog.text


@pytest.mark.ray
@pytest.mark.slow
def test_divergence_ends_with_advice(tmp_path):
    ended = TRAINING.run(
        tmp_path / "run", "picker.learner.steps=2000", "picker.learner.learning_rate=1e12"
    )
    assert ended.returncode == 1
    assert "lower learning_rate or grad_clip" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("picker.observation=null", "picker.observation is None; it must hold slots, oldest_slots"),
        ("picker.imitation=null", "picker.imitation is None; it must hold episodes, epochs"),
        ("picker.network.hidden=many", "picker.network.hidden is 'many'; it must be a whole numb"),
    ],
)
def test_a_section_that_is_none_is_told_by_its_key(tmp_path, word, message):
    config = resolved("train_topdrl", *TINY, word)
    with pytest.raises(ConfigError, match=re.escape(message)):
        Run(config, tmp_path)


def test_a_resume_from_nowhere_is_refused(tmp_path):
    ended = TRAINING.run(tmp_path / "run", f"resume={tmp_path / 'nowhere'}")
    assert ended.returncode == 1
    assert "there is no training checkpoint" in ended.stderr
