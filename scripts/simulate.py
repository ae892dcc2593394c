"""Replay a trace: `python scripts/simulate.py workload=csv workload.path=FILE scheduler=sjf`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("simulate")
