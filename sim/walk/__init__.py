"""Queue schedulers in one compiled loop, where `sim.compiled` has none.

That is with partitions, forwarding, stealing, placers that need predictions, and orders that depend
on who else waits. `walking` does what `QueueScheduler.fill` and `PartitionedScheduler` say,
decision by decision, on a `desk` that remembers what did not change since the last one.
"""
