"""One composition a run: Hydra itself composes twice, first to learn `hydra.mode` alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from hydra._internal import hydra as internals
from hydra.core.config_loader import ConfigLoader
from hydra.types import RunMode
from launch_errors import refuse_no_choice
from omegaconf import DictConfig

RUN_OVERRIDE = "hydra.mode=RUN"  # what Hydra adds itself where nothing chose a mode


@contextmanager
def composing_once() -> Iterator[None]:
    """Inside, `hydra.main` composes the configuration of a plain run once."""
    original = internals.Hydra
    internals.Hydra = ComposeOnce  # type: ignore[misc]
    try:
        yield
    finally:
        internals.Hydra = original  # type: ignore[misc]


class ComposeOnce(internals.Hydra):
    """Hydra that reads the mode from the configuration of the run, and keeps that for the run."""

    _kept: tuple[list[str], DictConfig] | None = None  # its overrides, and the configuration

    def get_mode(self, config_name: str | None, overrides: list[str]) -> Any:
        """`hydra.mode`; as Hydra finds it for what cannot be composed as a plain run.

        Raises:
            ConfigError: a group is given null or a number instead of a choice.
        """
        refuse_no_choice(overrides, self.config_loader.get_group_options)
        try:
            config = super().compose_config(config_name, overrides, RunMode.RUN)
        except Exception:  # a sweep, or an error that Hydra will tell
            return super().get_mode(config_name, overrides)
        self._kept = (list(overrides), config)
        return config.hydra.mode

    def compose_config(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        *rest: Any,
        **more: Any,
    ) -> DictConfig:
        """The configuration that `get_mode` kept if it is this one, else a new one."""
        kept, self._kept = self._kept, None
        loader = self.config_loader
        if kept is not None and run_mode == RunMode.RUN and _completed(*kept, overrides):
            self.config_loader = cast(ConfigLoader, Composed(loader, kept[1]))
        try:
            return super().compose_config(config_name, overrides, run_mode, *rest, **more)
        finally:
            self.config_loader = loader


class Composed:
    """A loader whose first configuration is there already."""

    def __init__(self, loader: Any, config: DictConfig) -> None:
        """Ask `loader` for everything else."""
        self._loader = loader
        self._ready = [config]

    def load_configuration(self, **asked: Any) -> DictConfig:
        """The configuration; a new one when asked again, as `hydra.verbose` does to print it."""
        if self._ready:
            return self._ready.pop()
        config: DictConfig = self._loader.load_configuration(**asked)
        return config

    def __getattr__(self, name: str) -> Any:
        """Whatever else is asked for, of the loader."""
        return getattr(self._loader, name)


def _completed(given: list[str], config: DictConfig, overrides: list[str]) -> bool:
    """Whether `config`, made of `given`, is that of `overrides`; applies Hydra's own override."""
    if overrides == given:
        return True
    if overrides != [*given, RUN_OVERRIDE]:
        return False
    config.hydra.mode = RunMode.RUN
    config.hydra.overrides.hydra.append(RUN_OVERRIDE)
    return True
