"""Train TopDRL or one of its learned baselines: `python scripts/train_topdrl.py picker=topdrl`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("train_topdrl")
