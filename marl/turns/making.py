"""Makes plays: one at a run's beginning, and copies of them to be played on by themselves."""

from dataclasses import replace

import numpy as np

from marl.codec.layout import Layout
from marl.codec.observe import Canvas
from marl.codec.rules import WORKER, CodecRules, Observation
from marl.codec.tables import Tables, tables_of
from marl.turns.memory import make_memory
from marl.turns.playing import Play
from sim.kernel.layout import State
from sim.view import ClusterView

DTYPES = {"server_rack": np.int64, "action_mask": np.int8}  # the others are float32


def blank_canvas(layout: Layout, *many: int) -> Canvas:
    """A canvas of zeros; with `many`, arrays of so many."""
    shapes = layout.shapes()
    return Canvas(
        **{
            key: np.zeros((*many, *shapes[key]), DTYPES.get(key, np.float32))
            for key in Canvas._fields
        }
    )


def make_play(
    view: ClusterView, layout: Layout, rules: CodecRules, canvas: Canvas, *, gathers: bool
) -> Play:
    """The play of a run in which nobody has acted; `view` needs `marl.codec.rules.NEEDS`."""
    owner = np.asarray(view.partition_of_server)
    jobs = view.jobs.num_gpus
    return Play(
        tables=tables_of(view, float(rules.rest_share)),
        memory=make_memory(
            jobs=len(jobs),
            partitions=view.num_partitions,
            actions=layout.actions,
            window=rules.window,
            largest_gang=min(int(jobs.max()), view.topology.num_gpus),
            running=len(view.state.running),
        ),
        canvas=canvas,
        servers=np.argsort(owner, kind="stable").astype(np.int64),
        first=np.concatenate([[0], np.cumsum(np.bincount(owner))]).astype(np.int64),
        numbers=layout.sizes.table(),
        max_forwards=int(view.max_forwards),
        only_placeable=bool(rules.only_placeable),
        sharing=bool(rules.sharing),
        patience_s=float(rules.patience_s),
        alone=bool(rules.alone),
        blind_peers=bool(rules.blind_peers),
        by_worker=rules.granularity == WORKER,
        interval_s=float(rules.interval_s),
        gathers=gathers,
    )


def forked(play: Play, state: State, canvas: Canvas) -> Play:
    """The same turn of the run in `state`, a copy of the play's own, seen on another canvas."""
    tables: Tables = replace(play.tables, state=state, crowd=play.tables.crowd.copy())
    for mine, theirs in zip(canvas, play.canvas, strict=True):
        mine[:] = theirs
    return replace(play, tables=tables, memory=play.memory.copied(), canvas=canvas)


def seen_on(canvas: Canvas) -> Observation:
    """What is on the canvas, in arrays of its own."""
    return {key: value.copy() for key, value in canvas._asdict().items()}
