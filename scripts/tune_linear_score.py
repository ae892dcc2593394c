"""Tune the linear score: `python scripts/tune_linear_score.py experiment=headline name=mine`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("tune_linear_score")
