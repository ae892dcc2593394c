"""Rules for plain values of `conf/`, which no constructor sees as they were given."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuyard.launch.build import section, whole
from gpuyard.launch.errors import ConfigError, nearest
from sim.physics.gpu_table import GpuTable, plain_name

# key -> (whole number?, smallest legal value)
Rules = dict[str, tuple[bool, int]]
SEED: Rules = {"seed": (True, 0)}
RULES: Rules = {
    "seed": (True, 0),
    "max_tenants": (True, 1),
    "restart_s": (False, 0),
    "restart_s_per_gpu": (False, 0),
    "checkpoint_s": (False, 0),
    "agents.count": (True, 1),
    "agents.skew": (False, 0),
    "agents.max_forwards": (True, 0),
}
AGENTS: Rules = {
    "rules.window": (True, 1),
    "rules.patience_s": (False, 0),
    "rules.interval_s": (False, 0),
    "rules.rest_share": (False, 0),
}
TRAINING: Rules = {
    **SEED,
    **AGENTS,
    "encoder.gpu_dim": (True, 1),
    "encoder.hidden_dim": (True, 1),
    "encoder.rounds": (True, 1),
    "policy.head_dim": (True, 1),
    "max_rounds": (True, 1),
    "validation_windows": (True, 1),
    "validate_every": (True, 1),
    "keep_checkpoints": (True, 1),
}
GRANULARITIES = ("gang", "worker")
CRITICS = ("shared", "own")


def check_plain(config: Mapping[str, Any], rules: Rules) -> None:
    """Refuse a plain number of the wrong kind or size.

    Raises:
        ConfigError: naming key, value and rule.
    """
    for key, (integer, least) in rules.items():
        value = section(config, key)
        right = isinstance(value, int if integer else int | float) and not isinstance(value, bool)
        if not (right and least <= value < float("inf")):
            kind = "a whole number" if integer else "a finite number"
            fix = whole(value) if integer else ""
            raise ConfigError(f"{key} is {value!r}; it must be {kind} from {least}{fix}")


def check_training(config: Mapping[str, Any]) -> None:
    """Refuse values of `conf/train.yaml` that would fail only after minutes, or pass unread.

    Raises:
        ConfigError: naming key, value and rule.
    """
    from marl.env.game import TRAIN_PHYSICS  # numba

    check_plain(config, TRAINING)
    if "inner_rounds" in config["encoder"]:
        check_plain(config, {"encoder.inner_rounds": (True, 1)})
    check_choice(config, "train_physics", tuple(TRAIN_PHYSICS))
    check_choice(config, "policy.critic", CRITICS)
    check_choice(config, "rules.granularity", GRANULARITIES)
    batch, part = (section(config, f"algo.{key}_agent_steps") for key in ("batch", "minibatch"))
    if isinstance(batch, int) and isinstance(part, int) and part > batch:
        raise ConfigError(
            f"algo.minibatch_agent_steps is {part}, above algo.batch_agent_steps, {batch}; lower it"
        )


def check_choice(config: Mapping[str, Any], key: str, known: tuple[str, ...]) -> None:
    """Raise ConfigError if the value of `key` is none of `known`."""
    value = section(config, key)
    if value not in known:
        raise ConfigError(f"{key} is {value!r}; it must be {' or '.join(known)}")


def check_confidence(config: Mapping[str, Any]) -> None:
    """Refuse a confidence that is no share between 0 and 1.

    Raises:
        ConfigError: naming key and value.
    """
    value = config["confidence"]
    if not (isinstance(value, float) and 0.0 < value < 1.0):
        raise ConfigError(f"confidence is {value!r}; it must lie between 0 and 1, like 0.95")


def check_division(config: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse a way of dividing the cluster that nobody knows.

    Raises:
        ConfigError: naming value and choices.
    """
    value = section(config, "agents.division")
    if value not in known:
        raise ConfigError(f"agents.division is {value!r}; it must be {' or '.join(known)}")


def check_reference_gpu(name: str, known: tuple[str, ...], table: GpuTable) -> None:
    """Refuse a reference GPU type that is no type of the cluster, the profiles or `conf/gpu_table`.

    Raises:
        ConfigError: naming the first two.
    """
    if name not in known and plain_name(name) not in table:
        raise ConfigError(
            f"reference_gpu is {name!r}, for which there are no profiles; use one of "
            f"{', '.join(dict.fromkeys(known))}, or describe it with "
            f"+gpus.{plain_name(name)}.like=v100 +gpus.{plain_name(name)}.speed=2"
        )


def check_keys(
    place: str, found: Mapping[str, Any], known: Sequence[str], *, needed: Sequence[str]
) -> None:
    """Refuse a key that is not known, and one that is needed and missing.

    Raises:
        ConfigError: naming the place and the key.
    """
    for key in found:
        if key not in known:
            hint = nearest(str(key), known)
            fix = f"did you mean {hint}?" if hint else f"it takes {', '.join(known)}"
            raise ConfigError(f"{place}: no such key {key!r}; {fix}")
    for key in needed:
        if key not in found:
            raise ConfigError(f"{place}: has no {key}; add {key}:")
