"""Compare traces: `python scripts/compare_traces.py workload@real=csv real.path=FILE`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("compare_traces")
