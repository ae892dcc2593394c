"""Rules for what a trace leaves open: models, GPU types, and which of its columns to use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.traces.gpu_type_words import UNKNOWN
from sim.traces.option_rules import check_choice
from sim.traces.profiles import RULES
from sim.traces.trace_traits import TRAITS


@dataclass(frozen=True, kw_only=True)
class JobRules:
    """Options of `rules` in conf/workload/_trace.yaml."""

    profile_rule: str  # one of sim.traces.profiles.RULES
    models: Mapping[str, str]  # the trace's name of a model -> the catalogue's
    ignore: Sequence[str]  # traits to leave out, of sim.traces.trace_traits.TRAITS
    gpu_type_names: Mapping[str, str]  # the trace's name of a GPU type -> the topology's
    unknown_gpu_types: str  # one of sim.traces.gpu_type_words.UNKNOWN

    def __post_init__(self) -> None:
        """Check the words.

        Raises:
            TraceError: naming the key, the value and what is known.
        """
        check_choice("rules.profile_rule", self.profile_rule, RULES)
        check_choice("rules.unknown_gpu_types", self.unknown_gpu_types, UNKNOWN)
        for trait in self.ignore:
            check_choice("rules.ignore", trait, TRAITS)
