"""The one way from an RLlib configuration to its algorithm."""

from typing import Any

from ray.util import log_once


def built(config: Any) -> Any:
    """`config.build_algo()`, without the warning that it runs on the stack that we chose.

    RLlib warns through `log_once`: what has been said already is not said again.
    """
    log_once(f"{config.algo_class.__name__}_on_new_api_stack")
    return config.build_algo()
