"""What `import gpuyard` gives: runs, comparisons, environments and policies from Python."""
