"""Columns of the CSV file whose fields are lists: failures inside a job, and parents."""

from itertools import pairwise

import numpy as np

from sim.arrays import FloatArray, TextArray
from sim.traces.cycles import on_a_cycle
from sim.traces.ragged import starts
from sim.traces.sheet import Sheet
from sim.traits import Attempts, Precedence, codes_of

SEPARATOR = ";"


def attempts_of(sheet: Sheet, duration_s: FloatArray) -> Attempts:
    """Failures of each job: seconds of work, ascending, above 0 and below its duration."""
    lists = [_numbers(text) for text in sheet.raw("attempts")]
    wrong = [
        points is None or not _ascending([0.0, *points, end_s])
        for points, end_s in zip(lists, duration_s, strict=True)
        if points != []
    ]
    bad = np.zeros(len(sheet), dtype=np.bool_)
    bad[[row for row, points in enumerate(lists) if points != []]] = wrong
    rule = "is no list of seconds of work, ascending, above 0 and below duration_s; write 60;90.5"
    sheet.flag("attempts", bad, rule)
    good = [[] if bad[row] or points is None else points for row, points in enumerate(lists)]
    flat = [point for points in good for point in points]
    return Attempts(starts([len(points) for points in good]), np.array(flat, dtype=np.float64))


def _numbers(text: str) -> list[float] | None:
    if not text:
        return []
    try:
        return [float(part) for part in text.split(SEPARATOR)]
    except ValueError:
        return None


def _ascending(points: list[float]) -> bool:
    return all(a < b < np.inf for a, b in pairwise(points))


def precedence_of(sheet: Sheet, job_id: TextArray) -> Precedence:
    """Parents by their job_id, and the workflow that each job is part of.

    Without a workflow column, jobs joined by parents are one workflow each.
    """
    row_of = {name: row for row, name in reversed(list(enumerate(job_id)))}
    lists: list[list[int]] = []
    unknown = np.zeros(len(sheet), dtype=np.bool_)
    for row, text in enumerate(sheet.raw("parents")):
        names = [part.strip() for part in text.split(SEPARATOR)] if text else []
        rows = [row_of.get(name, -1) for name in names]
        unknown[row] = -1 in rows
        lists.append(list(dict.fromkeys(parent for parent in rows if parent >= 0)))
    sheet.flag("parents", unknown, "names a job_id that the file lacks; separate names by ;")
    first = starts([len(rows) for rows in lists])
    parents = np.array([parent for rows in lists for parent in rows], dtype=np.int64)
    cycle = on_a_cycle(first, parents)
    sheet.flag("parents", cycle, "makes the job wait for itself in the end; cut that circle")
    own = codes_of(sheet.texts("workflow"))
    links = Precedence(first, parents, own)
    return links if sheet.has("workflow") else _joined(links)


def _joined(links: Precedence) -> Precedence:
    """Jobs joined by parents, however far, numbered as workflows; -1 for single jobs."""
    jobs = len(links.workflow)
    root = np.arange(jobs)

    def find(row: int) -> int:
        while root[row] != row:
            root[row] = root[root[row]]
            row = int(root[row])
        return row

    for child in range(jobs):
        for parent in links.parents[links.first[child] : links.first[child + 1]]:
            a, b = find(child), find(int(parent))
            root[max(a, b)] = min(a, b)
    top = np.array([find(row) for row in range(jobs)], dtype=np.int64)
    alone = np.bincount(top, minlength=jobs)[top] == 1
    return Precedence(links.first, links.parents, np.where(alone, -1, top))
