"""Tables of pages: what they leave out and what they read of other files."""

from pathlib import Path

from gpuyard.pages.page import Page, rendered
from gpuyard.pages.sections import MOST_ROWS, csv_table, markdown_tables, table_of_rows, text_cell
from sim.report.table_text import markdown_table

MIB = 1 << 20


def test_a_table_says_what_it_leaves_out_and_sorts_by_numbers():
    table = table_of_rows("Many", [{"at": at, "word": "x"} for at in range(MOST_ROWS + 10)])
    assert len(table.rows) == MOST_ROWS
    assert table.note == f"The first {MOST_ROWS} of {MOST_ROWS + 10} rows."
    assert table.numeric == (True, False)
    shown = {"4.20 ± 0.31": 4.2, "0.9 [0.8, 1.0]": 0.9, "-": None, "2x": None, "(ours)": None}
    assert {text: text_cell(text).sort for text in shown} == shown
    page = Page(title="Only words", subtitle="", sections=(table_of_rows("None", []),))
    assert len(rendered(page)) < MIB / 10  # without a figure it carries no Plotly


def test_a_bar_inside_a_cell_of_a_result_divides_no_cells(tmp_path: Path):
    rows = [["[gpu_types=P100|T4]", "1.5"], ["a|", "2"]]
    (tmp_path / "page.md").write_text("\n".join(markdown_table(["cell", "mean JCT"], rows)))
    found = markdown_tables(tmp_path / "page.md", "Result")[0].rows
    assert [[cell.text for cell in row] for row in found] == rows


def test_what_is_the_same_in_every_row_is_so_in_those_not_shown(tmp_path: Path):
    lines = [f"a,x,{row}" for row in range(MOST_ROWS)] + ["b,x,0"]
    (tmp_path / "raw.csv").write_text("\n".join(["family,budget,jct", *lines]))
    table = csv_table(tmp_path / "raw.csv", "Raw")
    assert table.headers == ("family", "jct") and len(table.rows) == MOST_ROWS
    told = f"The same in every row: budget = x. The first {MOST_ROWS} of {MOST_ROWS + 1} rows."
    assert table.note == f"From raw.csv. {told}"
