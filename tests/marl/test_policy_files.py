"""Files of policies: what they keep, what is refused by name; a saved policy plays as it did."""

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marl.env.layout import WORKER
from marl.policy import build, policy_folder
from marl.policy.pair_score import best_action
from marl.schedulers.marl import MarlScheduler
from marl.training.episodes import greedy
from sim.run import Run
from sim.scoring.table import OfServer
from sim.simulator import simulate
from tests.marl.worlds import (
    MIXED_JOBS,
    RULES,
    SMALL,
    RandomJobs,
    env_of,
    events,
    loud_policy,
    mixed_world,
    total_rewards,
)

Weights = dict[str, torch.Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build.save_policy(tmp_path / "policy", loud_policy(SMALL, 0), SMALL, RULES)
    return tmp_path / "policy"


def described(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the description of a policy."""
    content = json.loads((folder / "policy.json").read_text())
    change(content)
    (folder / "policy.json").write_text(json.dumps(content))


def weighed(folder: Path, change: Callable[[Weights], Any]) -> None:
    """Change the weights of a policy."""
    weights = torch.load(folder / "policy.pt", weights_only=True)
    change(weights)
    torch.save(weights, folder / "policy.pt")


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", build.ENCODERS)
def test_every_encoder_is_found_by_its_class_and_kept_by_a_file(name: str, tmp_path: Path):
    found = build.encoder_class(name)
    assert build.encoder_name(f"{found.__module__}.{found.__qualname__}") == name
    spec = replace(SMALL, encoder=name, critic="own")
    policy = build.build_policy(spec)
    build.save_policy(tmp_path, policy, spec, replace(RULES, links=spec.reads_links))
    loaded, again, _ = build.load_policy(tmp_path)
    assert again == spec
    assert type(loaded.encoder) is found
    assert same(policy.state_dict(), loaded.state_dict())


def test_a_file_keeps_the_rules_and_one_of_before_has_what_there_was(folder: Path):
    rules = replace(RULES, granularity=WORKER, interval_s=30.0, rest_share=0.5, rest_most_s=60.0)
    build.save_policy(folder, build.build_policy(SMALL), SMALL, rules)
    assert build.read_spec(folder) == (SMALL, rules)

    def before(content: dict[str, Any]) -> None:
        for key in ("encoder", "inner_rounds", "critic"):
            del content["policy"][key]
        for key in ("granularity", "interval_s", "rest_most_s"):
            del content["rules"][key]

    described(folder, before)
    spec, old = build.read_spec(folder)
    assert spec == SMALL
    assert (old.granularity, old.interval_s, old.rest_most_s) == ("gang", 0.0, None)


def test_columns_are_found_by_their_names(folder: Path):
    def shuffle(weights: Weights) -> None:
        # Backwards, and the first one was not there yet.
        weights["encoder.gpu.weight"] = weights["encoder.gpu.weight"].flip(-1)[:, :-1]

    def name(content: dict[str, Any]) -> None:
        content["columns"]["OfGpu"] = content["columns"]["OfGpu"][:0:-1]

    expected = build.load_policy(folder)[0].state_dict()
    weighed(folder, shuffle)
    described(folder, name)
    expected["encoder.gpu.weight"] = expected["encoder.gpu.weight"].clone()
    expected["encoder.gpu.weight"][:, 0] = 0.0
    assert same(build.load_policy(folder)[0].state_dict(), expected)


@pytest.mark.parametrize("name", build.ENCODERS)
def test_every_encoder_finds_the_columns_of_servers_by_their_names(name: str, tmp_path: Path):
    spec = replace(SMALL, encoder=name)
    policy = build.build_policy(spec)
    build.save_policy(tmp_path, policy, spec, replace(RULES, links=spec.reads_links))
    described(tmp_path, lambda content: content["columns"]["OfServer"].reverse())
    written = policy.state_dict()
    found, count = build.load_policy(tmp_path)[0].state_dict(), len(OfServer)
    (key,) = (key for key in written if not torch.equal(found[key], written[key]))
    assert key.endswith(".own.weight")
    assert torch.equal(found[key][:, :count], written[key][:, :count].flip(-1))
    assert torch.equal(found[key][:, count:], written[key][:, count:])


@pytest.mark.parametrize("name", ["pretrained", "pretrained_suspending"])
@pytest.mark.parametrize("group", ["jobs", "pairs", "gpus", "context", "peers", "forwards"])
def test_a_policy_of_before_a_column_plays_on(name: str, group: str, tmp_path: Path):
    """The last column of a group, and of the starts' weights, is taken out of a policy's file."""
    there, spec, rules = build.load_policy(policy_folder(name))
    whole, cut = there.state_dict(), dict(there.state_dict())
    places = {
        "jobs": {"start.of_row": 14, "forward_to.of_row": 14, "query.0": 14,
                 "suspend_for.of_row": 14},
        "pairs": {"start.of_pair": 12},
        "gpus": {"encoder.gpu": 4},
        "context": {"query.0": 23, "wait.0": 72, "value.0": 72, "start.of_state": 72,
                    "forward_to.of_state": 72, "suspend_for.of_state": 72},
        "peers": {"wait.0": 79, "value.0": 79, "start.of_state": 79, "forward_to.of_state": 79,
                  "forward_to.of_pair": 17, "suspend_for.of_state": 79, "suspend_for.of_pair": 18},
        "forwards": {"forward_to.of_pair": 10},
    }[group]  # fmt: skip
    cuts = {f"{layer}.weight": at for layer, at in places.items()} | {"prior.start": 19}
    cuts |= {f"prior.start_layer.{part}": 19 for part in ("inner", "mean", "scale")}
    expected = dict(whole)
    for key, at in cuts.items():
        if key in whole:
            keep = [k for k in range(whole[key].shape[-1]) if k != at]
            cut[key] = whole[key][..., keep]
            expected[key] = whole[key].clone()
            expected[key][..., at] = 1.0 if key.endswith("scale") else 0.0
    build.save_policy(tmp_path, there, spec, rules)
    described(tmp_path, lambda content: content.pop("columns"))  # files of before named none
    torch.save(cut, tmp_path / "policy.pt")
    assert same(build.load_policy(tmp_path)[0].state_dict(), expected)


def refused(folder: Path) -> str:
    with pytest.raises(build.PolicyFileError) as caught:
        build.load_policy(folder)
    return str(caught.value)


def test_columns_and_actions_that_are_gone_are_named(folder: Path):
    def widen(weights: Weights) -> None:
        gpu = weights["encoder.gpu.weight"]
        weights["encoder.gpu.weight"] = torch.nn.functional.pad(gpu, (0, 1))

    weighed(folder, widen)
    assert "cannot be read as this policy's weights" in refused(folder)
    described(folder, lambda content: content["columns"]["OfGpu"].append("heat"))
    assert "reads 'heat' of OfGpu, which is not here; see sim/" in refused(folder)
    described(folder, lambda content: content.update(columns="OfGpu"))
    assert "is not a policy description" in refused(folder)
    described(folder, lambda content: content.pop("columns"))  # a file of before
    assert "trained on columns that are not here" in refused(folder)
    described(folder, lambda content: content.update(actions=["start", "migrate"]))
    assert "an action 'migrate'; here are start, forward, s" in refused(folder)


@pytest.mark.parametrize(
    ("part", "key", "value", "told"),
    [
        ("policy", "encoder", "os.system", "encoder is 'os.system'; it must be one of"),
        ("policy", "critic", "os.system", "critic is 'os.system'; it must be one of"),
        ("rules", "granularity", "crew", "granularity is 'crew'; it must be gang or worker"),
        *(("policy", "hidden_dim", each, f"hidden_dim is {each!r}")
          for each in ("8", -1, None, 0.5, True)),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(folder: Path, part: str, key: str, value: object, told: str):
    described(folder, lambda content: content[part].update({key: value}))
    message = refused(folder)
    assert str(folder / "policy.json") in message
    assert told in message


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", "3", '{"format": 4}', '{"format": 4, "policy": {}, "rules": {}}',
     '{"format": 4, "policy": 4, "rules": 5}', "\x00\x01"],
)  # fmt: skip
def test_a_foreign_description_is_named(folder: Path, text: str):
    (folder / "policy.json").write_text(text)
    assert str(folder / "policy.json") in refused(folder)


def test_another_format_is_told(folder: Path):
    described(folder, lambda content: content.update(format=99))
    assert "format 99" in refused(folder)


def test_the_best_policy_of_a_run_is_meant_from_anywhere_in_it(tmp_path: Path):
    with pytest.raises(build.PolicyFileError, match=r"nowhere.*policy\.json is not there"):
        MarlScheduler(checkpoint=str(tmp_path / "nowhere"))
    with pytest.raises(
        build.PolicyFileError, match=r"comes along: pretrained, pretrained_suspending"
    ):
        MarlScheduler(checkpoint="pretraind")
    run = tmp_path / "run"
    build.save_policy(run / "policy", build.build_policy(SMALL), SMALL, RULES)
    (run / "checkpoint" / "iteration_000001").mkdir(parents=True)
    for names in (".", "checkpoint", "checkpoint/iteration_000001", "policy/policy.pt"):
        assert f"did you mean {run / 'policy'}?" in refused(run / names)
    shutil.copytree(run / "policy", run / "latest")
    assert f"did you mean {run / 'policy'}?" in refused(run)


def test_weights_that_are_missing_cut_off_no_numbers_or_of_another_size_are_named(folder: Path):
    path = folder / "policy.pt"
    whole = path.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 40):
        path.write_bytes(whole[:size])
        assert str(path) in refused(folder)
    path.unlink()
    assert str(path) in refused(folder)
    torch.save(build.build_policy(replace(SMALL, head_dim=16)).state_dict(), path)
    assert str(path) in refused(folder)
    path.write_bytes(whole)
    first = next(iter(torch.load(path, weights_only=True)))
    weighed(folder, lambda weights: weights[first].mul_(float("nan")))
    assert f"{first} holds NaN" in refused(folder)


class Bomb:
    """Unpickling this would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_loading_runs_no_code(folder: Path, tmp_path: Path):
    with pytest.raises(build.PolicyFileError, match=r"os\.system.*use encoder=hierarchical"):
        build.encoder_name("os.system")
    sign = tmp_path / "ran"
    torch.save({"key.weight": Bomb(sign)}, folder / "policy.pt")
    refused(folder)
    (folder / "policy.pt").write_bytes(pickle.dumps(Bomb(sign), protocol=2))
    refused(folder)
    assert not sign.exists()
    pickle.loads((folder / "policy.pt").read_bytes())  # the bomb does work
    assert sign.exists()


def deployed(folder: Path, seed: int, partitions: int = 2) -> Run:
    jobs = replace(MIXED_JOBS, partitions=partitions)(seed)
    scheduler = MarlScheduler(checkpoint=str(folder))
    return simulate(mixed_world(partitions).simulator(jobs), scheduler, seed, None)


def test_a_saved_policy_decides_the_same(folder: Path, tmp_path: Path):
    loaded, spec, rules = build.load_policy(folder)
    assert (spec, rules) == (SMALL, RULES)
    build.save_policy(tmp_path / "again", loaded, spec, rules)
    runs = [deployed(place, 1) for place in (folder, folder, tmp_path / "again")]
    assert len({events(run) for run in runs}) == 1
    build.save_policy(tmp_path / "other", loud_policy(SMALL, 5), SMALL, RULES)
    assert events(deployed(tmp_path / "other", 1)) != events(runs[0])


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_one_set_of_weights_runs_on_any_number_of_agents(folder: Path, partitions: int):
    jobs = RandomJobs(count=20, partitions=partitions, most_gpus=3, span_s=2000.0)(0)
    scheduler = MarlScheduler(checkpoint=str(folder))
    run = simulate(mixed_world(partitions).simulator(jobs), scheduler, 0, None)
    assert np.isfinite(run.finish_s).all()
    assert scheduler.name == "marl"


EVERY_TEN = replace(RULES, interval_s=10.0)


@pytest.mark.parametrize(
    "rules",
    [RULES, EVERY_TEN, replace(RULES, granularity=WORKER),
     replace(EVERY_TEN, granularity=WORKER, sharing=False)],
    ids=["events", "interval", "workers", "workers of an interval"],
)  # fmt: skip
def test_lockstep_the_scheduler_and_the_environment_play_the_same(tmp_path, rules):
    build.save_policy(tmp_path, loud_policy(SMALL, 1), SMALL, rules)
    scheduler = MarlScheduler(checkpoint=str(tmp_path))
    world, counts = mixed_world(2), (5, 40, 20)  # the runs end at different times
    windows = [replace(MIXED_JOBS, count=count)(seed) for seed, count in enumerate(counts)]
    together = scheduler.play_together([world.simulator(jobs) for jobs in windows], 0)
    teacher = greedy(build.load_policy(tmp_path)[0])
    for run, jobs in zip(together, windows, strict=True):
        assert events(run) == events(simulate(world.simulator(jobs), scheduler, 0, None))
        assert np.isfinite(run.finish_s).all()
        if rules.interval_s > 0:
            assert (run.start_s % rules.interval_s == 0).all()
        for everyone in (False, True) if rules is RULES else (False,):
            env = env_of(world, lambda _, jobs=jobs: jobs, everyone=everyone, rules=rules)
            total_rewards(env, lambda _, seen: teacher(seen), 0)
            assert events(env.turns.simulator.outcome("env", 0, 0.0, 0.0)) == events(run)
    assert len({events(run) for run in together}) == len(counts)


@pytest.mark.parametrize("encoder", ["hierarchical", "flat"], ids=["compiled", "torch"])
def test_acting_is_deciding_and_carrying_out(tmp_path: Path, encoder: str):
    spec, rules = replace(SMALL, encoder=encoder), replace(RULES, interval_s=100.0)
    build.save_policy(tmp_path, loud_policy(spec, 1), spec, rules)
    jobs = RandomJobs(count=20, partitions=2, most_gpus=6, span_s=3000.0)(3)
    scheduler = MarlScheduler(checkpoint=str(tmp_path))
    decided = simulate(mixed_world(2).simulator(jobs), scheduler, 0, None, compiled=False)
    simulator = mixed_world(2).simulator(jobs)
    views = simulator.views(scheduler.needs)
    scheduler.reset(0)
    carried_out = 0
    while simulator.advance():
        again = True
        while again:
            found, is_done = scheduler.act(views)
            if is_done:
                simulator.flush()
                carried_out += len(found)
            else:
                simulator.apply(found[-1])
            again = found[-1].again
    acted = simulator.outcome(scheduler.name, 0, np.nan, np.nan)
    assert events(acted) == events(decided)
    assert (carried_out > len(jobs)) == (encoder == "hierarchical")


def test_logits_that_differ_by_rounding_tie():
    logits = torch.tensor([[1.0, 2.0, 2.000001], [0.0, 2.0, 2.1]])
    assert best_action(logits) == [1, 2]
