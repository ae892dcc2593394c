"""A linear score over (waiting job, placement) pairs, and over forwards: `schedulers/linear_score`.

`desk` holds what a decision is planned on, `deciding` makes it; `features` and `forwarding` say
what is scored.
"""
