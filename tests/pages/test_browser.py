"""Pages in a real headless Chromium (`make browser` gets one). They fail where there is none."""

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from gpuyard.pages.comparison_page import write_comparison_page
from gpuyard.pages.page import Page, rendered, write_page
from gpuyard.pages.run_page import run_page as page_of_run
from sim.files import ComparisonRow
from sim.report.summary import summarise
from tests.forking import run_program
from tests.pages.conftest import labels

pytestmark = pytest.mark.browser
NAMES = ("chromium", "chromium-browser", "google-chrome")
VARIABLE = "GPUYARD_CHROMIUM"
MOST_BYTES = 10_000_000
# Work of the page's thread, which is what a user waits for where no other program wants the core:
# until the first screen is drawn, and until all is.
MOST_WORK_S, MOST_DRAWING_S = 2.0, 3.0
SEEN = "[...document.querySelectorAll('details[open] .figure')].filter((each) => "
SEEN += "each.getBoundingClientRect().top < window.innerHeight{}).length"
ON_SCREEN, ON_SCREEN_DRAWN = SEEN.format(""), SEEN.format(" && each.querySelector('.main-svg')")
DRAWN = "document.querySelectorAll('.figure.js-plotly-plot').length"


def chromium() -> str:
    """The browser's path; a test that finds none fails, saying what to install."""
    named = os.environ.get(VARIABLE)
    found = next(filter(None, map(shutil.which, [named] if named else NAMES)), None)
    if found is None and named is None:
        found = shutil.which(_of_playwright())
    if found is None:
        where = f"{VARIABLE}={named}" if named else f"none of {', '.join(NAMES)} on the PATH"
        pytest.fail(
            f"no browser: {where}; install one (Debian, Ubuntu: apt-get install chromium) or set "
            f"{VARIABLE} to its path",
            pytrace=False,
        )
    return found


def _of_playwright() -> str:
    """Where `playwright install chromium` would have put one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


class Opened:
    """A page in the browser, with what it complained of and what it asked the network for."""

    def __init__(
        self, browser, path: Path, width: int, scheme: str, touch: bool, before: str
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme,
            has_touch=touch, is_mobile=touch,
        )  # fmt: skip
        self.page = self.context.new_page()
        self.page.add_init_script(before)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.cdp = self.context.new_cdp_session(self.page)
        self.cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn-ms]", state="attached", timeout=30_000)

    def worked_s(self) -> float:
        """CPU time of the page's thread: it does not count what others do meanwhile."""
        metrics = self.cdp.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    def ask(self, script: str):
        return self.page.evaluate(script)


@pytest.fixture
def opened(browser):
    made = []

    def open_page(
        path: Path,
        width: int = 1600,
        scheme: str = "light",
        *,
        touch: bool = False,
        before: str = "",
    ) -> Opened:
        made.append(Opened(browser, path, width, scheme, touch, before))
        return made[-1]

    yield open_page
    for each in made:
        each.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1600, "light")])
@pytest.mark.parametrize("name", [
    "run_page", "comparison_page", "advice_page", "sweep_page", "reproduction_page",
])  # fmt: skip
def test_it_opens_without_a_complaint_at_both_widths(opened, request, name, width, scheme):
    path = request.getfixturevalue(name)
    found = opened(path, width, scheme)
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("data:")] == [path.as_uri()]
    assert found.ask("document.documentElement.scrollWidth") == width
    assert found.ask("document.querySelectorAll('.figure .main-svg').length") > 0
    ground = found.ask("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 300) == (scheme == "dark")


def test_a_point_of_a_sweep_is_whole_by_itself(opened, tmp_path):
    words = ["-m", "gpuyard", "simulate", "-m", "scheduler=fifo,sjf", "workload.num_jobs=20",
             "topology=small_leaf_spine", f"hydra.sweep.dir={tmp_path}"]  # fmt: skip
    assert run_program(words, timeout=300.0).returncode == 0
    alone = tmp_path / "alone.html"
    shutil.move(next(tmp_path.glob("1_*")) / "report.html", alone)
    assert alone.stat().st_size < MOST_BYTES / 4
    found = opened(alone)
    assert found.complaints == []
    assert found.requests == [alone.as_uri()]
    assert found.ask("document.querySelectorAll('.figure .main-svg').length") > 0


def test_a_page_without_figures_tells_that_it_is_there(opened, tmp_path):
    path = tmp_path / "report.html"
    page = Page(title="Only words", subtitle="")
    path.write_text(rendered(page), encoding="utf-8")
    assert opened(path).complaints == []


def test_a_long_name_in_a_heading_breaks_behind_its_parts(opened, tmp_path):
    path = tmp_path / "report.html"
    name = "sjf+consolidated+selective1.2+own_then_least_loaded"
    path.write_text(rendered(Page(title=name, subtitle="")), encoding="utf-8")
    found = opened(path, 400)
    lines = "[...document.querySelector('h1').childNodes].filter((each) => each.data).map((each) =>"
    lines += (
        " { const all = new Range(); all.selectNode(each); return all.getClientRects().length; })"
    )
    assert found.ask(lines) == [1] * 7
    assert found.page.locator("h1").text_content() == name


def test_a_browser_that_cannot_unpack_the_script_is_told(opened, comparison_page):
    found = opened(comparison_page, before="delete window.DecompressionStream;")
    assert found.complaints == []
    assert "cannot unpack Plotly" in found.page.locator(".figure").first.inner_text()
    found.page.get_by_role("button", name="scheduler").first.click()
    last = found.page.locator("details[open] .figure").last
    last.scroll_into_view_if_needed()
    last.get_by_text("one of 2023 or later can").wait_for()


def test_figures_are_drawn_when_they_come_near_and_all_on_paper(opened, comparison_page):
    found = opened(comparison_page)
    opened_ones = found.page.locator("details[open] .figure").count()
    assert 0 < found.ask(ON_SCREEN_DRAWN) == found.ask(ON_SCREEN)
    assert found.ask(DRAWN) < opened_ones
    place = "document.querySelector('details:last-of-type').getBoundingClientRect().top"
    before = found.ask(place)
    found.ask("window.dispatchEvent(new Event('beforeprint'))")
    assert found.ask(DRAWN) == opened_ones
    assert found.ask(place) == before  # nothing moved
    found.ask("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    figures = found.page.locator("details .figure")
    assert figures.count() > opened_ones
    figures.last.scroll_into_view_if_needed()
    figures.last.locator(".main-svg").first.wait_for(state="attached", timeout=5000)
    assert found.complaints == []


def test_a_click_on_a_header_sorts_and_a_second_one_turns_it_round(opened, comparison_page):
    found = opened(comparison_page)

    def column() -> list[float]:
        cells = found.page.locator("table").first.locator("tbody tr td:nth-child(2)")
        return [float(text.split(" ")[0]) for text in cells.all_inner_texts()]

    header = found.page.get_by_role("button", name="mean JCT").first
    before = column()
    header.click()
    header.click()
    assert column() == sorted(before, reverse=True)
    assert found.page.locator("th[aria-sort=descending]").count() == 1
    header.click()
    assert column() == sorted(before)


def test_dragging_zooms_into_the_jobs_and_a_double_click_goes_back(opened, run_page):
    found = opened(run_page)
    box = found.page.locator("details", has_text="Jobs by server").locator(".figure")
    box.scroll_into_view_if_needed()
    plot = box.locator(".nsewdrag").first.bounding_box()
    axis = "document.querySelectorAll('.figure')[2].layout.xaxis.range"
    before = found.ask(axis)
    found.page.mouse.move(plot["x"] + 0.2 * plot["width"], plot["y"] + 20)
    found.page.mouse.down()
    found.page.mouse.move(plot["x"] + 0.4 * plot["width"], plot["y"] + 180, steps=5)
    found.page.mouse.up()
    found.page.wait_for_timeout(900)  # for Plotly clicks within 300 ms belong together
    after = found.ask(axis)
    assert after[1] - after[0] == pytest.approx(0.2 * (before[1] - before[0]), rel=0.05)
    found.page.mouse.dblclick(plot["x"] + 0.3 * plot["width"], plot["y"] + 60)
    found.page.wait_for_timeout(600)
    assert found.ask(axis) == pytest.approx(before, rel=0.01)
    assert found.complaints == []


def test_on_a_narrow_screen_whole_names_stand_apart(opened, record, tmp_path):
    ends = ("steal", "least_loaded", "own_then_least_loaded")
    names = [f"{order}+consolidated+selective{limit}+{end}" for order in ("sjf", "smallest_gang")
             for limit in (1.2, 1.4) for end in ends]  # fmt: skip
    rows = [ComparisonRow(labels(name), {"jct_mean_s": 3600.0 + at})
            for at, name in enumerate(names)]  # fmt: skip
    page = write_comparison_page(tmp_path, rows, record, ours=None, confidence=0.95)
    found = opened(page, 400)
    found.page.locator(".figure").scroll_into_view_if_needed()
    shown = found.page.locator(".figure .annotation-text")
    shown.last.wait_for()
    assert [text.replace("\n", "") for text in shown.all_text_contents()] == names
    boxes = [shown.nth(at).bounding_box() for at in range(len(names))]
    for above, below in pairwise(boxes):
        assert above["y"] + above["height"] <= below["y"]
    assert max(box["x"] + box["width"] for box in boxes) <= 390
    wide = opened(page).page.locator(".figure .ytick text")
    wide.last.scroll_into_view_if_needed()
    assert len(set(wide.all_text_contents())) == len(names)


def test_on_a_touch_screen_a_button_zooms_and_another_goes_back(opened, run_page):
    found = opened(run_page, 400, touch=True)
    card = found.page.locator("details", has_text="Jobs by server")
    card.scroll_into_view_if_needed()
    assert "the house goes back" in card.locator(".note").inner_text()
    assert "Drag" not in card.locator(".note").inner_text()
    ranges = "JSON.stringify(['xaxis', 'yaxis'].map((each) => document.querySelectorAll('.figure')"
    ranges += "[2].layout[each].range))"
    zoom = card.locator("[data-title='Zoom in']")
    zoom.wait_for()
    before = found.ask(ranges)
    zoom.tap()
    found.page.wait_for_timeout(300)
    assert found.ask(ranges) != before
    card.locator("[data-title='Back']").tap()
    found.page.wait_for_timeout(300)
    assert found.ask(ranges) == before
    assert found.complaints == []


def test_a_bar_tells_its_job_as_text(opened, run_page):
    found = opened(run_page)
    box = found.page.locator("details", has_text="Jobs by server").locator(".figure")
    box.scroll_into_view_if_needed()
    bar = box.locator(".bars .point").first.bounding_box()
    found.page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    hover = box.locator(".hoverlayer")
    hover.get_by_text("GPU in all").first.wait_for(timeout=5000)
    assert "<b>bold</b><script>" in (hover.text_content() or "")


def test_bars_of_one_gpu_carry_their_ids_where_they_fit(opened, hand, record, tmp_path):
    hours = 3600.0
    jobs = [hand.Job(at * hours, hours, ((at * hours, at * hours + length * hours, [at]),))
            for at, length in enumerate((48, 48, 0.2, 48))]  # fmt: skip
    run = hand.build_run(jobs, servers=2, gpus_per_server=16, partitions=1)
    found = opened(write_page(tmp_path, page_of_run(run, summarise(run), record)))
    card = found.page.locator("details", has_text="Jobs by server")
    card.scroll_into_view_if_needed()
    bars = card.locator(".bars .point path")
    bars.first.wait_for(state="attached")
    assert 9 < bars.first.bounding_box()["height"] < 16
    ids = card.locator(".bartext:visible")
    assert ids.all_text_contents() == ["job-0", "job-1", "job-3"]
    for at in range(3):
        text, bar = ids.nth(at).bounding_box(), bars.nth(at + at // 2).bounding_box()
        middles = [each["y"] + each["height"] / 2 for each in (text, bar)]
        assert middles[0] == pytest.approx(middles[1], abs=2.0)
        assert text["height"] <= bar["height"] + 3  # with what letters below the line need


def test_the_slider_moves_the_heat_map(opened, run_page):
    found = opened(run_page)
    shown = "JSON.stringify(document.querySelectorAll('.figure')[3].data[0].z)"
    slider = found.page.locator("input[type=range]")
    slider.scroll_into_view_if_needed()
    found.page.locator(".figure").nth(3).locator(".main-svg").first.wait_for(state="attached")
    before = found.ask(shown)
    slider.fill("59")
    found.page.wait_for_timeout(300)
    assert found.ask(shown) != before
    assert found.page.locator("output").inner_text() == "9 h 47 min to 9 h 57 min"


@pytest.mark.slow  # it measures times
def test_100_000_jobs_are_below_10_mb_and_drawn_in_three_seconds(
    opened, huge_run, record, tmp_path
):
    path = write_page(tmp_path, page_of_run(huge_run, summarise(huge_run), record))
    assert path.stat().st_size < MOST_BYTES
    found = opened(path)
    assert found.worked_s() < MOST_WORK_S
    assert found.ask(ON_SCREEN) >= 2 and found.ask(f"{ON_SCREEN} - {ON_SCREEN_DRAWN}") == 0
    last = found.page.locator("details[open] .figure").last
    last.scroll_into_view_if_needed()
    last.locator(".main-svg").first.wait_for()
    assert found.worked_s() < MOST_DRAWING_S
    part = found.page.locator("details", has_text="around the longest queue")
    assert part.locator(".bars .point").count() == 0
    part.locator("summary").click()
    part.locator(".bars .point").first.wait_for(state="attached", timeout=10_000)
    assert found.complaints == []


def test_the_colours_follow_the_system(opened, run_page):
    found = opened(run_page)
    ink = "document.querySelector('.figure .xtitle').style.fill"
    light = found.ask(ink)
    found.page.emulate_media(color_scheme="dark")
    found.page.wait_for_timeout(1500)
    assert found.ask(ink) != light
