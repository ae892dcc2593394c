"""One table and figures from the folders of a sweep: `python scripts/compare.py sweep=DIR`."""

import logging
from pathlib import Path

import hydra
from gather import Found, gather, pooled_jct_s
from launch import Launch, run_main, start
from omegaconf import DictConfig
from plain_rules import check_confidence
from terminal import table_console

from sim.report.comparison_report import write_comparison
from sim.report.figure_jct_cdf import jct_cdf

log = logging.getLogger(__name__)

RESULT_FILES = ("comparison.csv", "comparison.md", "jct_bars.png", "jct_cdf.png", "sweep.png")
MOST_CURVES = 14  # of the distribution figure
OURS = "marl"


@hydra.main(version_base=None, config_path="../conf", config_name="compare")
def main(cfg: DictConfig) -> None:
    """Gather, write, print."""
    launch = start(cfg)
    for name in RESULT_FILES:
        (launch.folder / name).unlink(missing_ok=True)
    check_confidence(launch.config)
    sweep = launch.config["sweep"]
    folders = [Path(str(name)) for name in (sweep if isinstance(sweep, list) else [sweep])]
    results = gather(folders, leave_out=launch.folder)
    rows = [row for result in results for row in result.rows]
    known = {row.labels.scheduler for row in rows}
    tables = write_comparison(
        launch.folder,
        rows,
        ours=launch.config["ours"] or (OURS if OURS in known else None),
        confidence=launch.config["confidence"],
        sweeps=True,
        assumed=list(dict.fromkeys(line for result in results for line in result.assumed)),
    )
    _draw_distributions(results, launch)
    table_console().print(tables)
    print(f"{len(rows)} runs from {len(results)} folders; results in {launch.folder}")


def _draw_distributions(results: list[Found], launch: Launch) -> None:
    """Draw jct_cdf.png, unless there are more curves than can be told apart."""
    curves, lines = pooled_jct_s(results)
    if not 0 < len(curves) <= MOST_CURVES:
        log.info("jct_cdf.png left out: %d curves, it holds 1 to %d", len(curves), MOST_CURVES)
        return
    jct_cdf(curves, path=launch.folder / "jct_cdf.png", runs=lines)


if __name__ == "__main__":
    run_main(main)
