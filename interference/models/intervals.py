"""The interval that predictions are judged and widened by."""

LEVEL = 0.9  # of truths that lie inside
NORMAL = 1.645  # half its width in standard deviations, where errors are normal
