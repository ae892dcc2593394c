"""What pages hold, without a browser: sections, escaped names, aggregation that is told."""

import html
import json
import math
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gpuyard.evaluation.again import Again, best_two, seen_again
from gpuyard.evaluation.explanation import Reason
from gpuyard.pages.comparison_page import curve_of_checkpoint, sweep_sections, write_folder_page
from gpuyard.pages.gantt import bars_of, gantt_figures, span_text
from gpuyard.pages.page import in_colours, script_json
from gpuyard.pages.run_page import tree_figure, waits_table
from gpuyard.pages.sections import MOST_POINTS, jct_figure
from sim.errors import GpuYardError
from sim.files import ComparisonRow
from sim.jobs import Demands
from sim.report.run_folder import write_record
from sim.report.summary import summarise
from sim.run import Kind, Run
from sim.times import DAYS, MINUTES
from tests.pages.conftest import MARKUP, in_turn, labels
from tests.scripts.conftest import TRACE, call

MIB = 1 << 20


class Elements(HTMLParser):
    """Tags with their attributes, and the text of what lies outside scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):  # noqa: ARG002
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.texts.append(data.strip())

    def figures(self) -> dict:
        return json.loads(self.scripts[0])


def test_a_run_has_every_section_and_links_to_its_files(run_page):
    page = Elements(run_page)
    told = [text for text in page.texts if text]
    assert {"Asked", "Assumed", "Job completion times", "Use and queue over time", "Jobs by server",
            "Why jobs waited", "The cluster over time", "All metrics", "Files", "models drawn",
            "gangs cut to <16> GPUs", "physics off"} <= set(told)  # fmt: skip
    order = [told.index(title) for title in ("Jobs by server", "Why jobs waited", "All metrics")]
    assert order == sorted(order)
    assert "gpuyard simulate seed=0 'a='\"'\"'<i>'\"'\"''" in told
    assert ("a", {"href": "a%20b.csv", "download": None}) in page.tags
    assert run_page.stat().st_size < 6 * MIB
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 3  # figures, Plotly, its own
    for tag, attributes in page.tags:  # nothing is fetched
        assert "src" not in attributes
        assert tag != "link" or attributes["href"] == "data:,"


def test_names_are_no_markup(run_page, comparison_page):
    for path in (run_page, comparison_page):
        page = Elements(path)
        assert [tag for tag, _ in page.tags if tag in {"b", "i"}] == []
        assert "alert(1)" not in "".join(page.scripts[1:])
    bars = Elements(run_page).figures()["s2"]["data"][0]
    # Plotly's labels read HTML, so the id is escaped in them once more
    shown = "&lt;b&gt;bold&lt;/b&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;"
    assert bars["text"][0] == shown
    assert "</" not in script_json({"id": "</script>"})


def test_a_job_on_neighbouring_gpus_is_one_bar_as_in_a_part_of_the_run(run):
    bars, (low_s, high_s) = bars_of(run), (7000.0, 11_000.0)
    assert len(bars.job) == 40
    assert bars.gpus.tolist() == [1 + at % 3 for at in range(40)]
    trace = gantt_figures(run)[0].data[0]
    assert trace["y"][:3] == [0.5, 5.0, 9.5]
    assert trace["width"][:3] == [1.0, 2.0, 3.0]
    assert "2 GPUs in all, 2 here on server 1" in trace["hovertext"][1]
    there = (bars.end_s >= low_s) & (bars.start_s <= high_s)
    assert 0 < there.sum() < len(bars.job)
    for name, column in vars(bars_of(run, (low_s, high_s))).items():
        assert column.tolist() == getattr(bars, name)[there].tolist()


def test_a_job_on_two_servers_is_two_bars_and_a_shared_gpu_is_split(hand):
    jobs = [
        hand.Job(0.0, 100.0, ((0.0, 100.0, [1, 2]),), gpus=2),
        hand.Job(0.0, 100.0, ((0.0, 100.0, [3]),)),
        hand.Job(0.0, 100.0, ((0.0, 100.0, [3]),)),
    ]
    run = hand.build_run(jobs, servers=2, gpus_per_server=2, partitions=1)
    trace = gantt_figures(run)[0].data[0]
    assert list(zip(trace["y"], trace["width"], strict=True)) == [
        (1.5, 1.0), (2.5, 1.0), (3.25, 0.5), (3.75, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize(("servers", "rows"), [(225, 900), (226, 8)])  # of 4 GPUs each
def test_servers_without_jobs_are_left_out_where_a_gpu_would_be_below_a_pixel(hand, servers, rows):
    jobs = [hand.Job(0.0, 100.0, ((0.0, 100.0, [4 * at + 1]),)) for at in (3, 190)]
    figure = gantt_figures(hand.build_run(jobs, servers, gpus_per_server=4, partitions=1))[0]
    axis, places = figure.layout["yaxis"], figure.data[0]["y"]
    assert axis["range"] == [rows, 0]
    assert ("left out: 224 of 226" in figure.note) == (rows == 8)
    if rows == 8:
        assert places == [1.5, 5.5] and axis["tickvals"] == [2.0, 6.0]
        assert [line["y0"] for line in figure.layout["shapes"]] == [4]
    else:
        assert places == [13.5, 761.5]


def test_a_bar_tells_the_gpus_that_an_elastic_job_holds_then(hand):
    attempts = ((0.0, 10.0, [0, 1, 2, 3]), (10.0, 20.0, [0]), (20.0, 30.0, [1, 2]))
    run = hand.build_run([hand.Job(0.0, 30.0, attempts, gpus=4)], 2, 2, 1)
    held = [text.rpartition("<br>")[2] for text in gantt_figures(run)[0].data[0]["hovertext"]]
    assert [text.partition(" on")[0] for text in held] == [
        *["4 GPUs in all, 2 here"] * 2, "1 GPU in all, 1 here", *["2 GPUs in all, 1 here"] * 2,
    ]  # fmt: skip


def test_too_many_jobs_become_shares_and_the_page_says_so(hand):
    figure, part = gantt_figures(in_turn(hand, jobs=3000, servers=2, gpus=2))
    assert figure.title == "Use by server"
    assert figure.note.startswith("3,000 starts of jobs are more than can be told apart")
    assert np.mean(figure.data[0]["z"]) == pytest.approx(100 / 8, abs=0.3)  # 1 of 4, half the time
    assert "A part of the run with 800 starts" in part.note and not part.opened
    assert len(part.data[0]["x"]) == pytest.approx(800, abs=2)
    curve = jct_figure({"fifo": np.arange(1.0, 3001.0)}, {"fifo": "fifo"})
    assert len(curve.data[0]["x"]) == MOST_POINTS
    assert "400 quantiles of up to 3,000 jobs" in curve.note
    assert curve.data[0]["x"][-1] == 3000.0
    middle = np.searchsorted(curve.data[0]["y"], 50.0)
    assert curve.data[0]["x"][middle] == pytest.approx(1500.0, rel=0.01)


def test_the_tree_has_a_cell_a_server_and_starts_where_it_is_busiest(run):
    figure = tree_figure(run)
    frames = figure.slider.frames
    assert (len(frames), len(frames[0]), len(frames[0][0])) == (60, 2, 2)
    use = np.array(frames, dtype=float).mean(axis=(1, 2))
    assert figure.slider.start == int(np.argmax(use))
    assert figure.data[0]["text"][1][0] == "rack 1: server 2, 4 GPUs"


@pytest.mark.parametrize(("low_s", "high_s", "parts", "text"), [
    (0.0, 50.0, 1, "0 to 50 s"), (50.0, 100.0, 1, "50 s to 1 min 40 s"),
    (0.0, 1566.0, 1, "0 to 26 min"), (4698.0, 6264.0, 1, "1 h 18 min to 1 h 44 min"),
    (6000.0, 7199.9, 1, "1 h 40 min to 2 h"), (3600.0, 36_000.0, 1, "1 to 10 h"),
    (864_000.0, 864_300.0, 20, "10 d to 10 d 5 min"), (1.0, 1.3, 1, "1 to 1.3 s"),
    (0.0, 0.0, 1, "0 to 0 s"),
])  # fmt: skip
def test_stretches_of_time_are_told_as_people_write_them(low_s, high_s, parts, text):
    assert span_text(low_s, high_s, DAYS, parts=parts) == text
    assert span_text(600.0, 7800.0, MINUTES) == "10 to 130 min"  # as the axis has it


def test_a_server_that_is_away_has_no_colour(hand):
    away = ((10.0, Kind.SERVER_DOWN, [2, 3]), (60.0, Kind.SERVER_UP, [2, 3]))
    jobs = [hand.Job(0.0, 100.0, ((0.0, 100.0, [0, 1]),), gpus=2)]
    run = hand.build_run(jobs, servers=2, gpus_per_server=2, partitions=1, server_events=away)
    frames = tree_figure(run).slider.frames
    assert [frame[0][1] for frame in frames].count(None) == pytest.approx(30, abs=1)
    grey = gantt_figures(run)[0].data[0]
    assert grey["hovertext"] == ["server 1 away"]
    assert (grey["base"], grey["x"]) == ([10.0], [50.0])


def test_a_comparison_has_intervals_and_symbols_by_role(comparison_page):
    page = Elements(comparison_page)
    assert "Evaluate: 3 schedulers" in page.texts
    assert sum("±" in text for text in page.texts) >= 3
    figure = next(f for f in page.figures().values() if "error_x" in f["data"][0])
    roles = [trace["name"] for trace in figure["data"]]
    assert roles == 2 * ["ours", "composite", "published"]  # marks, then their legend
    assert len({trace["marker"]["symbol"] for trace in figure["data"]}) == 3
    assert min(figure["data"][0]["error_x"]["array"]) > 0
    headings = re.findall(r"<summary><h2>(.*?)</h2>", comparison_page.read_text(encoding="utf-8"))
    views = ["Jobs by server", "Why jobs waited", "The cluster over time"]
    shown = [f"{each}: {name}" for name in ("marl", MARKUP) for each in views]
    assert [html.unescape(each) for each in headings[-6:]] == shown
    assert " over " not in "".join(headings[:-6])  # it is no sweep
    folded = re.findall(r"<details [^>]*?(open)?>", comparison_page.read_text(encoding="utf-8"))
    assert folded[-6:] == ["open"] * 3 + [""] * 3


@pytest.mark.parametrize("name", ["comparison_page", "sweep_page", "reproduction_page"])
def test_a_scheduler_has_one_colour_on_a_page_and_no_other_has_it(request, name):
    colours: dict[str, set[str]] = {}
    for figure in Elements(request.getfixturevalue(name)).figures().values():
        for trace in figure["data"]:
            marks = trace.get("marker", {}).get("color")
            if isinstance(marks, list) and "customdata" in trace and "error_x" in trace:
                for each, colour in zip(trace["customdata"], marks, strict=True):
                    colours.setdefault(each, set()).add(colour)
            elif "color" in trace.get("line", {}) and "name" in trace:
                colours.setdefault(trace["name"], set()).add(trace["line"]["color"])
    assert len(colours) >= 2
    assert {len(each) for each in colours.values()} == {1}
    assert len(set().union(*colours.values())) == len(colours)


def test_lines_of_one_scheduler_differ_in_strokes():
    rows = [
        ComparisonRow(labels(name, load=load, agents=agents), {"jct_mean_s": 60.0 * agents})
        for load in (0.5, 0.9) for agents in (1, 4) for name in ("sjf", "fifo")
    ]  # fmt: skip
    first = sweep_sections(rows, confidence=0.95)
    (data,) = in_colours([first[1].data])
    lines = [trace["line"] for trace in data]
    assert len({(line["color"], line["dash"]) for line in lines}) == len(lines) == 4
    assert len({line["color"] for line in lines}) == 2


def test_a_run_is_not_drawn_where_it_fails_differs_or_takes_too_long(run, caplog):
    mean_s = summarise(run)["jct_mean_s"]

    def fails() -> Run:
        raise GpuYardError("trace.csv is gone")

    asked = {
        "other": (lambda: run, 2 * mean_s, 0.1), "gone": (fails, mean_s, 0.1),
        "long": (fails, mean_s, 21.0), "same": (lambda: run, mean_s, math.nan),
    }  # fmt: skip
    runs = [
        Again(name, name, play, {"jct_mean_s": jct_s, "loop_wall_s": took_s})
        for name, (play, jct_s, took_s) in asked.items()
    ]
    seen = seen_again(runs, processes=1)
    assert [each.name for each in seen] == ["same"]
    assert len(seen[0].jct_s) == 40 and len(seen[0].sections) == 3
    for name, words in (("other", "has the code"), ("gone", "trace.csv"), ("long", "took 21 s")):
        (told,) = [line for line in caplog.messages if line.startswith(f"{name} ")]
        assert words in told


def test_a_sweep_over_words_has_points_beside_each_other():
    rows = [
        ComparisonRow(labels(name, topology=topology, seed=seed), {"jct_mean_s": 60.0 * (1 + seed)})
        for topology in ("vl2", "bcube") for name in ("sjf", "fifo") for seed in range(2)
    ]  # fmt: skip
    _, figure = sweep_sections(rows, confidence=0.95)
    assert figure.layout["xaxis"]["ticktext"] == ["bcube", "vl2"]
    assert [trace["x"] for trace in figure.data] == [[-0.125, 0.875], [0.125, 1.125]]
    assert figure.data[0]["customdata"] == ["bcube", "vl2"] and "error_y" in figure.data[0]


@pytest.mark.parametrize("key", ["load", "topology"])
def test_no_interval_of_a_sweep_is_drawn_below_0(key):
    rows = [
        ComparisonRow(labels("sjf", seed=seed, **{key: value}), {"jct_mean_s": 60.0 * (1 + seed)})
        for value in ((0.5, 0.9) if key == "load" else ("vl2", "bcube")) for seed in range(2)
    ]  # fmt: skip
    _, figure = sweep_sections(rows, confidence=0.95)  # of 1 and 2 min: -4.9 to 7.9
    if key == "load":
        assert figure.data[0]["y"][-1] == 0.0 and max(figure.data[0]["y"]) > 7.0 / 60.0
    else:
        bars = figure.data[0]["error_y"]
        assert bars["arrayminus"] == figure.data[0]["y"] and bars["array"] > bars["arrayminus"]


def test_the_best_two_are_any_lines_and_rivals_of_ours_are_results():
    roles = {"las": "reference", "sjf": "composite", "fifo": "composite", "marl": "ours"}
    assert best_two(roles) == ["las", "sjf"]
    assert best_two(roles, "marl") == ["marl", "sjf"]
    assert best_two({"las": "reference", "marl": "ours"}, "marl") == ["marl", "las"]


def test_short_waits_are_told(hand):
    waited = hand.build_run([hand.Job(0.0, 100.0, ((36.0, 136.0, [0]),))], 1, 2, 1)
    assert [row[2].text for row in waits_table(waited).rows] == ["0.01", "0.01"]


def test_the_page_tells_waiting_for_cores_as_explain_does(run):
    assert [header for header in waits_table(run).headers if header == Reason.ROOM] == []
    rows = len(run.jobs)
    cores = np.full(rows, 1_000_000)
    demands = Demands(np.full(rows, 1000), cores, np.zeros(rows, int), np.full(rows, -1))
    lacking = replace(
        run, jobs=replace(run.jobs, demands=demands),
        topology=replace(run.topology, server_cpu_milli=np.full(run.topology.num_servers, 1)),
    )  # fmt: skip
    table = waits_table(lacking)
    shares = dict(zip(table.headers, (cell.text for cell in table.rows[-1]), strict=True))
    assert shares[Reason.ROOM] != "0 %" and shares["held back"] == "0 %"
    assert "without room for its workers" in table.note


def test_a_sweep_has_the_one_table_of_the_terminal_then_its_lines(sweep_page):
    text = sweep_page.read_text(encoding="utf-8")
    titles = re.findall(r"<summary><h2>(.*?)</h2>", text)
    assert titles[:2] == ["Mean JCT [h] over load", "Mean JCT over load"]
    assert len(re.findall(r"<details [^>]*open>", text)) == 2  # a table a setting is folded
    head = re.search(r"<thead>.*?</thead>", text, re.DOTALL)
    assert re.findall(r"<button[^>]*>(.*?)</button>", head[0]) == ["scheduler", "0.5", "0.7", "0.9"]
    first = json.loads(re.search(r'id="figures">(.*?)</script>', text, re.DOTALL)[1])["s1"]
    lines = [trace for trace in first["data"] if trace["mode"] == "lines+markers"]
    assert [(line["name"], line["x"]) for line in lines] == [
        ("sjf", [0.5, 0.7, 0.9]), ("fifo", [0.5, 0.7, 0.9]),
    ]  # fmt: skip
    assert sum(trace.get("fill") == "toself" for trace in first["data"]) == 2  # intervals


def test_a_reproduction_has_curves_of_every_cell_the_first_open(reproduction_page):
    text = reproduction_page.read_text(encoding="utf-8")
    titles = [
        "Result", "Job completion times: one", "Use and queue over time: one",
        "Job completion times: two", "Use and queue over time: two",
    ]  # fmt: skip
    places = [text.index(f"{title}</") for title in titles]
    assert places == sorted(places)
    assert places[-1] < text.index("Jobs by server</") < text.index("Mean JCT: ")
    assert "3 windows, 100 quantiles of each" in text
    assert "the best scheduler of each role" not in text
    assert "<script>alert" not in text
    assert ">sjf</td>" in text and "**" not in text.partition("Result</h2>")[2][:2000]


def test_raw_rows_of_a_reproduction_are_folded_and_show_what_differs(tmp_path: Path, record):
    (tmp_path / "page.md").write_text(
        "| mean | a |\n|:-|-:|\n| x | 1 |\n\n| saved | b |\n|:-|-:|\n"
    )
    rows = "problem,budget,seeded,note,jct\np,40,False,,1\nq,40,False,,2\n"
    (tmp_path / "searches.csv").write_text(rows)
    write_record(tmp_path, record)
    text = write_folder_page(tmp_path, record, {"confidence": 0.95}).read_text(encoding="utf-8")
    cards = re.findall(r"<details [^>]*?(open)?>\s*<summary><h2>(.*?)</h2>", text)
    assert cards == [("open", "Result: mean"), ("open", "Result: saved"), ("", "Searches")]
    heads = re.findall(r"<button[^>]*>(.*?)</button>", text.partition("Searches</h2>")[2])
    assert heads == ["problem", "jct"]
    assert "same in every row: budget = 40, seeded = False. Empty: note." in text


def test_raw_rows_beside_a_comparison_are_folded_without_a_result_too(
    reproduction_page, record, tmp_path
):
    shutil.copytree(reproduction_page.parent, tmp_path / "copy")
    (tmp_path / "copy" / "page.md").write_text("")
    (tmp_path / "copy" / "raw.csv").write_text("a,b\n1,2\n3,4\n")
    page = write_folder_page(tmp_path / "copy", record, {"confidence": 0.95})
    cards = re.findall(
        r"<details [^>]*?(open)?>\s*<summary><h2>(.*?)</h2>", page.read_text(encoding="utf-8")
    )
    assert cards[0] == ("open", "Job completion times: one") and cards[-1] == ("", "Raw")


def test_what_was_learned_by_playing_has_a_curve(tmp_path: Path):
    lines = ["update,minutes,runs,to_begin,to_reference", "0,0,0,1,15.2", "50,2.5,600,0.07,1.08"]
    (tmp_path / "curve.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "policy").mkdir()
    (figure,) = curve_of_checkpoint(tmp_path / "policy")
    assert figure.data[0]["x"] == [0, 50] and figure.data[0]["y"] == [15.2, 1.08]


TINY = ("workload=csv", "topology=small_leaf_spine", "interference=none", "network=none")


def test_simulate_writes_its_page_last_and_links_the_rest(tmp_path: Path):
    trace = tmp_path / "jobs.csv"
    trace.write_text(TRACE)
    words = ("simulate", *TINY, f"workload.path={trace}")
    outcome = call(*words, folder=tmp_path / "run")
    assert outcome.status == 0, outcome.err
    text = (outcome.folder / "report.html").read_text(encoding="utf-8")
    assert 'href="metrics.json"' in text
    assert 'href="jobs.parquet"' in text
    assert "fifo+consolidated on " in text
    failed = call(*words, "page=maybe", folder=tmp_path / "run")
    assert failed.status == 1 and "page is 'maybe'; it must be true or false" in failed.err
    assert (failed.folder / "report.html").read_text(encoding="utf-8") == text
