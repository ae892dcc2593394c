"""`python -m gpuyard PROGRAM`."""

from gpuyard.command import main

if __name__ == "__main__":
    main()
