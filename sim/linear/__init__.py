"""A linear score over (waiting job, placement) pairs, and over forwards: `schedulers/linear_score`.

`plan` holds what a decision is planned on, `deciding` makes it, `scores` says what is scored; the
features are those of `sim.scoring`.
"""
