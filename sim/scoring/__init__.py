"""What decisions are weighed by: features of jobs, placements, forwards, servers and partitions.

`table` names them all; the linear score and the agents' observation read them by these names, and
one compiled code computes them. `docs/guide.md` says how to add one.

`linear_score` is the scheduler that adds them up: `scores` holds what a decision is made on, what
is scored and what has it happen; `deciding` makes decisions and plays a run.
"""
