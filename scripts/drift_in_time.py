"""Plays windows one after the other while the truth drifts: `python scripts/drift_in_time.py`.

Window k is played under k + 1 steps of `interference=drifted`. A scheduler with an online belief
begins each window with the evidence of the windows before; beside it stands the same one that
begins each window anew, its name with `_anew` at the end.
"""

from gpuyard.command import run

if __name__ == "__main__":
    run("drift_in_time")
