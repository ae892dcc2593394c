"""Runs the tables and figures of papers again: `python scripts/reproduce.py experiment=<id>`.

Without an experiment it lists what there is. Finished runs are kept, so the same command goes on
where it was stopped.
"""

from gpuyard.command import run

if __name__ == "__main__":
    run("reproduce")
