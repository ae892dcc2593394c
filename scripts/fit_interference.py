"""Fit and judge co-location models: `python scripts/fit_interference.py data_dir=DIR`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("fit_interference")
