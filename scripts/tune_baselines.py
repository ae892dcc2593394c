"""Chooses baselines' settings on validation windows: `python scripts/tune_baselines.py`.

Finished runs are kept, as by `reproduce.py`.
"""

from gpuyard.command import run

if __name__ == "__main__":
    run("tune_baselines")
