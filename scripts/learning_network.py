"""The graph network in `learn.py`: where its search begins, and the folder that plays it."""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launch_errors import ConfigError
from plain_rules import AGENTS, Rules, check_plain

from gpuyard.learning.network_form import NetworkForm
from marl.codec.rules import CodecRules
from sim.arrays import FloatArray
from sim.linear.weights import ScoreWeights

SCORE, NETWORK = "score", "network"  # what is learned
OF_NETWORK = ("learns", "graph", "rules", "hide")  # keys that a score does not have
POLICY = "policy"  # the folder
RULES: Rules = {
    "graph.gpu_dim": (True, 1),
    "graph.hidden_dim": (True, 1),
    "graph.head_dim": (True, 1),
    **AGENTS,
}


def check_learns(config: Mapping[str, Any]) -> None:
    """Refuse what would fail late.

    Raises:
        ConfigError: naming key, value and rule.
    """
    if config["learns"] not in (SCORE, NETWORK):
        raise ConfigError(f"learns is {config['learns']!r}; it must be {SCORE} or {NETWORK}")
    if config["learns"] == SCORE:
        if config["hide"]:
            raise ConfigError(
                f"hide is {config['hide']!r}, but a score sees all; add learns=network"
            )
        return
    check_plain(config, RULES)
    if not config["scheduler"].get("use_durations", True):
        raise ConfigError(
            f"scheduler.use_durations is false, but agents read predictions; use learns={SCORE}"
        )


def first_of(
    config: Mapping[str, Any], prior: ScoreWeights
) -> tuple[NetworkForm, FloatArray, FloatArray]:
    """Form, first vector and sigmas of the configured network.

    Raises:
        ConfigError: a value of `rules` or `hide` is none of its choices.
    """
    from gpuyard.learning.network import NetworkSizes, first_network  # torch

    sizes, hide = NetworkSizes(**config["graph"]), config["hide"]
    if not (isinstance(hide, list) and all(isinstance(name, str) for name in hide)):
        raise ConfigError(f"hide is {hide!r}; it must be a list of columns, like [prolongs]")
    try:
        rules = CodecRules(**config["rules"])
        return first_network(sizes, rules, prior, config["seed"], hide)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def write_policy(folder: Path, form: NetworkForm, vector: FloatArray) -> Path:
    """Write what a vector stands for as a policy; its folder.

    Raises:
        OSError: it cannot be written, on a full disk for example.
    """
    from gpuyard.learning.network import policy_of  # torch
    from marl.policy.build import PolicySpec
    from marl.training.policy_file import save_policy

    path = folder / POLICY
    try:
        save_policy(path, policy_of(form, vector), PolicySpec(**form.spec), form.rules)
    except RuntimeError as error:  # torch's, of a full disk
        raise OSError(errno.EIO, f"cannot be written ({error})", str(path)) from error
    return path
