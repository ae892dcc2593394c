"""One global queue over the same cluster and jobs is shown beside the agents it bounds."""

from collections.abc import Sequence
from dataclasses import replace

from sim.report.comparison_row import ComparisonRow
from sim.report.labels import Labels


def beside_agents(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Rows for tables and figures: global queues moved into the settings with agents.

    A row of role `global_queue` has one agent, so it would stand in a table of its own. Here it
    appears in each setting that differs from its own in the number of agents only; where there is
    none it stays. Files keep the true number.
    """
    shown: list[ComparisonRow] = []
    for row in rows:
        if row.labels.role != "global_queue":
            shown.append(row)
            continue
        counts = dict.fromkeys(
            other.labels.agents
            for other in rows
            if other.labels.role != "global_queue" and _place(other.labels) == _place(row.labels)
        )
        for agents in counts or [row.labels.agents]:
            shown.append(replace(row, labels=replace(row.labels, agents=agents)))
    return shown


def _place(labels: Labels) -> tuple[str, str, float | None, str]:
    return labels.topology, labels.workload, labels.load, labels.physics
