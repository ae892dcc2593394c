"""A value that a scheduler or placer cannot take is refused by its key, value and rule."""

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hydra.utils import instantiate

from sim.errors import GpuYardError
from sim.scoring.weights import START_FEATURES
from tests.contract.compositions import composed, stems

NAN, INF = math.nan, math.inf
ZEROS = dict.fromkeys(START_FEATURES, 0.0)
PLACERS = stems("placer")
RULES = [  # the rule, a value that breaks it, who has the rule
    ("above 0", 0.0, "dally.lease_s gandiva.trial_s las.quantum_gpu_s easy.overrun_s"
     " pollux.round_s themis.round_s tiresias_gittins.quantum_gpu_s worl_online.overrun_frac"),
    ("above 0", -1, "gavel.round_s"),
    ("above 0, at most 1", 0.0, "a_srpt.efficiency pollux.idle_speedup"),
    ("null, or above 0", 0.0, "gandiva.slice_s linear_score.rest_most_s"),
    ("null, or above 0", -1.0, "gandiva.migrate_every_s"),
    ("null, or 1 or more", 0.9, "a_srpt.theta"),
    ("null, or 0 or more", -1, "tiresias.promote_knob"),
    ("null, or 0 or more, a finite number", INF, "tiresias.promote_knob"),
    ("0 or more", -0.1, "a_srpt.delta ada_srsf.eta_frac gandiva.least_speed"
     " tiresias_gittins.refit_growth_frac worl_online.makespan_weight"),
    ("0 or more", -1.0, "dally.rack_leases linear_score.patience_s linear_score.rest_share"
     " pollux.restart_s"),
    ("0 or more", -1, "pollux.generations worl_online.plans"),
    ("0 or more, a finite number", NAN, "a_srpt.tau ada_srsf.eta_frac"),
    ("0 or more, a finite number", INF,
     "ada_srsf.eta_frac linear_score.patience_s worl_online.patience"),
    ("0 or more seconds", -1, "delay.rack_wait_s"),
    ("0 or more seconds", NAN, "delay.rack_wait_s"),
    ("1 or more", 0, "linear_score.window tiresias_gittins.least_history worl_online.most_tasks"),
    ("1 or more", 0.5, "dally.history_leases"),
    ("1 or more", 0.9, "compact_wait.most_slowdown"),
    ("1 or more", -1, "compact_wait.most_slowdown"),
    ("1 or more, a finite number", NAN, "compact_wait.most_slowdown"),
    ("1 or more, a finite number", INF, "compact_wait.most_slowdown"),
    ("2 or more", 1, "pollux.population"),
    *(("a whole number, 0 or more", value, "lwf.kappa") for value in (-1, 1.5, None)),
    ("from -100 to below 0", 1.0, "pollux.power"),
    ("from -100 to below 0", -1000.0, "pollux.power"),
    ("from 0 to below 1", -0.1, "optimus.hysteresis_frac themis.fairness_knob"),
    ("from 0 to below 1", 1.0, "optimus.hysteresis_frac themis.fairness_knob"),
    ("from 0 to below 1, a finite number", NAN, "themis.fairness_knob"),
    ("one of compact, no_network", "none", "dally.ideal"),
    ("one of auto, manual, no_wait, consolidated", "never", "dally.timers"),
    ("one of together, submitted, shortest, shared", "longest", "worl_online.workflows"),
    *(("one or more ascending numbers above 0", value, "tiresias.thresholds_gpu_s")
      for value in (["a"], [], [0, 5], [5, 5], [5, NAN])),
]  # fmt: skip
OTHERS = [  # who, what it is given, what is said
    ("dally", {"network_leases": 1.0},
     "scheduler.network_leases is 1.0; it must be at least scheduler.rack_leases, 12.0"),
    ("delay", {"rack_wait_s": 6, "anywhere_wait_s": 5},
     "placer.anywhere_wait_s is 5; it must be at least rack_wait_s, which is 6"),
    ("gavel", {"policy": "fairest"}, "scheduler.policy is fairest; use one of max_min, total_"),
    ("skew", {"models": ["-"]}, "placer.models is ['-']; every name needs a letter or a digit"),
    *(("linear_score", {"weights_file": None, "weights": weights}, f"scheduler.weights{told}")
      for weights, told in (
          ({"start": {}}, ".start.bias is None"),
          ({}, ".start is None"),
          ({"start": ZEROS, "fwd": {}}, " has 'fwd'"),
          ({"start": ZEROS | {"spred": 1.0}}, ".start has 'spred'; it takes bias, spread"),
          ({"start": ZEROS | {"gang": NAN}}, ".start.gang is nan; it must be a finite number"))),
    ("linear_score", {"weights_file": "nowhere.yaml"},
     "scheduler.weights_file is nowhere.yaml, which cannot be read"),
]  # fmt: skip


@cache
def maker(stem: str) -> Callable[..., Any]:
    """Makes the scheduler or placer of that file with other values."""
    words = [f"placer={stem}"] if stem in PLACERS else [f"scheduler={stem}"]
    scheduler = composed(words)
    chosen = scheduler.placer if stem in PLACERS else scheduler
    return instantiate(chosen, _convert_="all", _partial_=True)


@pytest.mark.parametrize(
    ("who", "value", "rule"),
    [(who, value, rule) for rule, value, all_of_them in RULES for who in all_of_them.split()],
)
def test_a_value_that_breaks_a_rule_is_refused_with_the_rule(who: str, value: Any, rule: str):
    stem, key = who.split(".")
    part = "placer" if stem in PLACERS else "scheduler"
    told = f"{part}.{key} is {value!r}; it must be {rule}"
    with pytest.raises(GpuYardError, match=f"^{re.escape(told)}$"):
        maker(stem)(**{key: value})


@pytest.mark.parametrize(("who", "given", "told"), OTHERS)
def test_what_cannot_be_together_or_be_read_is_refused(who: str, given: dict, told: str):
    with pytest.raises(GpuYardError, match=re.escape(told)):
        maker(who)(**given)
