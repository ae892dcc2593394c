"""Fit the generator: `python scripts/fit_generator.py workload.path=FILE name=mine_like`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("fit_generator")
