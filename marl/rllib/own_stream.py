"""Copies of an environment that do not play the same episodes."""

from typing import Any

import gymnasium as gym


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
