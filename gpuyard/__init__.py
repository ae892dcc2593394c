"""GPUYard: simulate, compare and learn the scheduling of deep-learning jobs on GPU clusters.

From Python: `gpuyard.simulate`, `gpuyard.evaluate`, `gpuyard.advise`, `gpuyard.make_env`,
`gpuyard.make_single_agent_env`, `gpuyard.load_policy` (docs/api.md). From a shell: `gpuyard help`.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuyard.api.agents import load_policy, make_env, make_single_agent_env
    from gpuyard.api.running import advise, evaluate, simulate

__version__ = version("gpuyard")
__all__ = [
    "GpuYardError",
    "advise",
    "evaluate",
    "load_policy",
    "make_env",
    "make_single_agent_env",
    "simulate",
]

_HOMES = {  # imported when first asked for: `gpuyard help` loads no simulator
    "GpuYardError": "sim.errors",
    "advise": "gpuyard.api.running",
    "evaluate": "gpuyard.api.running",
    "load_policy": "gpuyard.api.agents",
    "make_env": "gpuyard.api.agents",
    "make_single_agent_env": "gpuyard.api.agents",
    "simulate": "gpuyard.api.running",
}


def __getattr__(name: str) -> Any:
    """A function of the API, from its module.

    Raises:
        ImportError: a file of the user's has the name of a package of ours.
    """
    if name not in _HOMES:
        raise AttributeError(f"module 'gpuyard' has no attribute {name!r}")
    if message := import_module("gpuyard.command").foreign_package():
        raise ImportError(message)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """With the functions that are not imported yet: what Tab offers in a notebook."""
    return sorted([*globals(), *_HOMES])
