"""GPUYard: programs over agents and simulator (`gpuyard help`)."""

from importlib.metadata import version

__version__ = version("gpuyard")
