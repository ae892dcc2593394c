"""`reproduce.py` with tables of what other programs leave."""

import pandas as pd
import pytest

from gpuyard.launch.errors import ConfigError
from gpuyard.reproduction.sheets import sheet_text, sheets_of

QUICK = ("reproduce", "experiment=interference_models", "debug=quick")
NODE = {
    "title": "Errors", "cell": "{mae:.2f}",
    "rows": {"*one*": {"model": "a"}, "other": {"model": "b", "part": 2}},
    "columns": {"first": {"run": "x"}, "second": {"run": "y"}},
}  # fmt: skip


@pytest.fixture
def sheets(tmp_path) -> pd.DataFrame:
    for name, more in (("x", 0.0), ("y", 0.1)):
        (tmp_path / name).mkdir()
        text = f"model,part,mae\na,1,{0.2 + more}\nb,1,{0.3 + more}\n"
        (tmp_path / name / "sheet.csv").write_text(text + "b,2,0.5\n" * (name == "x"))
    return sheets_of(tmp_path, ["x", "y"], "sheet.csv")


def test_a_cell_is_the_row_of_its_line_and_column(sheets):
    text = sheet_text(sheets, NODE)
    assert text.headers == ("", "first", "second")
    assert text.settings == (("Errors", (("*one*", "0.20", "0.30"), ("other", "0.50", "-"))),)


@pytest.mark.parametrize(
    ("where", "told"),
    [({"model": "b"}, "2 rows of the sheets"), ({"modell": "a"}, "did you mean model")],
)
def test_rows_that_cannot_be_told_apart_are_refused(sheets, where, told):
    with pytest.raises(ConfigError, match=told):
        sheet_text(sheets, {**NODE, "rows": {"one": where}})


def test_runs_are_made_once_and_their_sheets_are_a_page(done, start):
    first = done(*QUICK)
    made = first.folder / "runs" / "fit" / "error_table.csv"
    stamp = made.stat().st_mtime_ns
    page = first.folder / "page.md"
    assert "| LIF-Linear, held-out pairs | - | - | - | - | - |" in page.read_text()
    kinds = "reproduce.columns={P100: {data_set: generated}}"
    done(*QUICK, kinds)
    assert made.stat().st_mtime_ns == stamp
    table = pd.read_csv(made).set_index(["data_set", "split", "model"])
    mae = table.mae["generated", "pair", "linear"]
    row = next(line for line in page.read_text().splitlines() if "LIF-Linear, held" in line)
    assert f"| {mae:.3f} (" in row
    start(*QUICK, "~reproduce.cell", folder="wrong").failed_with("reproduce: has no cell")
