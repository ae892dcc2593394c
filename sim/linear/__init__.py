"""A linear score over (waiting job, placement) pairs, and over forwards: `schedulers/linear_score`.

`plan` holds what a decision is made on, `deciding` makes it, `scores` says what is scored, `acting`
has it happen to the state, `loop` plays a run; the features are those of `sim.scoring`.
"""
