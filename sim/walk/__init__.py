"""Queue schedulers' decisions in compiled code, where Python lets time pass.

For what `sim.compiled` has no loop for: partitions, forwarding, stealing, and placers that need
predictions. `walking` does what `QueueScheduler.fill` and `PartitionedScheduler` say, decision by
decision, on a `desk` that remembers what did not change since the last one.
"""
