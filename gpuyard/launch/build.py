"""From OmegaConf to plain values, their rules, and objects: the only place where they meet."""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf

from gpuyard.launch.errors import ConfigError, instead, nearest
from gpuyard.launch.targets import ROOMS, message_of, with_new_names
from sim.errors import GpuYardError

T = TypeVar("T")
MAPPINGS = (dict, Mapping)
CONTAINERS = (list, Sequence, *MAPPINGS)
PLAIN = {
    int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a path",
}  # fmt: skip


def misfit(value: object, annotation: Any) -> str | None:
    """What the parameter asks for, if `value` is not that; None if it fits or cannot be judged.

    Only numbers, texts, paths, truth values, lists, mappings and unions of these are judged, and
    what is no object where a class is asked for; one that is not ours may be made of a text, a list
    or a mapping. A whole number is also a number.
    """
    hints = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    asked = [_asked(hint, value) for hint in hints]
    if None in asked or any(_fits(value, hint) for hint in hints):
        return None
    return " or ".join(str(words) for words in asked)


def whole(value: object) -> str:
    """How to write a whole number that came as a fraction, as `1e3` does in YAML."""
    return f"; write {int(value)}" if isinstance(value, float) and value.is_integer() else ""


def _asked(hint: Any, value: object) -> str | None:
    if hint in {Parameter.empty, Any, object}:  # no hint, or one that takes anything
        return None
    if hint is NoneType:
        return "null"
    if get_origin(hint) in CONTAINERS:
        of_what = f" of {_items_of(hint)[0]}".removesuffix(" of ")
        return "a mapping" if get_origin(hint) in MAPPINGS else f"a list{of_what}"
    if isinstance(hint, type) and not issubclass(hint, (*PLAIN, Enum)):
        ours = hint.__module__.partition(".")[0] in [room.name for room in ROOMS]
        if isinstance(value, NoneType | int | float | (str | list | dict if ours else NoneType)):
            return "a section with a _target_, or a choice of its group"
    return PLAIN.get(hint)


def _fits(value: object, hint: Any) -> bool:
    if hint is NoneType:
        return value is None
    if get_origin(hint) in MAPPINGS:
        return isinstance(value, Mapping)
    if get_origin(hint) in CONTAINERS:
        return isinstance(value, list | tuple) and all(map(_items_of(hint)[1], value))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is Path:
        return isinstance(value, str | Path)
    return type(value) is hint


def _items_of(hint: Any) -> tuple[str, Callable[[object], bool]]:
    """What a list is to hold, and whether something is that; a name may be a number, as `17`."""
    if get_args(hint) in {(int,), (float,)}:
        return "numbers", lambda each: _fits(each, float)
    if get_args(hint) == (str,):
        return "texts", lambda each: isinstance(each, str) or _fits(each, float)
    return "", lambda _: True


NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def resolve(cfg: DictConfig) -> dict[str, Any]:
    """The configuration in plain containers, references followed; ConfigError: values missing."""
    missing = sorted(OmegaConf.missing_keys(cfg))
    if missing:
        fix = " ".join(f"{key}=VALUE" for key in missing)
        raise ConfigError(f"{', '.join(missing)}: required, and has no default; add {fix}")
    return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))


def yaml_text(cfg: DictConfig) -> str:
    """The same as YAML; of one that can be resolved."""
    return OmegaConf.to_yaml(cfg, resolve=True)


def section(config: Mapping[str, Any], key: str) -> Any:
    """The value at the dotted `key`; ConfigError: it is not there, with the nearest name."""
    value: Any = config
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            known = value if isinstance(value, Mapping) else ()
            hint = nearest(name, known)
            raise ConfigError(
                f"{key}: the configuration has no {name!r}" + (f"; it has {hint!r}" if hint else "")
            )
        value = value[name]
    return value


def build(config: Mapping[str, Any], key: str, **objects: Any) -> Any:
    """Make the object that section `key` describes with `_target_`.

    Args:
        config: resolved configuration in plain containers.
        key: dotted name of the section, for example `scheduler.placer`.
        objects: further arguments of the outermost target. They reach it as they are: Hydra would
            turn a dataclass among its own arguments into a dict.

    Returns:
        The object; containers inside are plain lists and dicts. With `_partial_: true` a
            `functools.partial` that waits for the remaining arguments.

    Raises:
        ConfigError: naming section, target and what the target does not accept.
        GpuYardError: the target's own, unchanged.
    """
    values = section(config, key)
    if not _is_section(values):
        raise ConfigError(f"{key}: has no _target_, so there is nothing to build")
    values = with_new_names(values)
    try:
        made = instantiate(values, _convert_="all", _partial_=True)
    except InstantiationException as error:
        if isinstance(error.__cause__, GpuYardError):
            raise error.__cause__ from error
        _check_inside(key, values)
        raise ConfigError(message_of(key, error)) from error
    _check_inside(key, values)
    bound = partial(made.func, *made.args, **{**made.keywords, **objects})
    if values.get("_partial_"):
        return bound
    _check_arguments(key, bound)
    return bound()


def build_as(made: Callable[..., T], config: Mapping[str, Any], key: str, **objects: Any) -> T:
    """What `made` makes of section `key`, which has no `_target_`, and `objects`.

    Raises:
        ConfigError: naming section or key, as `build` does.
    """
    values = section(config, key)
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{key} is {values!r}; it must hold {', '.join(signature(made).parameters)}"
        )
    bound = partial(made, **values, **objects)
    _check_arguments(key, bound)
    return bound()


def _check_inside(key: str, values: Any) -> None:
    """Check the sections inside as `build` does its own: Hydra would tell of them in its words."""
    inside: dict[str, Any] = {}
    if isinstance(values, Mapping):
        inside = {f"{key}.{name}": value for name, value in values.items()}
    elif isinstance(values, list):
        inside = {f"{key}[{at}]": value for at, value in enumerate(values)}
    for place, value in inside.items():
        _check_inside(place, value)
        if _is_section(value) and not {"_partial_", "_args_"}.intersection(value):
            given = {name: each for name, each in value.items() if not str(name).startswith("_")}
            try:
                made = partial(get_object(value["_target_"]), **given)
            except Exception:  # whatever a module of the user's own raises; Hydra tells where
                continue
            _check_arguments(place, made)


def _is_section(value: object) -> bool:
    return isinstance(value, Mapping) and "_target_" in value


def _check_arguments(key: str, made: "partial[Any]") -> None:
    """Raise ConfigError if the target's parameters and the given keys do not fit."""
    try:
        parameters = signature(made.func).parameters
    except ValueError:  # a built-in that does not tell its parameters
        return
    given = made.keywords
    target = f"{made.func.__module__}.{made.func.__qualname__}"
    lacks = sorted(getattr(made.func, "__abstractmethods__", ()))
    if lacks:
        raise ConfigError(f"{key}: {target} has no method {', '.join(lacks)}; write it")
    required = [p.name for p in parameters.values() if p.default is p.empty and p.kind in NAMED]
    missing = [name for name in required if name not in given]
    if missing:
        raise ConfigError(
            f"{key}: {target} needs {', '.join(missing)}; set {key}.{missing[0]} in its yaml file"
        )
    for name, parameter in parameters.items():
        value = given.get(name, parameter.default)
        made_later = value is parameter.default or _is_section(value)
        asked = None if made_later else misfit(value, parameter.annotation)
        if asked:
            raise ConfigError(f"{key}.{name} is {value!r}; it must be {asked}{whole(value)}")
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    unknown = [name for name in given if name not in parameters]
    if unknown:
        hint = nearest(unknown[0], parameters)
        fix = f"did you mean {key}.{hint}?" if hint else f"it takes {', '.join(parameters)}"
        raise ConfigError(f"{key}.{unknown[0]}: {target} has no such parameter; {fix}")


# key -> (whole number?, smallest legal value)
Rules = dict[str, tuple[bool, int]]
SEED: Rules = {"seed": (True, 0)}
RULES: Rules = {
    **SEED,
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
    "algo.batch_agent_steps": (True, 1),
    "algo.minibatch_agent_steps": (True, 1),
    "algo.iterations": (True, 0),
    "algo.epochs": (True, 1),
    "algo.checkpoint_every": (True, 1),
    "policy.prior_scale": (False, 0),
    "warm_start.episodes": (True, 0),
    "warm_start.epochs": (True, 0),
    "warm_start.minibatch": (True, 1),
}
CRITICS = ("shared", "own", "none")
# What says how to train and may change on a resume; what else `train` reads is the setting.
OF_TRAINING = (
    "algo", "keep_checkpoints", "logger", "page", "ray", "resume", "rivals", "tune",
    "validate_every", "warm_start",
)  # fmt: skip


def check_plain(config: Mapping[str, Any], rules: Rules) -> None:
    """Raise ConfigError for a plain number of the wrong kind or size."""
    for key, (integer, least) in rules.items():
        value = section(config, key)
        right = isinstance(value, int if integer else int | float) and not isinstance(value, bool)
        if not (right and least <= value < float("inf")):
            kind = "a whole number" if integer else "a finite number"
            fix = whole(value) if integer else ""
            raise ConfigError(f"{key} is {value!r}; it must be {kind} from {least}{fix}")


def check_training(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for values of `conf/train.yaml` that would fail late, or pass unread."""
    from marl.env.world import TRAIN_PHYSICS  # numba

    if "batch_agent_steps" not in config["algo"]:
        raise ConfigError("algo: `train` takes ppo and appo; others are for `gpuyard learn`")
    check_plain(config, TRAINING)
    if "inner_rounds" in config["encoder"]:
        check_plain(config, {"encoder.inner_rounds": (True, 1)})
    check_choice(config, "train_physics", tuple(TRAIN_PHYSICS))
    check_choice(config, "policy.critic", CRITICS)
    if config["reward"].get("scale_jobs") and config["algo"]["gamma"] == 1:
        raise ConfigError("algo.gamma is 1: reward=progress pays a job whenever it ends; lower it")
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


LEAST_SURE = 0.0001  # nearer to 0 or 1 an interval has no width, or no end


def check_confidence(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a confidence or level that is no share, or of which nothing comes."""
    for key, like in {"confidence": 0.95, "level": 0.05}.items():
        value = config.get(key, like)
        if not (isinstance(value, float) and LEAST_SURE <= value <= 1.0 - LEAST_SURE):
            rule = f"lie from {LEAST_SURE} to {1.0 - LEAST_SURE}, like {like}"
            raise ConfigError(f"{key} is {value!r}; it must {rule}")


def check_kinds(config: Mapping[str, Any], hint: Any, *keys: str) -> None:
    """Raise ConfigError if the value of a key is not of a kind like `bool` or `Path | None`."""
    for key in keys:
        value = section(config, key)
        if asked := misfit(value, hint):
            raise ConfigError(f"{key} is {value!r}; it must be {asked}")


def check_count(place: str, value: object, *, null: bool = False) -> None:
    """Raise ConfigError unless the value at a place is a whole number from 1 (or null)."""
    if (type(value) is not int or value < 1) and not (null and value is None):
        fix = f"a whole number from 1{', or null' if null else ''}{whole(value)}"
        raise ConfigError(f"{place} is {value!r}; it must be {fix}")


def check_seconds(config: Mapping[str, Any], *keys: str) -> None:
    """Raise ConfigError if the value of a key is neither a finite number nor null."""
    for key in keys:
        value = config[key]
        if type(value) not in {int, float, type(None)} or not math.isfinite(value or 0.0):
            raise ConfigError(f"{key} is {config[key]!r}; it must be a number of seconds or null")


def check_checkpoint(config: Mapping[str, Any]) -> None:
    """Raise ConfigError if a policy is named and the scheduler reads none."""
    if config["checkpoint"] is not None and "checkpoint" not in config["scheduler"]:
        raise ConfigError(
            f"checkpoint is {config['checkpoint']!r}, which no scheduler but marl reads; "
            "add scheduler=marl"
        )


def check_texts(place: str, value: object, words: str, *, empty: bool = True) -> None:
    """Raise ConfigError unless the value at a place is a list of texts, as `words` say of it."""
    texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    if not texts or not (value or empty):
        raise ConfigError(f"{place} is {value!r}; it must be a list {words}")


def check_keys(place: str, found: Any, known: Sequence[str], *, needed: Sequence[str]) -> None:
    """Raise ConfigError for what is no mapping, an unknown key, or a needed one that is missing."""
    if not isinstance(found, Mapping):
        raise ConfigError(f"{place} is {found!r}; it must hold {', '.join(needed or known)}")
    for key in found:
        if key not in known:
            fix = instead(key, known, f"it takes {', '.join(known)}")
            raise ConfigError(f"{place}: no such key {key!r}; {fix}")
    for key in needed:
        if key not in found:
            raise ConfigError(f"{place}: has no {key}; add {key}:")
