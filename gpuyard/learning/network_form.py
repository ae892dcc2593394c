"""The agents' graph network as one vector: a form, like that of the linear score.

Nothing here loads torch before a network plays.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from gpuyard.learning.player import Field
from marl.codec.layout import CodecRules
from sim.arrays import FloatArray
from sim.metrics.job_times import mean_jct_s
from sim.simulator import Simulator

SPEC, RULES, FIXED = "network_spec", "network_rules", "network_fixed"  # in files


@dataclass(frozen=True, eq=False)
class NetworkForm:
    """How a vector is read: what is searched of a policy's tensors, in the order that it has them.

    `gpuyard.learning.network` says which those are, and makes vectors and policies.
    """

    spec: Mapping[str, Any]  # fields of `marl.policy.build.PolicySpec`
    rules: CodecRules
    fixed: FloatArray  # (K,) numbers of all other tensors, in the same order

    def player(self, vector: FloatArray) -> "NetworkPlayer":
        """Who plays as a vector says; another length is found out when it plays (ValueError)."""
        return NetworkPlayer(self, vector)

    def arrays(self) -> dict[str, Any]:
        """For files."""
        return {
            SPEC: np.array(json.dumps(dict(self.spec))),
            RULES: np.array(json.dumps(asdict(self.rules))),
            FIXED: self.fixed,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The inverse of `arrays`; raises KeyError, ValueError or TypeError."""
        spec, rules = (json.loads(str(arrays[name])) for name in (SPEC, RULES))
        if not np.isfinite(arrays[FIXED]).all():
            raise ValueError(f"{FIXED} has a number that is not finite")
        return cls(spec, CodecRules(**rules), arrays[FIXED])


@dataclass(frozen=True, eq=False)
class NetworkPlayer:
    """A network that plays greedily, as `scheduler=marl` does, in compiled code."""

    form: NetworkForm
    vector: FloatArray

    def jct_s(self, field: Field, simulator: Simulator) -> float:
        """As `Player.jct_s`."""
        from gpuyard.learning.network import policy_of  # torch
        from marl.training.plan import play_greedily

        del field  # its scheduler is a linear score
        policy = policy_of(self.form, self.vector)
        (run,) = play_greedily(policy, [simulator], self.form.rules, name="marl")
        return mean_jct_s(run)
