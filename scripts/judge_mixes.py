"""Models on mixes of up to seven jobs: `python scripts/judge_mixes.py data_dir=DIR`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("judge_mixes")
