"""Plans for DAGs: every search on every problem, as an experiment of `reproduce.py` asks."""

import shutil

from launch import Launch
from reproduce_dag_report import RESULT_FILES, write_dag_report
from reproduce_dag_settings import settings_of
from reproduce_dag_work import run_missing_searches
from reproduce_store import PARTS
from terminal import table_console


def run(launch: Launch) -> None:
    """Run what is missing, write tables and figures, print.

    Raises:
        ConfigError: the node `reproduce` is wrong.
        DagError: a problem cannot be made.
    """
    settings = settings_of(launch)
    for name in RESULT_FILES:
        (launch.folder / name).unlink(missing_ok=True)
    if launch.config["fresh"]:
        shutil.rmtree(launch.folder / PARTS, ignore_errors=True)
    rows = run_missing_searches(launch, settings)
    tables = write_dag_report(
        launch.folder,
        settings,
        rows,
        confidence=launch.config["confidence"],
        level=launch.config["level"],
    )
    table_console().print(tables)
    print(f"results in {launch.folder}")
