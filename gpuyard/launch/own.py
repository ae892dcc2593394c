"""The user's own choices: folders searched beside `conf/`, and what is composed from both."""

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml
from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from gpuyard.launch.errors import CONF, ConfigError, explain, refuse_no_choice, refuse_unread
from sim.text_files import read_text

MEND = "make it a file that you may read"
OWN_FILE, SEARCH_KEY = "gpuyard.yaml", "hydra.searchpath"
_searched: ContextVar[list[str] | None] = ContextVar("searched", default=None)


def folder_started_in() -> Path:
    """The working directory.

    Raises:
        ConfigError: it has been removed since, or has a name that Hydra does not leave alone.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            "the folder you are in has been removed; cd to one that is there"
        ) from None
    if "${" in str(here):
        raise ConfigError(f"{here}: Hydra looks for a key where a path has ${{; rename the folder")
    return here


def own_folders(here: Path) -> list[Path]:
    """Folders of a user's own choices: those that `gpuyard.yaml` in `here` names; none without it.

    Raises:
        ConfigError: the file is no list of folders under `search_path`, one is not there, or holds
            a choice that `conf/` has as well, or that is no text.
    """
    own = here / OWN_FILE
    if not own.is_file():
        return []
    try:
        content = yaml.safe_load(read_text(str(own), ConfigError, MEND))
    except yaml.YAMLError as error:
        raise ConfigError(f"{own}: {' '.join(str(error).split())}") from error
    folders = content.get("search_path") if isinstance(content, dict) else None
    if not isinstance(folders, list) or not folders or set(content) != {"search_path"}:
        raise ConfigError(f"{own}: holds {content!r}; it must be one list, `search_path: [FOLDER]`")
    missing = [name for name in folders if not (here / str(name)).is_dir()]
    if missing:
        raise ConfigError(f"{own}: search_path names {missing[0]!r}, and {here} has no such folder")
    found = [here / str(name) for name in folders]
    for folder in found:
        for path in sorted(folder.glob("*/*.yaml")):
            shipped = CONF / path.relative_to(folder)
            if shipped.is_file():
                group, name = path.parent.name, path.stem
                raise ConfigError(f"{path}: {group}={name} is shipped, and comes first; rename it")
            read_text(str(path), ConfigError, MEND)
    return found


def choices_of(group: str) -> list[str]:
    """Names of the files of a configuration group, the user's own ones last."""
    folders = [CONF, *own_folders(Path.cwd())]
    return [path.stem for folder in folders for path in sorted((folder / group).glob("*.yaml"))]


def own_groups(here: Path) -> list[str]:
    """The word that lets Hydra search the user's own folders; Python finds modules of `here`."""
    if str(here) not in sys.path:
        sys.path.append(str(here))  # behind everything installed
    return _words([f"file://{folder}" for folder in own_folders(here)])


def own_choices(here: Path) -> dict[str, dict[str, Path]]:
    """Group -> name -> file of the user's own choices of it."""
    found: dict[str, dict[str, Path]] = {}
    for folder in own_folders(here):
        for path in sorted(folder.glob("*/*.yaml")):
            found.setdefault(path.parent.name, {}).setdefault(path.stem, path)
    return found


@contextmanager
def searching(overrides: Sequence[str]) -> Iterator[None]:
    """Within, `composed_of` searches where these overrides say, else where `gpuyard.yaml` does."""
    own = own_groups(Path.cwd())
    token = _searched.set([word for word in overrides if word.startswith(SEARCH_KEY)] or own)
    try:
        yield
    finally:
        _searched.reset(token)


def composed_of(
    name: str, overrides: Sequence[str] = (), *, with_hydra: bool = False
) -> DictConfig:
    """`conf/<name>.yaml` with overrides, and with the search path of the program that runs.

    Hydra's `compose` forgets `hydra.searchpath` of the command line. `with_hydra`: Hydra's own
    section is in it.

    Raises:
        ConfigError: an override or a file does not fit; with the nearest name.
    """
    own_path = any(word.startswith(SEARCH_KEY) for word in overrides)
    try:
        refuse_no_choice(overrides, choices_of)
        words = [*overrides, *([] if own_path else _search_words())]
        return compose(name, words, return_hydra_config=with_hydra)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(explain(error)) from error


def refuse_unread_of_experiment(
    program: str, config: DictConfig, choices: Mapping[str, str | None]
) -> None:
    """Raise ConfigError for a key that the chosen experiment sets and nobody reads.

    `config` is composed of `conf/<program>.yaml`; `choices`: group -> file, as Hydra has them.
    """
    experiment = choices.get("experiment")
    if experiment is None:
        return
    other = re.compile(r"experiment$|hydra/|.*@reproduce")

    def composed(beside: Collection[str]) -> DictConfig:
        return composed_of(program, [
            f"{'+' if group in beside else ''}{group}={name}"
            for group, name in choices.items()
            if name is not None and not other.match(group)
        ])  # fmt: skip

    try:
        plain = composed(())
    except ConfigError:  # it, or a word beside it, adds groups that the program has not
        has = composed_of(program, with_hydra=True).hydra.runtime.choices
        plain = composed(set(choices) - set(has))
    refuse_unread(experiment, config, plain)


def with_sections(program: str, config: dict[str, Any]) -> dict[str, Any]:
    """`config`; ConfigError: what is a section in `conf/<program>.yaml` is none any more."""
    path = CONF / f"{program}.yaml"
    own = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for key, value in own.items():
        if isinstance(value, dict) and key in config and not isinstance(config[key], dict):
            raise ConfigError(f"{key} is {config[key]!r}; it must hold {', '.join(value)}")
    return config


def _search_words() -> list[str]:
    words = _searched.get()
    if words is not None:
        return words
    if HydraConfig.initialized():
        return _words(list(HydraConfig.get().searchpath))
    return own_groups(Path.cwd())


def _words(urls: Sequence[str]) -> list[str]:
    listed = ",".join("'{}'".format(url.replace("'", "\\'")) for url in urls)
    return [f"{SEARCH_KEY}=[{listed}]"] if urls else []
