"""Write a generated trace: `python scripts/generate_trace.py workload.num_jobs=1000 out=FILE`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("generate_trace")
