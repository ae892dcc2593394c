"""`reproduce.py experiment=marl_paper` with policies that are there, and what it asks for."""

import pandas as pd
import pytest

from marl.env.layout import WORKER, CodecRules
from marl.policy.build import build_policy, save_policy
from tests.marl.worlds import SMALL

QUICK = ("experiment=marl_paper", "debug=quick", "windows=1", "workload.num_jobs=40")


@pytest.fixture
def policies(tmp_path):
    """Words that name two policies with fresh weights, one of which is alone."""
    words = []
    for name, alone in (("agents", False), ("single_agent", True)):
        rules = CodecRules(window=4, only_placeable=False, sharing=True, patience_s=1e4,
                           alone=alone, granularity=WORKER, interval_s=60.0)  # fmt: skip
        save_policy(tmp_path / name, build_policy(SMALL, 2), SMALL, rules)
        words.append(f"reproduce.policies.{name}.folder={tmp_path / name}")
    return words


@pytest.mark.slow
def test_the_papers_figure_stands_beside_ours(done, policies):
    outcome = done("reproduce", *QUICK, *policies)
    table = pd.read_csv(outcome.folder / "comparison.csv")
    published = {"agents", "single_agent", "load_balance", "tetris", "lif", "lif_linear"}
    strong = {"load_balance_strong", "tetris_strong", "lif_strong"}
    assert published | strong <= set(table["scheduler"])
    claims = pd.read_csv(outcome.folder / "paper.csv")
    assert set(claims["claim"]) == {"more than 0.2"}
    assert set(claims["against"]) >= {"load_balance", "tetris", "lif", "single_agent"}
    assert not (outcome.folder / "trained").exists()


def test_a_policy_without_its_keys_is_one_message(start, policies):
    words = [policies[0], "~reproduce.policies.single_agent.quick"]
    start("reproduce", *QUICK, *words).failed_with("reproduce.policies.single_agent has")


@pytest.mark.slow
def test_what_is_not_there_is_trained_once(done):
    first = done("reproduce", *QUICK)
    assert (first.folder / "trained" / "agents" / "policy" / "policy.json").is_file()
    written = (first.folder / "trained" / "agents" / "learning_curve.csv").stat().st_mtime_ns
    again = done("reproduce", *QUICK)
    assert (
        again.folder / "trained" / "agents" / "learning_curve.csv"
    ).stat().st_mtime_ns == written
