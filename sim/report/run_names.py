"""What schedulers are called where runs with several numbers of agents stand together."""

from collections import defaultdict
from collections.abc import Sequence

from sim.report.labels import Labels


def run_names(labels: Sequence[Labels]) -> list[str]:
    """A name a run: the scheduler's, with the number of agents where it ran with several."""
    counts: dict[str, set[int]] = defaultdict(set)
    for run in labels:
        counts[run.scheduler].add(run.agents)
    return [_name(run, len(counts[run.scheduler]) > 1) for run in labels]


def _name(run: Labels, several: bool) -> str:
    plural = "agent" if run.agents == 1 else "agents"
    return f"{run.scheduler} ({run.agents} {plural})" if several else run.scheduler
