"""Numbers by which compiled code knows the rules; a class says its own as `engine_code`."""

IN_PYTHON = -1  # a placer, a sharing or a forwarding rule without a number

# Orders: what the key of a job is; the least comes first, ties go to the lower row.
ARRIVAL, SMALLEST_GANG = 0, 1
LEFT, SERVICE = 2, 3  # predicted work left; the same times GPUs
TRUE_LEFT = 4  # an oracle's
QUANTA = 5  # whole quanta of attained service
TETRIS = 6  # depends on who else waits: put in order anew at each decision
FIXED = 7  # an own order's `keys`, told once, and again for who queues again
ASKED = 8  # an own `order` or `priority`, asked for at each decision
WORKED_OUT = 9  # own keys, or a `priority`, that are arithmetic on columns: by `Memory.steps`

# Steps of such arithmetic: what is known of a job, then what is made of one or two steps before.
NUMBER, COLUMN, NOW, PROGRESS, ATTAINED, PREEMPTIONS, RESTARTS = range(7)
PLUS, MINUS, TIMES, OVER, LEAST, MOST, BELOW, AT_MOST = range(7, 15)
FLOOR, ROOT, SIZE = range(15, 18)

# Placers.
FIRST_FIT, WORST_FIT, CONSOLIDATED, PACKED, LEAST_LOADED = range(5)
BEST_FIT, LEAST_INTERFERENCE, COMPACT_WAIT, DELAY, CLOSEST, SKEW = range(5, 11)
LWF, HEAVY_EDGE = 11, 12
NEVER_WAIT = (
    FIRST_FIT, WORST_FIT, PACKED, LEAST_LOADED, BEST_FIT, LEAST_INTERFERENCE, CLOSEST, LWF,
    HEAVY_EDGE,
)  # fmt: skip

# When GPUs with a tenant are offered.
NEVER, IF_NOTHING_IS_EMPTY, ALIKE = range(3)

# Which partition takes a job.
OWN_ONLY, TO_LEAST_LOADED, OWN_THEN_LEAST_LOADED, STEAL, DRAWN = range(5)
ROUTES = (TO_LEAST_LOADED, OWN_THEN_LEAST_LOADED, DRAWN, IN_PYTHON)  # as jobs arrive
