"""Families of DAGs, as configuration describes them: each draws its graphs from a seed."""

from pathlib import Path
from typing import Protocol

import numpy as np

from sim.dag.dnn_graphs import dnn_partitioning_graph, pipedream_graph
from sim.dag.graph import DagError, TaskGraph
from sim.dag.graph_sources import alibaba_graph, layered_graph, random_graph, side_by_side
from sim.traces.alibaba_dag import AlibabaDag

SHAPES = {"layered": layered_graph, "random": random_graph}
READERS = {"pipedream": pipedream_graph, "dnn_partitioning": dnn_partitioning_graph}
COLUMNS = {
    "task_name": "task", "job_name": "job", "inst_num": "n_instances",
    "arrival_s": "arrival_s", "duration_s": "duration_s",
}  # fmt: skip


class Family(Protocol):
    """A set of DAGs that are judged together."""

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:
        """One DAG; `which` is a size or a file."""
        ...


class GeneratedFamily:
    """Layered or random DAGs; `which` is the number of tasks."""

    def __init__(self, *, shape: str, width: int, parents: float, mean_s: float, mb_per_s: float):
        """See `sources.generated`.

        Raises:
            DagError: an unknown shape.
        """
        if shape not in SHAPES:
            raise DagError(f"shape {shape!r} is unknown; use one of {', '.join(SHAPES)}")
        self._make = SHAPES[shape]
        self._width, self._parents = width, parents
        self._mean_s, self._mb_per_s = mean_s, mb_per_s

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:
        """See `Family`."""
        return self._make(
            _size(which), width=self._width, parents=self._parents,
            mean_s=self._mean_s, mb_per_s=self._mb_per_s, rng=rng,
        )  # fmt: skip


class AlibabaFamily:
    """Batches of Alibaba 2018 jobs; `which` is the number of tasks."""

    def __init__(self, *, path: str, longest_s: float, mb_per_s: float) -> None:
        """Read the file of tasks (columns arrival_s, job, task, duration_s, n_instances).

        Raises:
            TraceError: the file cannot be used.
        """
        reader = AlibabaDag(instances_per_gpu=32, most_gpus=1, header=None)
        self._trace = reader.read(path=path, columns=COLUMNS, name="alibaba", strict=True)[0]
        self._longest_s, self._mb_per_s = longest_s, mb_per_s

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:
        """See `Family`."""
        return alibaba_graph(
            self._trace, tasks=_size(which), longest_s=self._longest_s,
            mb_per_s=self._mb_per_s, rng=rng,
        )  # fmt: skip


class ModelFamily:
    """Micro-batches of a model graph from a file; `which` is the file's name in `folder`."""

    def __init__(self, *, reader: str, folder: str, copies: int) -> None:
        """Keep where the files are.

        Raises:
            DagError: an unknown reader.
        """
        if reader not in READERS:
            raise DagError(f"reader {reader!r} is unknown; use one of {', '.join(READERS)}")
        self._read, self._folder, self._copies = READERS[reader], Path(folder), copies

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:  # noqa: ARG002  (not drawn)
        """See `Family`."""
        return side_by_side(self._read(self._folder / which), self._copies)


def _size(which: str) -> int:
    if not which.isdigit():
        raise DagError(f"{which!r} is no number of tasks; this family's graphs are sizes like 300")
    return int(which)
