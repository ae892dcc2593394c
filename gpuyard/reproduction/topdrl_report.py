"""Tables and figures of TopDRL's comparison: paired by window and seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from gpuyard.training.topdrl_training import bars
from sim.metrics.timeline import Interval, mean_interval
from sim.report.atomic import csv_text, write_atomically
from sim.report.comparison import ComparisonRow, write_comparison_csv
from sim.report.standings import BASELINES, paired_tests

SHOWN = {  # metric -> heading, format
    "throughput_tflops": ("throughput TFLOP/s", "{:.1f}"),
    "jct_all_mean_s": ("mean JCT s", "{:,.0f}"),
    "placement_cost_ratio": ("comm. cost / least", "{:.3f}"),
}
JUDGED = "throughput_tflops"
Rows = Mapping[str, Mapping[str, list[ComparisonRow]]]  # cell -> scheduler -> runs by unit


def write_report(
    folder: Path,
    found: Sequence[tuple[str, ComparisonRow]],
    node: Mapping[str, Any],
    *,
    ours: str,
    confidence: float,
) -> Group:
    """Write comparison.csv, tests.csv, throughput.md, figures; return the tables to be printed."""
    write_comparison_csv(folder / "comparison.csv", [row for _, row in found])
    rows = _by_cell(found)
    tests = [
        test
        for cell, of in rows.items()
        for test in paired_tests(cell, of, ours=ours, metric=JUDGED, confidence=confidence)
    ]
    write_atomically(folder / "tests.csv", _csv(tests).encode())
    for metric, (heading, _) in SHOWN.items():
        cells = {
            cell: {name: _interval(runs, metric, confidence) for name, runs in of.items()}
            for cell, of in rows.items()
        }
        path = folder / f"{metric.removesuffix('_tflops')}.png"
        bars(cells, ours=ours, what=heading, path=path)
    tables = [_table(cell, of, tests, confidence) for cell, of in rows.items()]
    note = _verdict(tests, str(node["claim"]), ours)
    text = "\n".join([f"# {node['title']}", "", *map(_markdown, tables), note, ""])
    write_atomically(folder / "throughput.md", text.encode())
    return Group(*tables, note)


def _by_cell(found: Sequence[tuple[str, ComparisonRow]]) -> Rows:
    rows: dict[str, dict[str, list[ComparisonRow]]] = {}
    for cell, row in found:
        rows.setdefault(cell, {}).setdefault(row.labels.scheduler, []).append(row)
    return rows


def _interval(runs: Sequence[ComparisonRow], metric: str, confidence: float) -> Interval:
    return mean_interval([float(row.metrics[metric]) for row in runs], confidence)


def _table(
    cell: str,
    of: Mapping[str, list[ComparisonRow]],
    tests: Sequence[Mapping[str, Any]],
    confidence: float,
) -> Table:
    told = {test["against"]: test for test in tests if test["cell"] == cell}
    table = Table(title=cell, title_justify="left")
    for heading in ("scheduler", "role", *(heading for heading, _ in SHOWN.values())):
        table.add_column(heading)
    table.add_column("ours / its throughput")
    table.add_column("p (Holm)")
    for name, runs in of.items():
        cells = [
            _told(_interval(runs, metric, confidence), form) for metric, (_, form) in SHOWN.items()
        ]
        table.add_row(name, runs[0].labels.role, *cells, *_beside(told.get(name)))
    return table


def _told(found: Interval, form: str) -> str:
    return f"{form.format(found.centre)} [{form.format(found.low)}, {form.format(found.high)}]"


def _beside(test: Mapping[str, Any] | None) -> tuple[str, str]:
    if test is None:
        return "", ""
    p = test.get("p_holm")
    ratio = f"{test['ratio']:.3f} [{test['low']:.3f}, {test['high']:.3f}]"
    return ratio, "" if p is None else f"{p:.2g}"


def _verdict(tests: Sequence[Mapping[str, Any]], claim: str, ours: str) -> str:
    """The claim beside what came out, against the baselines only."""
    baselines = [test for test in tests if test["role"] == BASELINES]
    best = max(baselines, key=lambda test: test["ratio"])
    least = min(baselines, key=lambda test: test["ratio"])
    clear = sum(test["low"] > 1 and test["p_holm"] < 1 - 0.95 for test in baselines)
    return (
        f"Throughput of {ours}, claimed: {claim}. Here from {least['ratio'] - 1:+.1%} (against "
        f"{least['against']}, {least['cell']}) to {best['ratio'] - 1:+.1%} (against "
        f"{best['against']}, {best['cell']}); significantly higher in {clear} of "
        f"{len(baselines)} comparisons with baselines (paired t-test, Holm, 5 %)."
    )


def _csv(tests: Sequence[Mapping[str, Any]]) -> str:
    columns = ("cell", "against", "role", "pairs", "ratio", "low", "high", "p", "p_holm")
    return csv_text(columns, ([test.get(name) for name in columns] for test in tests))


def _markdown(table: Table) -> str:
    """A rich table as markdown."""
    cells = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    lines = ["| " + " | ".join(row) + " |" for row in zip(*cells, strict=True)]
    rule = "| " + " | ".join("---" for _ in cells) + " |"
    return "\n".join([f"## {table.title}", "", lines[0], rule, *lines[1:], ""])
