"""Measure co-location on this machine: `python scripts/measure_colocation.py`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("measure_colocation")
