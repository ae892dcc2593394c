"""What a reproduction trains: what is wrong with it is told before the first of it begins."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from gpuyard.launch.build import check_keys, check_plain, resolve
from gpuyard.launch.errors import ConfigError, explain
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.training.setting import check_all, trainer_of
from gpuyard.training.train import PICKER_RULES
from sim.errors import GpuYardError

POLICY_KEYS = ("folder", "overrides", "quick")


def policies_of(
    key: str, entries: Mapping[str, Any], train: Callable[[str, Mapping[str, Any]], Path]
) -> dict[str, str]:
    """Name -> folder of each policy that a node tells of: the one there is, else what is trained.

    Errors are those of `untrained`.
    """
    waiting = untrained(key, entries)
    return {
        name: str(train(name, each) if f"reproduce.{key}.{name}" in waiting else each["folder"])
        for name, each in entries.items()
        if each is not None  # an experiment may do without one
    }


def untrained(key: str, entries: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Where it stands -> each policy of a node that is to be trained.

    Raises:
        ConfigError: one, trained or not, has other keys than POLICY_KEYS.
    """
    places = {f"reproduce.{key}.{name}": each for name, each in entries.items() if each is not None}
    for place, each in places.items():
        check_keys(place, each, POLICY_KEYS, needed=POLICY_KEYS)
    return {place: each for place, each in places.items() if each["folder"] is None}


def check_words(launch: Launch, program: str, parts: Mapping[str, Sequence[str]]) -> None:
    """Make what `program` makes before it trains, by the words of each part; nothing is written.

    Args:
        launch: of the reproduction.
        program: one of `MAKERS`.
        parts: where the words stand, like `reproduce.arms.full` -> overrides of the program.

    Raises:
        ConfigError: words are wrong; the message begins with where they stand.
    """
    made: list[tuple[str, Launch]] = []
    for place, words in parts.items():  # all of them, before anything that takes seconds
        with told_at(place):
            config = resolve(composed_of(program, words))
        record = replace(launch.record, overrides=tuple(words))
        made.append((place, replace(launch, config=config, record=record)))
    for place, each in made:
        with told_at(place):
            MAKERS[program](each)


@contextmanager
def told_at(place: str) -> Iterator[None]:
    """What a user can mend is told with the place that it comes of."""
    try:
        yield
    except (GpuYardError, OmegaConfBaseException) as error:
        raise ConfigError(f"{place}: {explain(error)}") from error


def _agents(launch: Launch) -> None:
    check_all(launch)
    from gpuyard.training.session import Training  # torch and ray

    Training(launch)


def _picker(launch: Launch) -> None:
    check_plain(launch.config, PICKER_RULES)
    from gpuyard.training.topdrl_training import Training  # torch and ray

    Training(launch.config, launch.folder)


def _learner(launch: Launch) -> None:
    trainer_of(replace(launch, config={**launch.config, "jobs": 1}))  # workers would be started


MAKERS = {"train": _agents, "train_topdrl": _picker, "learn": _learner}
