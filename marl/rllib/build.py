"""From an RLlib configuration to its algorithm, with shared names and environments of their own."""

from collections.abc import Callable
from itertools import count
from typing import Any

import gymnasium as gym
from ray.tune.registry import register_env
from ray.util import log_once


def built(config: Any) -> Any:
    """`config.build_algo()`, without the warning that it runs on the stack that we chose.

    RLlib warns through `log_once`: what has been said already is not said again.
    """
    log_once(f"{config.algo_class.__name__}_on_new_api_stack")
    return config.build_algo()


ENV_NAME = "gpuyard"
SHARED = "shared"  # the one policy of all agents
WHOLE_RETURN = "whole_episode_return"
RETURN_WINDOW = 16  # episodes


class OwnStream(gym.Wrapper[Any, Any, Any, Any]):
    """Begins with its own seed: RLlib gives all copies of an environment the same."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        """`seed` of the first episode; later ones go on with the stream."""
        super().__init__(env)
        self._seed: int | None = seed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The next episode of this copy."""
        del seed
        first, self._seed = self._seed, None
        return self.env.reset(seed=first, options=options)


def register_copies(name: str, make_env: Callable[[], gym.Env[Any, Any]], seed: int) -> None:
    """Tell RLlib of an environment whose copies each play episodes of their own."""
    copies = count()

    def create(context: Any) -> OwnStream:
        del context
        return OwnStream(make_env(), seed * 1_000_003 + next(copies))

    register_env(name, create)
