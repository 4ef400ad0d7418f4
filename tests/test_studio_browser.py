"""The studio as its user sees it: in a real browser, every gesture, by mouse and by keys."""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar

import pytest
from playwright.sync_api import BrowserContext, Page, expect

import hocket as hk
from accessibility import findings, rules_of
from conftest import COMPILING, PATIENCE
from hocket.machine.formats import toml
from hocket.runtime.launch import find_agreed
from hocket.runtime.log import AgentLog
from hocket.runtime.settings import RunSettings
from hocket.studio.worker import start_text
from hocket.task.catalogue import rendezvous
from rest import boxes, quieten, settle

pytestmark = pytest.mark.browser

TEAMS = Path(__file__).parent / "teams"
BUTTONS = (resources.files("hocket.task.builtin") / "buttons.toml").read_text(encoding="utf-8")
PORTS = range(20_000, 30_000)  # which no system gives to whoever asks for any port, as other tests do meanwhile
HOSTILE_NAMES = (
    "<b>bold</b>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "{{secret}} ${1}",
)

# Keeps one request back inside the page: a browser that is told to from outside may have sent the request already.
KEEP_BACK = """
const send = window.fetch;
window.keptBack = 0;
window.fetch = async (path, options) => {
  if (path === sessionStorage.getItem("kept back")) {
    sessionStorage.removeItem("kept back");
    window.keptBack += 1;
    await new Promise((go, stop) => {
      window.letGo = go;
      options.signal?.addEventListener("abort", stop);
    }).finally(() => { window.keptBack -= 1; });
  }
  return send(path, options);
};
"""


def free_port() -> int:
    """Find a port that stays free while a server is away."""
    while True:
        with socket.socket() as asked:
            try:
                asked.bind(("127.0.0.1", port := random.choice(PORTS)))
            except OSError:
                continue
            return port


class Server:
    """A studio that runs, and that can be killed and started again at the same port."""

    def __init__(self, file: Path, state: Path) -> None:
        self.file, self.port = file, free_port()
        self.environment = {**os.environ, "XDG_STATE_HOME": str(state)}
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "hocket", "studio", str(self.file), "--no-browser", "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.address = self.process.stdout.readline().strip()
        assert f":{self.port}/" in self.address

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("studio")
    (folder / "state").mkdir()
    started = Server(folder / "task.toml", folder / "state")
    yield started
    started.stop()


@pytest.fixture
def file(server) -> Path:
    for left in server.file.parent.glob("*.*"):  # by other tests
        left.unlink()
    server.file.write_text(BUTTONS, encoding="utf-8")
    return server.file


def change_on_disk(file: Path, text: str) -> None:
    """Write a file as somebody else: whole, or the page might see it when half of it is there."""
    other = file.with_suffix(".new")
    other.write_text(text, encoding="utf-8")
    other.replace(file)


@pytest.fixture
def open_page(browser, server, file) -> Iterator:
    """Open the studio in windows of any kind; in the end, nothing may have gone wrong or asked anybody else."""
    contexts, pages, said, asked = [], [], [], []

    def opened(width=1400, height=1000, context=None, **more) -> Page:
        if context is None:
            context = browser.new_context(viewport={"width": width, "height": height}, **more)
            context.set_default_timeout(PATIENCE)
            context.add_init_script(KEEP_BACK)
            contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.goto(server.address)
        page.wait_for_selector("html[data-revision]")
        settle(page)
        pages.append(page)
        return page

    opened.said = said
    yield opened
    for page in pages:
        if not page.is_closed():
            quieten(page)
    for context in contexts:
        context.close()
    assert said == []
    home = server.address.split("/?")[0]
    assert [url for url in asked if not url.startswith((home, "data:"))] == []


@pytest.fixture
def page(open_page) -> Page:
    return open_page()


def text_of(page: Page) -> str:
    return page.locator("#editor textarea").input_value()


def type_text(page: Page, text: str) -> None:
    """Put another text in place of that which is there."""
    page.locator("#editor textarea").fill(text)


def put_text(page: Page, text: str) -> None:
    """Put another text in place of that which is there, and wait until the page shows what it means."""
    before = page.locator("html").get_attribute("data-revision")
    type_text(page, text)
    expect(page.locator("html")).not_to_have_attribute("data-revision", before)


def verdict(page: Page):
    return page.locator("#verdict")


def is_shown(page: Page, kind: str) -> None:
    expect(verdict(page)).to_have_attribute("data-kind", kind)


def check_mark(page: Page, agent: str, event: str):
    return page.locator(f'[data-key="know {agent} {event}"]')


# The text.


def test_a_text_and_what_it_means_are_side_by_side(page):
    assert text_of(page) == BUTTONS
    is_shown(page, "yes")
    expect(verdict(page)).to_contain_text("Decomposable: the team machine is bisimilar")
    expect(page.locator("#team .node")).to_have_count(8)
    expect(page.locator("#agents figure")).to_have_count(3)
    expect(page.locator("#map .agent")).to_have_count(3)
    expect(page.locator(".paint .line")).to_have_count(len(BUTTONS.split("\n")))
    assert page.locator(".line .heading").first.text_content() == "[legend]"
    assert page.locator(".paint").text_content() == BUTTONS + "\n"


def test_typing_changes_the_world_at_every_key(page):
    area = page.locator("#editor textarea")
    at = BUTTONS.index('"R", "Goal"]')
    area.focus()
    area.evaluate("(own, at) => own.setSelectionRange(at, at + 5)", at)
    page.keyboard.press("Delete")
    is_shown(page, "no")
    expect(page.locator("#counterexample .telling")).to_contain_text("A1 proposes Goal")
    page.keyboard.type('"R", ')
    is_shown(page, "yes")
    assert text_of(page) == BUTTONS


def test_a_mistake_is_underlined_at_its_line_and_the_picture_stays(page):
    put_text(page, BUTTONS.replace("A1 at goal", "A1 at gaol"))
    expect(page.locator("#problem")).to_contain_text("place 'gaol' does not exist (did you mean 'goal'?)")
    assert page.locator(".line.wrong").text_content().strip() == 'Goal = "A1 at gaol"'
    expect(page.locator("#problem button")).to_have_text("line 52")
    is_shown(page, "unknown")
    expect(page.locator("#team .node")).to_have_count(8)
    page.locator("#problem button").click()
    chosen = "own => own.value.slice(own.selectionStart, own.selectionEnd)"
    assert page.locator("#editor textarea").evaluate(chosen) == 'Goal = "A1 at gaol"'
    put_text(page, BUTTONS)
    expect(page.locator("#problem")).to_be_hidden()
    is_shown(page, "yes")


@pytest.fixture
def early_page(browser, open_page) -> Iterator[Page]:
    """Open a page on which it stays half a second after its loading, however slow the machine is."""
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE)
        context.add_init_script("performance.now = () => 500")
        yield open_page(context=context)


def test_undo_and_redo_go_over_typing_and_gestures_alike(early_page):
    page = early_page
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    area = page.locator("#editor textarea")
    area.focus()
    area.evaluate("own => own.setSelectionRange(0, 0)")
    page.keyboard.type("# mine")
    expect(page.locator(".line").first).to_have_text(re.compile("^# mine"))
    page.keyboard.press("Control+z")
    expect(page.locator(".line").first).not_to_have_text(re.compile("^# mine"))
    is_shown(page, "no")
    page.locator("#undo").click()
    is_shown(page, "yes")
    assert text_of(page) == BUTTONS
    page.locator("#redo").click()
    page.keyboard.press("Control+y")
    expect(page.locator(".line").first).to_have_text(re.compile("^# mine"))
    assert '"Y", "Goal"]' in text_of(page)


# The proof.


def test_one_click_takes_an_event_away_and_the_repair_gives_it_back(page):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    assert 'knows = ["Y", "Goal"]' in text_of(page)
    page.locator(".repair", has_text="R to A1").click()
    is_shown(page, "yes")
    assert text_of(page) == BUTTONS


def lit(page: Page, root: str) -> list[str]:
    return page.locator(f"{root} .node.lit").evaluate_all("all => all.map((own) => own.dataset.name)")


def test_a_log_that_is_dropped_is_explained_until_an_event_is_unticked(page):
    rows = "episode,event,accepted,done\\n1,Goal,0,0\\n2,R,1,0\\n2,Goal,1,1\\n"
    page.evaluate(
        f"""() => {{
          const files = new DataTransfer();
          files.items.add(new File(["{rows}"], "walks.csv"));
          dispatchEvent(new DragEvent("drop", {{ dataTransfer: files }}));
        }}"""
    )
    expect(page.locator("#log")).to_have_attribute("data-explained", "true")
    expect(page.locator("#log img")).to_be_visible()
    check_mark(page, "A1", "R").click()  # then A1 cannot tell when Goal may happen
    expect(page.locator("#log")).to_have_attribute("data-explained", "false")
    expect(page.locator("#log")).to_contain_text("A1 cannot tell this from episode 2")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#log")).to_be_hidden()


def test_the_counterexample_is_played_on_all_machines_side_by_side(page):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    counterexample = page.locator("#counterexample")
    expect(counterexample).to_be_visible()
    assert lit(page, "#team") == ["u1"] and lit(page, '[data-agent="A1"]') == ["{u1,…,u6}"]
    confused = page.locator("#team .node.confused")
    assert confused.evaluate_all("all => all.map((own) => own.dataset.name)") == ["u6"]
    expect(page.locator('[data-agent="A1"].proposing')).to_be_visible()
    counterexample.get_by_role("button", name="Back").click()
    expect(confused).to_have_count(0)
    expect(page.locator("#team .edge.taken")).to_have_count(1)
    expect(counterexample.locator(".telling")).to_have_text(
        "After Y the team is in u1, A1 in {u1,…,u6}, A2 in u1, A3 in {u0,u1}."
    )
    counterexample.locator(".chip", has_text="start").click()
    expect(counterexample).to_have_attribute("data-step", "0")
    assert lit(page, "#team") == ["u0"] and lit(page, '[data-agent="A2"]') == ["u0"]
    counterexample.get_by_role("button", name="Next").press("Enter")
    expect(counterexample).to_have_attribute("data-step", "1")
    assert lit(page, "#team") == ["u1"]


def test_a_counterexample_stays_lit_on_machines_that_are_drawn_again(page):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    page.locator('#team [data-name="u3"]').click()
    expect(page.get_by_label("Name of the state")).to_have_value("u3")
    assert lit(page, "#team") == ["u1"] and lit(page, '[data-agent="A1"]') == ["{u1,…,u6}"]
    expect(page.locator("#team .node.confused")).to_have_attribute("data-name", "u6")


def test_projections_are_redrawn(page):
    nodes = page.locator('[data-agent="A1"] .node')
    expect(nodes).to_have_count(4)
    check_mark(page, "A1", "R").click()
    expect(nodes).to_have_count(3)


def test_a_formula_is_changed_where_it_stands(page):
    put_text(page, start_text("from a formula"))
    field = page.locator("#team .sentence")
    expect(field).to_have_value("(!door U key) & (!home U door) & F home")
    field.fill("(!door U key) & F door & F home")
    field.press("Enter")
    expect(page.locator(".line", has_text="formula =")).to_contain_text("& F door & F home")


def test_a_machine_alone_has_no_map(page):
    put_text(page, start_text("a machine alone"))
    is_shown(page, "no")
    expect(page.locator("#map")).to_be_hidden()
    page.locator(".repair").first.click()
    is_shown(page, "yes")


CALLING = """
sequence = ["wake", "fetch", "rest"]
knows = { A1 = ["wake", "get", "rest"], A2 = ["get", "put"] }
[calls]
fetch = { sequence = ["get", "put"] }
"""


def test_boxes_are_closed_and_opened_by_keys_and_clicks_and_stay_so(page):
    put_text(page, CALLING)
    is_shown(page, "no")
    nodes, button = page.locator("#team .node"), page.get_by_role("button", name="Close boxes of the team machine")
    expect(nodes).to_have_count(5)
    expect(page.locator("#team .box")).to_have_attribute("data-box", "fetch")
    page.locator("#counterexample .chip", has_text="get").click()
    expect(page.locator("#team .node.lit")).to_have_attribute("data-name", "fetch › put")
    settle(page)
    [frame, *inside] = boxes(page, "#team .box rect", '#team [data-name="fetch"]', '#team [data-name="fetch › put"]')
    for x, y, width, height in inside:
        assert frame.x < x and x + width < frame.x + frame.width
        assert frame.y < y and y + height < frame.y + frame.height
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(button).to_be_focused()
    expect(nodes).to_have_count(4)
    expect(page.locator("#team .node.lit")).to_have_attribute("data-name", "fetch")
    put_text(page, CALLING.replace('"rest"', '"sleep"'))
    expect(page.locator('#team [data-name="sleep"]')).to_be_visible()
    expect(nodes).to_have_count(4)
    page.locator("#team .node.closed").click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(nodes).to_have_count(5)
    settle(page)
    page.locator("#team .box").click(position={"x": 8, "y": 6})
    expect(nodes).to_have_count(4)
    put_text(page, BUTTONS)
    expect(nodes).to_have_count(8)
    expect(page.get_by_text("Close boxes")).to_have_count(0)


def test_a_large_team_machine_is_summed_up(page):
    put_text(page, toml.unparse(rendezvous(10).document()))
    expect(page.locator("#team")).to_contain_text("2,048 states, 15,361 transitions, 1 final")
    expect(page.locator("#team .layers rect")).to_have_count(22)
    expect(page.locator("#agents .machine")).to_have_count(10)
    check_mark(page, "A1", "l1").click()
    is_shown(page, "no")
    expect(page.locator("#team")).to_contain_text("2,048 states")


def wide_text() -> str:
    """Write a chain of 30 states whose counterexample ends far from its beginning."""
    events = [f"e{number}" for number in range(29)]
    chain = {f"s{number}": {event: f"s{number + 1}"} for number, event in enumerate(events)}
    knows = {"A1": events[:-1], "A2": ["e20", "e28"]}
    return toml.unparse({"initial": "s0", "final": ["s29"], "transitions": chain, "knows": knows})


def test_a_wide_machine_is_scrolled_to_where_the_story_is_and_stays_there(page):
    put_text(page, wide_text())
    is_shown(page, "no")
    expect(page.locator("#team .node.lit")).to_have_attribute("data-name", "s21")
    expect(page.locator("#team .node.lit")).to_be_in_viewport()
    settle(page)
    drawing = page.locator("#team .drawing")
    before = drawing.evaluate("own => own.scrollLeft")
    assert before > 0
    page.locator("#team .node.lit").click()
    expect(page.get_by_label("Name of the state")).to_have_value("s21")
    assert drawing.evaluate("own => own.scrollLeft") == before
    page.locator("#counterexample .chip", has_text="start").click()
    expect(page.locator("#team .node.lit")).to_have_attribute("data-name", "s0")
    expect(page.locator("#team .node.lit")).to_be_in_viewport()


# The machine by hand.


def middles(page: Page, *selectors: str) -> list[tuple[float, float]]:
    settle(page)
    for selector in selectors:
        page.locator(selector).first.scroll_into_view_if_needed()
    return [(box.x + box.width / 2, box.y + box.height / 2) for box in boxes(page, *selectors)]


def middle(page: Page, selector: str) -> tuple[float, float]:
    return middles(page, selector)[0]


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def test_a_transition_is_drawn_from_a_state_to_another_and_named(page):
    drag(page, *middles(page, '#team [data-name="u0"] .handle', '#team [data-name="u4"] ellipse'))
    page.locator("dialog input").fill("bell")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Transition from u0 to u4 on bell")).to_have_count(1)
    assert 'u0 = { Y = "u1", bell = "u4" }' in text_of(page)


def test_a_transition_to_an_empty_spot_makes_a_state_there_and_others_stay(page):
    states = [f'#team [data-name="{name}"] ellipse:first-of-type' for name in ("u0", "u3", "u6")]
    before = middles(page, *states)
    x, y = middle(page, '#team [data-name="u6"] .handle')
    drag(page, (x, y), (x + 30, y + 50))
    page.locator("dialog input").fill("Goal")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert text_of(page) == BUTTONS
    x, y = middle(page, '#team [data-name="u6"] .handle')
    drag(page, (x, y), (x + 30, y + 50))
    page.locator("dialog input").fill("Y")
    page.keyboard.press("Enter")
    expect(page.locator('#team [data-name="u8"]')).to_be_visible()
    after = middles(page, *states)
    scale = (after[2][0] - after[0][0]) / (before[2][0] - before[0][0])
    for old, new in zip(before, after, strict=True):
        assert new[0] - after[0][0] == pytest.approx((old[0] - before[0][0]) * scale, abs=1.5)
        assert new[1] - after[0][1] == pytest.approx((old[1] - before[0][1]) * scale, abs=1.5)


def test_a_transition_to_an_empty_spot_that_is_cancelled_leaves_no_spot_behind(page):
    longer, spots = BUTTONS.replace('u6 = { Goal = "u7" }', 'u6 = { Goal = "u7", Y = "u8" }'), []
    for _ in range(2):
        put_text(page, longer)
        state = page.locator('#team [data-name="u8"] ellipse').first
        spots.append((state.get_attribute("cx"), state.get_attribute("cy")))
        put_text(page, BUTTONS)
        x, y = middle(page, '#team [data-name="u6"] .handle')
        drag(page, (x, y), (x + 30, y + 90))
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)
    assert spots[0] == spots[1]


def test_a_state_is_moved_and_tidied(page):
    state = page.locator('#team [data-name="u1"] ellipse').first
    before = state.get_attribute("cy")
    x, y = middle(page, '#team [data-name="u1"] ellipse')
    drag(page, (x, y), (x, y + 50))
    expect(state).not_to_have_attribute("cy", before)
    assert float(state.get_attribute("cy")) > float(before) + 20 and text_of(page) == BUTTONS
    page.get_by_role("button", name="Tidy").click()
    expect(state).to_have_attribute("cy", before)


def test_each_file_has_its_own_layout(page):
    x, y = middle(page, '#team [data-name="u1"] ellipse')
    drag(page, (x, y), (x, y + 50))
    page.locator("#file").click()
    page.locator(".start-card", has_text="a machine alone").click()
    expect(page.locator("#team .node")).to_have_count(4)
    heights = page.locator("#team .node ellipse:first-of-type").evaluate_all(
        "all => all.map((own) => own.cy.baseVal.value)"
    )
    assert len({*heights}) == 1  # all in a row, wherever states of these names were before


def test_a_state_is_renamed_in_place(page):
    page.locator('#team [data-name="u2"]').dblclick()
    name = page.get_by_label("Name of the state")
    name.fill("both in")
    name.press("Enter")
    expect(page.locator('#team [data-name="both in"]')).to_be_visible()
    assert 'u1 = { G = "both in" }' in text_of(page)


def test_an_edge_is_chosen_its_event_renamed_and_cut(page):
    page.locator('#team [data-edge="0-1"] .hit').click(force=True)
    name = page.get_by_label("Name of the event Y")
    name.fill("yellow")
    name.press("Enter")
    expect(page.locator(".line", has_text='u0 = { yellow = "u1" }')).to_be_visible()
    page.get_by_role("button", name="Remove the transition on yellow").click()
    expect(page.locator(".line", has_text="u0 = {}")).to_be_visible()


def test_a_gesture_that_would_break_the_text_is_refused_and_told(page):
    page.locator('#team [data-name="u6"]').click()
    page.get_by_role("checkbox", name="final").click()
    expect(page.locator("#toast")).to_contain_text("final state 'u6' must have no outgoing transition")
    expect(page.get_by_role("checkbox", name="final")).not_to_be_checked()
    assert text_of(page) == BUTTONS


def test_parts_are_changed_in_the_agents_machines(page):
    put_text(page, start_text("rooms"))
    expect(page.locator('[data-agent="A1"] [data-name="apart"]')).to_be_visible()
    page.locator('[data-agent="A1"] [data-name="apart"]').dblclick()
    name = page.get_by_label("Name of the state")
    name.fill("alone")
    name.press("Enter")
    expect(page.locator(".line", has_text='alone = { west = "waiting" }')).to_be_visible()


# The map by hand.


def cell(page: Page, row: int, column: int) -> tuple[float, float]:
    [map_] = boxes(page, "#map .map")
    unit = map_.width * (400 / 404) / 10
    edge = map_.width * 2 / 404
    return map_.x + edge + (column + 0.5) * unit, map_.y + edge + (row + 0.5) * unit


def brush(page: Page, name: str) -> None:
    page.locator("#map").get_by_role("button", name=name, exact=True).click()
    page.locator("#map .map").evaluate("map => map.scrollIntoView({ block: 'center' })")


def test_walls_are_painted_in_a_stroke_and_wiped_away(page):
    brush(page, "Wall")
    drag(page, cell(page, 1, 0), cell(page, 1, 2))
    expect(page.locator(".line", has_text="###...#..")).to_be_visible()
    brush(page, "Floor")
    drag(page, cell(page, 1, 0), cell(page, 1, 2))
    expect(page.locator("#saved")).to_have_text("saved")
    assert text_of(page) == BUTTONS


def test_a_new_place_is_painted(page):
    brush(page, "Place")
    page.locator('[data-key="brush place name"]').fill("lamp")
    page.mouse.click(*cell(page, 4, 4))
    expect(page.get_by_label("Name of the place lamp")).to_be_visible()
    assert 'l = "lamp"' in text_of(page)


def test_a_start_is_moved(page):
    brush(page, "Start")
    page.locator('[data-key="brush agent"]').select_option("A2")
    page.mouse.click(*cell(page, 4, 4))
    expect(page.locator(".line", has_text="...#2..#..")).to_be_visible()


def test_a_gate_is_built_and_removed(page):
    brush(page, "Gate")
    page.locator('[data-key="brush place name"]').fill("door")
    page.locator('[data-key="brush agent"]').select_option("A3")
    page.locator('[data-key="brush open"]').select_option("G")
    page.mouse.click(*cell(page, 4, 8))
    expect(page.locator(".line", has_text='door = { A3 = "G" }')).to_be_visible()
    page.get_by_role("button", name="Remove the gate of door for A3").click()
    expect(page.locator(".line", has_text="door = {")).to_have_count(0)


def test_a_map_is_resized(page):
    rows = page.get_by_label("Rows", exact=True)
    rows.fill("12")
    rows.press("Enter")
    expect(page.get_by_label("Rows", exact=True)).to_have_value("12")
    expect(page.locator(".line", has_text=re.compile(r"^\.{10}\n$"))).to_have_count(2)


def test_a_map_grows_at_the_corner_that_was_chosen(page):
    page.get_by_label("Corner at which the map grows").select_option("upper left")
    rows = page.get_by_label("Rows", exact=True)
    rows.fill("11")
    rows.press("Enter")
    expect(page.get_by_label("Rows", exact=True)).to_have_value("11")
    expect(page.locator(".line", has_text=re.compile(r"^\.{10}\n$"))).to_have_count(1)
    assert "\n..........\n1.Y#.2.#3.\n" in text_of(page)


def test_places_and_agents_are_renamed_in_place(page):
    place = page.get_by_label("Name of the place yellow button")
    place.fill("bell")
    place.press("Enter")
    expect(page.locator(".line", has_text='Y = "bell"')).to_be_visible()
    expect(page.get_by_label("When Y happens")).to_have_value("A1 at bell")
    agent = page.get_by_label("Name of the agent A1")
    agent.fill("Ann")
    agent.press("Enter")
    expect(page.get_by_label("When Y happens")).to_have_value("Ann at bell")
    expect(page.get_by_label("Name of the agent Ann")).to_have_value("Ann")
    is_shown(page, "yes")
    page.get_by_label("Name of the agent A2").fill("Ann")
    page.get_by_label("Name of the agent A2").press("Enter")
    expect(page.locator("#toast")).to_contain_text("there is an agent 'Ann' already")
    expect(page.get_by_label("Name of the agent A2")).to_have_value("A2")
    page.locator("#undo").click()
    page.locator("#undo").click()
    expect(page.locator("#editor textarea")).to_have_value(BUTTONS)


# Keys alone.


def tab_to(page: Page, selector: str, most: int = 200) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"no key leads to {selector}")


def test_keys_are_enough_to_design_a_task(page):
    page.locator("#editor textarea").focus()
    tab_to(page, '#team [data-name="u0"]')
    for _ in range(10):
        page.keyboard.press("ArrowRight")  # over states and transitions
        if page.locator('#team [data-name="u6"]:focus').count():
            break
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name of the state")).to_be_focused()
    expect(page.get_by_label("Name of the state")).to_have_value("u6")
    page.keyboard.press("Control+a")
    page.keyboard.type("open")
    page.keyboard.press("Enter")
    expect(page.locator('#team [data-name="open"]')).to_be_visible()
    tab_to(page, '[data-key="know A1 Y"]')
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(page.locator(".line", has_text='"Y", "G", "R", "Goal"]')).to_be_visible()
    expect(check_mark(page, "A1", "G")).to_be_focused()
    tab_to(page, "#map .map")
    for key in ("ArrowDown", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(page.locator(".line", has_text=".#.#...#..")).to_be_visible()
    expect(page.locator("#map .where")).to_have_text("")
    page.keyboard.press("Control+s")
    expect(page.locator("#saved")).to_have_text("saved")


def test_tabs_are_changed_by_arrows(page):
    page.locator("#tab-design").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-play")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#tab-play")).to_be_focused()
    expect(page.locator("#design")).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#design")).to_be_visible()


def test_everything_that_can_be_pressed_has_a_name(page):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, [role=button], [role=application]")]
        .filter((own) => !(own.getAttribute("aria-label") || own.textContent.trim() || own.labels?.length))
        .map((own) => own.outerHTML)"""
    )
    assert nameless == []


# Playing and training.


def test_an_agent_is_walked_by_keys_beside_optimal_teammates(page):
    page.locator("#tab-play").click()
    expect(page.locator("#play")).to_have_attribute("data-time", "0")
    expect(page.locator(".mates .turn b")).to_have_text("A1")
    board = page.locator(".board")
    board.focus()
    for key, time in (("ArrowRight", 1), ("d", 2), ("s", 3), (" ", 4), ("j", 5)):
        page.keyboard.press(key)
        expect(page.locator("#play")).to_have_attribute("data-time", str(time))
    expect(page.locator("#play .log")).to_contain_text("Y")
    expect(page.locator('#play [data-agent="A1"] .node.lit')).to_have_attribute("data-name", "{u1,…,u5}")
    page.keyboard.press("Backspace")
    expect(page.locator("#play")).to_have_attribute("data-time", "4")


def test_several_agents_are_walked_in_turn(page):
    page.locator("#tab-play").click()
    expect(page.locator("#play")).to_have_attribute("data-time", "0")
    page.get_by_label("Who plays A2").select_option("me")
    page.get_by_label("Who plays A3").select_option("random")
    expect(page.locator(".status").first).to_contain_text("A1 moves")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".status").first).to_contain_text("A2 moves")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#play")).to_have_attribute("data-time", "1")


def test_a_team_plays_by_itself_to_the_end(page):
    put_text(page, SHORT)
    page.locator("#tab-play").click()
    expect(page.locator("#play")).to_have_attribute("data-time", "0")
    page.get_by_label("Who plays A1").select_option("optimal")
    expect(page.locator("#play .status")).to_contain_text("Press Run")
    page.locator("#run").click()
    expect(page.locator(".status.won")).to_contain_text("Completed in 1 step.")


def test_training_is_watched_stopped_continued_and_its_episodes_replayed(page):
    page.locator("#tab-train").click()
    expect(page.locator("#train")).to_contain_text("Runs of the studio are deleted when it ends")
    page.locator("#learner").select_option("dqprm")
    page.get_by_label("steps", exact=True).fill("10000000")  # more than it is ever let do here
    page.get_by_label("seeds", exact=True).fill("16")
    page.locator("#start").click()
    now = page.locator("#training")
    expect(page.locator(".chart .median")).to_have_count(1, timeout=COMPILING)
    hold(page, "steer", page.locator("#steer").click)
    expect(page.locator("#steer")).to_be_disabled()
    let_go(page)
    expect(now).to_have_attribute("data-now", "stopped")
    frame = page.frame_locator(".report iframe")
    replay = frame.locator(".replay")
    expect(replay).to_be_visible()
    expect(replay).to_have_attribute("data-step", "0")  # its script has begun
    replay.get_by_role("button", name="One step forward").click()
    expect(replay).to_have_attribute("data-step", "1")
    page.locator("#steer").click()
    expect(now).to_have_attribute("data-now", "training")
    page.locator("#steer").click()
    expect(now).to_have_attribute("data-now", "stopped")
    page.locator("#tab-play").click()
    page.get_by_label("Who plays A1").select_option("trained")
    page.get_by_label("Who plays A2").select_option("trained")
    page.locator("#run").click()
    expect(page.locator("#play")).to_have_attribute("data-time", re.compile("[1-9]"))


def test_a_team_that_runs_as_processes_is_watched_by_its_logs(page, file):
    page.locator("#tab-watch").click()
    expect(page.locator("#watch")).to_contain_text("No team has run in this folder yet")
    folder = file.parent / "runs" / "live"
    folder.mkdir(parents=True)
    try:
        task = hk.load_task("buttons")
        settings = RunSettings(task, "one", find_agreed(task, agree=True))
        settings.save(folder)
        world = AgentLog(folder / "world.log", settings.header("world"), durable=False)
        log = AgentLog(folder / "A1.log", settings.header("A1"), durable=False)
        log.append([("start", 1)])
        status, row = page.locator("#watch .status"), page.locator("#watch [data-agent=A1]")
        expect(status).to_contain_text("runs/live: runs")
        expect(row).to_have_attribute("data-now", "running")
        expect(page.locator("#watch [data-agent=A2]")).to_have_attribute("data-now", "not started")
        disc = page.locator("#watch .map .agent").first
        before = disc.get_attribute("transform")
        world.append([("move", "A1", 1, 1, 0, task.agents["A1"].start + 1)])
        expect(row).to_contain_text("1 step")
        assert disc.get_attribute("transform") != before
        log.append([("stop",)])
        expect(status).to_contain_text("stopped")
        world.close()
        log.close()
        (folder / "run.json").write_text("{}", encoding="utf-8")
        expect(status).to_contain_text("is not a file that hocket run has written")
    finally:
        shutil.rmtree(file.parent / "runs")


def test_what_cannot_be_trained_is_told(page):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    page.locator("#tab-train").click()
    page.locator("#start").click()
    expect(page.locator("#training")).to_contain_text("not decomposable")


# Files.


def test_saving_writes_the_file_and_says_so(page, file):
    check_mark(page, "A1", "R").click()
    expect(page.locator("#saved")).to_have_text("not saved")
    page.locator("#save").click()
    expect(page.locator("#saved")).to_have_text("saved")
    assert file.read_text() == text_of(page) != BUTTONS


def test_a_file_that_changes_on_disk_is_read_again_where_nothing_was_typed(page, file):
    change_on_disk(file, BUTTONS.replace("u7", "done"))
    expect(page.locator('#team [data-name="done"]')).to_be_visible()
    expect(page.locator("#saved")).to_have_text("saved")
    page.locator("#undo").click()
    expect(page.locator("#editor textarea")).to_have_value(BUTTONS)


def test_two_tabs_on_one_file_never_overwrite_each_other_silently(open_page, file):
    first = open_page()
    second = open_page(context=first.context)
    check_mark(first, "A1", "R").click()
    check_mark(second, "A3", "G").click()
    is_shown(first, "no")
    is_shown(second, "no")
    first.locator("#save").click()
    expect(first.locator("#saved")).to_have_text("saved")
    written = file.read_text()
    second.locator("#save").click()
    expect(second.locator("#conflict")).to_contain_text("The file was changed on disk")
    assert file.read_text() == written
    second.get_by_role("button", name="Load the version on disk").click()
    expect(second.locator("#editor textarea")).to_have_value(written)
    second.locator("#undo").click()
    expect(second.locator(".line", has_text='knows = ["A3on"')).to_be_visible()
    second.locator("#save").click()
    expect(second.locator("#saved")).to_have_text("saved")
    expect(first.locator(".line", has_text='knows = ["A3on"')).to_be_visible()  # it had nothing to lose


def test_mine_can_be_kept_against_theirs(page, file):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    change_on_disk(file, "theirs = 1\n")
    expect(page.locator("#conflict")).to_be_visible()
    page.get_by_role("button", name="Keep my version").click()
    expect(page.locator("#saved")).to_have_text("saved")
    assert file.read_text() == text_of(page) and '"Y", "Goal"]' in file.read_text()


def test_another_file_of_the_folder_is_opened_and_one_outside_is_not(page, file):
    (file.parent / "other.toml").write_text(start_text("a machine alone"))
    page.keyboard.press("Control+o")
    page.locator("dialog.start input").fill("../outside.toml")
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("in the studio's folder")
    page.locator("dialog.start input").fill("other")
    page.keyboard.press("Enter")
    expect(page.locator("#file-name")).to_have_text("other.toml")
    assert text_of(page) == start_text("a machine alone")


def test_a_machine_of_another_format_is_opened_as_a_start(page, file):
    (file.parent / "door.txt").write_text("0\n(0, 1, 'ring', 0)\n(1, 2, 'meet', 1)\n(2, 2, 'True', 0)\n")
    page.keyboard.press("Control+o")
    page.locator("dialog.start input").fill("door.txt")
    page.keyboard.press("Enter")
    expect(page.locator("#file-name")).to_have_text("untitled")
    expect(page.locator("#toast")).to_contain_text("door.txt was converted to TOML")
    assert 'ring = "1"' in text_of(page) and file.read_text() == BUTTONS
    expect(page.locator("#team .node")).to_have_count(3)


def test_a_file_that_cannot_be_read_is_told_and_something_else_can_be_begun(open_page, file):
    file.write_bytes(b"name = '\xff'")
    page = open_page()
    expect(page.locator("#toast")).to_contain_text("must be UTF-8")
    expect(page.locator("#file-name")).to_have_text("untitled")
    area = page.locator("#editor textarea")
    expect(area).to_have_value(start_text("new task"))
    area.press("Control+Home")
    page.keyboard.type("#")
    expect(area).to_have_value("#" + start_text("new task"))
    assert file.read_bytes() == b"name = '\xff'"


def test_a_task_of_the_gallery_is_a_start_and_gets_a_name_when_saved(page, file):
    page.locator("#file").click()
    page.locator(".start-card", has_text="drawbridge").click()
    expect(page.locator("#file-name")).to_have_text("untitled")
    expect(page).to_have_title(re.compile("drawbridge"))
    expect(page.locator("dialog")).to_have_count(0)
    page.locator("#save").click()
    expect(page.locator("dialog input")).to_have_value("drawbridge.toml")
    page.keyboard.press("Enter")
    expect(page.locator("#file-name")).to_have_text("drawbridge.toml")
    assert (file.parent / "drawbridge.toml").read_text() == start_text("drawbridge")
    assert file.read_text() == BUTTONS


def test_an_empty_text_can_begin_with_another(open_page, file):
    file.write_text("")
    page = open_page()
    page.get_by_role("button", name="Start from a task").click()
    page.locator(".start-card", has_text="drawbridge").click()
    is_shown(page, "yes")
    expect(page.get_by_role("button", name="Start from a task")).to_have_count(0)
    put_text(page, " ")
    expect(page.get_by_role("button", name="Start from a task")).to_be_visible()


def test_a_window_that_was_narrow_and_scrolled_is_whole_when_it_is_wide(open_page):
    page = open_page(width=800)
    page.locator("#map").scroll_into_view_if_needed()
    page.set_viewport_size({"width": 1200, "height": 900})
    page.wait_for_function("() => scrollY === 0 && document.documentElement.scrollHeight <= innerHeight")


# What happens at the same time: an answer is held back until the page has gone on.


def hold(page: Page, what: str, act: Callable[[], object]) -> None:
    """Do something that asks the server, and keep the request back."""
    page.evaluate("what => sessionStorage.setItem('kept back', `/api/${what}`)", what)
    act()
    page.wait_for_function("() => window.keptBack")


def let_go(page: Page) -> None:
    page.evaluate("letGo()")
    page.wait_for_function("() => !window.keptBack")


def press_save(page: Page) -> None:
    page.keyboard.press("Control+s")


def open_file(page: Page, name: str) -> None:
    page.keyboard.press("Control+o")
    page.locator("dialog.start input").fill(name)
    page.keyboard.press("Enter")
    expect(page.locator("#file-name")).to_have_text(name)
    expect(page.locator("dialog")).to_have_count(0)


def test_saving_twice_at_once_is_nobody_elses_change(page, file):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    hold(page, "save", lambda: press_save(page))
    page.locator("#editor textarea").press("Control+Home")
    page.keyboard.type("# more\n")
    press_save(page)
    let_go(page)
    expect(page.locator("#saved")).to_have_text("saved")
    expect(page.locator("#conflict")).to_have_count(0)
    assert file.read_text() == text_of(page) and text_of(page).startswith("# more\n")


def test_a_file_that_is_opened_while_another_is_saved_stays_apart_from_it(page, file):
    (file.parent / "other.toml").write_text(start_text("a machine alone"))
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    mine = text_of(page)
    hold(page, "save", lambda: press_save(page))
    open_file(page, "other.toml")
    with page.expect_response("**/api/save"):
        let_go(page)
    page.locator("#editor textarea").press("Control+Home")
    page.keyboard.type("# other\n")
    press_save(page)
    expect(page.locator("#saved")).to_have_text("saved")
    expect(page.locator("#file-name")).to_have_text("other.toml")
    assert file.read_text() == mine
    assert (file.parent / "other.toml").read_text() == "# other\n" + start_text("a machine alone")


def test_a_text_that_has_got_a_file_keeps_it_when_its_changes_are_undone(page, file):
    page.locator("#file").click()
    page.locator(".start-card", has_text="drawbridge").click()
    expect(page.locator("#file-name")).to_have_text("untitled")
    expect(page.locator("dialog")).to_have_count(0)
    page.locator("#editor textarea").press("Control+Home")
    page.keyboard.insert_text("# mine\n")  # at once: keys with a pause in between are several steps
    press_save(page)
    page.locator("dialog input").fill("undone.toml")
    page.keyboard.press("Enter")
    expect(page.locator("#file-name")).to_have_text("undone.toml")
    expect(page.locator("dialog")).to_have_count(0)
    page.locator("#undo").click()
    expect(page.locator("#editor textarea")).to_have_value(start_text("drawbridge"))
    expect(page.locator("#file-name")).to_have_text("undone.toml")
    press_save(page)
    expect(page.locator("#saved")).to_have_text("saved")
    assert (file.parent / "undone.toml").read_text() == start_text("drawbridge")
    page.locator("#undo").click()  # to what was there before the drawbridge
    expect(page.locator("#file-name")).to_have_text("task.toml")
    expect(page.locator("#saved")).to_have_text("saved")


def test_a_choice_between_two_texts_belongs_to_its_file(page, file):
    (file.parent / "other.toml").write_text(start_text("a machine alone"))
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    change_on_disk(file, "theirs = 1\n")
    expect(page.locator("#conflict")).to_be_visible()
    open_file(page, "other.toml")
    expect(page.locator("#conflict")).to_have_count(0)
    page.locator("#undo").click()
    expect(page.locator("#conflict")).to_be_visible()
    page.get_by_role("button", name="Load the version on disk").click()
    expect(page.locator("#editor textarea")).to_have_value("theirs = 1\n")
    expect(page.locator("#conflict")).to_have_count(0)


def test_what_is_being_typed_into_a_field_outlives_an_answer(page):
    hold(page, "edit", check_mark(page, "A1", "R").click)
    field = page.get_by_label("When Goal happens")
    field.focus()
    page.keyboard.press("End")
    page.keyboard.type(" or yell")
    let_go(page)
    is_shown(page, "no")
    expect(field).to_have_value("A1 at goal or yell")
    expect(field).to_be_focused()
    page.keyboard.type("ow button")
    page.keyboard.press("Enter")
    expect(page.locator(".line", has_text='Goal = "A1 at goal or yellow button"')).to_be_visible()


def test_half_a_transition_outlives_an_answer_and_is_gone_when_it_is_there(page):
    page.locator('#team [data-name="u0"]').press("Enter")
    page.get_by_label("Event of a new transition").fill("bell")
    hold(page, "edit", check_mark(page, "A1", "R").click)
    page.get_by_label("State that it leads to").fill("u")
    let_go(page)
    is_shown(page, "no")
    expect(page.get_by_label("Event of a new transition")).to_have_value("bell")
    page.get_by_label("State that it leads to").press_sequentially("4")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Transition from u0 to u4 on bell")).to_have_count(1)
    expect(page.get_by_label("Event of a new transition")).to_have_value("")


def test_a_field_that_is_refused_is_as_it_was(page):
    field = page.get_by_label("When Goal happens")
    field.fill("A1 at gaol")
    field.press("Enter")
    expect(page.locator("#toast")).to_contain_text("place 'gaol' does not exist")
    expect(field).to_have_value("A1 at goal")
    assert text_of(page) == BUTTONS


def test_a_stroke_goes_on_while_the_one_before_is_drawn(page):
    brush(page, "Wall")
    hold(page, "edit", lambda: drag(page, cell(page, 1, 0), cell(page, 1, 2)))
    is_shown(page, "behind")
    page.mouse.move(*cell(page, 4, 0))
    page.mouse.down()
    page.mouse.move(*cell(page, 4, 1))
    let_go(page)
    expect(page.locator(".line", has_text="###...#..")).to_have_count(1)
    page.mouse.move(*cell(page, 4, 2))
    page.mouse.up()
    expect(page.locator(".line", has_text="###...#..")).to_have_count(2)
    page.mouse.move(*cell(page, 5, 0))  # without a button nothing is painted
    page.mouse.move(*cell(page, 5, 1))
    assert not page.locator("#map .stroke").get_attribute("d")


def test_a_state_is_dragged_on_while_something_else_is_drawn(page):
    def place() -> tuple[float, float]:
        state = page.locator('#team [data-name="u3"] ellipse').first
        return float(state.get_attribute("cx")), float(state.get_attribute("cy"))

    before = place()
    hold(page, "edit", check_mark(page, "A1", "R").click)
    is_shown(page, "behind")
    x, y = middle(page, '#team [data-name="u3"] text')
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y + 20)
    let_go(page)
    expect(page.locator(".line", has_text='knows = ["Y", "Goal"]')).to_be_visible()
    page.mouse.move(x + 40, y + 40)
    page.mouse.up()
    is_shown(page, "no")
    assert place()[1] > before[1] + 15


def test_states_stay_where_they_were_put_when_the_file_is_saved(page):
    def place() -> str:
        return page.locator('#team [data-name="u3"] ellipse').first.get_attribute("cy")

    x, y = middle(page, '#team [data-name="u3"] text')
    drag(page, (x, y), (x, y + 60))
    moved = place()
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    assert place() == moved
    press_save(page)
    expect(page.locator("#saved")).to_have_text("saved")
    check_mark(page, "A1", "R").click()
    is_shown(page, "yes")
    assert place() == moved


def test_nothing_can_be_typed_before_there_is_a_text(open_page, server):
    page = open_page()
    hold(page, "hello", lambda: page.goto(server.address))
    area = page.locator("#editor textarea")
    area.focus()
    page.keyboard.type("lost")
    assert text_of(page) == ""
    let_go(page)
    expect(area).to_have_value(BUTTONS)
    area.press("Control+Home")
    page.keyboard.type("#")
    expect(area).to_have_value("#" + BUTTONS)


def test_a_check_that_takes_long_is_given_up_when_something_newer_is_typed(page):
    area = page.locator("#editor textarea")
    area.press("Control+Home")
    hold(page, "understand", lambda: page.keyboard.type("#"))  # and is never answered
    page.keyboard.type("#")
    expect(page.locator("html")).to_have_attribute("data-revision", "3")
    is_shown(page, "yes")
    expect(page.locator("#connection")).to_have_count(0)


def test_a_gesture_on_a_text_that_was_just_mended_is_done(page):
    put_text(page, BUTTONS.replace("[gates]", "[gate]"))
    expect(page.locator("#problem")).to_contain_text("unknown key")
    hold(page, "understand", lambda: type_text(page, BUTTONS))
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    let_go(page)
    assert 'knows = ["Y", "Goal"]' in text_of(page)


SHORT = """
map = "1B"
legend = { B = "bell" }
slip = 0.0
[agents]
A1 = { start = "1", knows = ["ring"] }
[events]
ring = "A1 at bell"
[machine]
final = ["done"]
transitions = { begun = { ring = "done" } }
"""


def show_game(page: Page, text: str, time: int = 0) -> None:
    if text_of(page) != text:
        put_text(page, text)
    is_shown(page, "yes")
    page.locator("#tab-play").click()
    expect(page.locator("#play")).to_have_attribute("data-time", str(time))


PRESS_TWICE = """(own, key) => {
    for (let turn = 0; turn < 2; turn += 1) own.dispatchEvent(new KeyboardEvent("keydown", { key }));
}"""


def test_what_is_pressed_after_the_end_of_a_game_is_no_step(page):
    show_game(page, SHORT)
    page.locator(".board").focus()
    hold(page, "play", lambda: page.keyboard.press("ArrowRight"))
    page.locator(".board").evaluate(PRESS_TWICE, "ArrowRight")  # before anything can be answered
    expect(page.locator("#play .status")).to_contain_text("Completed in 1 step.")
    page.keyboard.press("Backspace")
    expect(page.locator("#play")).to_have_attribute("data-time", "0")
    let_go(page)


def test_a_game_that_is_run_paused_and_run_again_goes_no_faster(page):
    show_game(page, BUTTONS)
    for agent in ("A1", "A2", "A3"):
        page.get_by_label(f"Who plays {agent}").select_option("random")
    expect(page.locator("#play .status")).to_contain_text("Press Run")
    page.clock.install()
    page.clock.pause_at("2100-01-01")
    with page.expect_response("**/api/play"):
        page.evaluate("for (let turn = 0; turn < 3; turn += 1) document.getElementById('run').click()")
    game = page.locator("#play")
    expect(game).to_have_attribute("data-time", "1")
    for time in (2, 3, 4):
        with page.expect_response("**/api/play"):
            page.clock.run_for(180)
        expect(game).to_have_attribute("data-time", str(time))
    page.locator("#run").click()


# Restarts.


def test_a_server_that_is_killed_while_somebody_types_loses_nothing(open_page, server, file):
    page = open_page()
    area = page.locator("#editor textarea")
    area.focus()
    area.evaluate("own => own.setSelectionRange(0, 0)")
    page.keyboard.type("# before ")
    server.stop()
    page.keyboard.type("and after ")
    expect(page.locator("#connection")).to_contain_text("does not answer")
    is_shown(page, "behind")
    expect(verdict(page)).to_have_text(re.compile(r"Not checked since \d\d:\d\d$"))
    check_mark(page, "A1", "R").click()
    expect(page.locator("#toast")).to_contain_text("does not answer")
    at = text_of(page).index('"R", "Goal"]')
    area.focus()
    area.evaluate("(own, at) => own.setSelectionRange(at, at + 5)", at)
    page.keyboard.press("Delete")
    server.start()
    expect(page.locator("#connection")).to_have_count(0)
    is_shown(page, "no")
    assert text_of(page).startswith("# before and after ")
    page.locator("#save").click()
    expect(page.locator("#saved")).to_have_text("saved")
    assert file.read_text() == text_of(page)
    assert all("net::ERR_" in own for own in open_page.said)  # what a browser says of a server that is away
    open_page.said.clear()


class Impostor(BaseHTTPRequestHandler):
    """Whoever takes the studio's port while it is away, and writes down what it is sent."""

    sent: ClassVar[SimpleQueue] = SimpleQueue()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.sent.put((self.path, dict(self.headers), json.loads(body)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"run": "mine", "proof": "believe me"}')

    def log_message(self, *_: object) -> None:
        pass


def test_a_page_sends_no_key_and_no_text_to_another_program_on_its_port(open_page, server, file):
    page = open_page()
    server.stop()
    with ThreadingHTTPServer(("127.0.0.1", server.port), Impostor) as impostor:
        threading.Thread(target=impostor.serve_forever, daemon=True).start()
        page.locator("#editor textarea").focus()
        page.keyboard.type("# private ")
        expect(page.locator("#connection")).to_contain_text("Open the address")
        asked = [Impostor.sent.get(timeout=PATIENCE / 1000) for _ in range(3)]
        impostor.shutdown()
    for path, headers, body in asked:
        assert path == "/api/prove" and {*body} == {"nonce"} and "X-Hocket-Key" not in headers, "asks for a proof only"
    server.start()
    expect(page.locator("#connection")).to_have_count(0)
    page.locator("#save").click()
    expect(page.locator("#saved")).to_have_text("saved")
    assert "# private " in file.read_text()
    open_page.said.clear()


def wait_for_tabs_to_end(context: BrowserContext, server: Server) -> None:
    """Wait until the browser has let go of what a page had that is closed: it does so in its own time."""
    witness = context.new_page()
    witness.goto(server.address.replace("/?", "/studio.css?"))
    witness.wait_for_function("() => navigator.locks.query().then(({ held }) => held.length === 0)")
    witness.close()


def test_what_was_typed_is_there_after_the_page_was_closed(open_page, server):
    first = open_page()
    check_mark(first, "A1", "R").click()
    is_shown(first, "no")
    first.close()
    wait_for_tabs_to_end(first.context, server)
    again = open_page(context=first.context)
    is_shown(again, "no")
    assert '"Y", "Goal"]' in text_of(again)
    expect(again.locator("#restored")).to_contain_text("Your unsaved text was restored")
    again.get_by_role("button", name="Discard it").click()
    expect(again.locator("#editor textarea")).to_have_value(BUTTONS)
    expect(again.locator("#restored")).to_have_count(0)
    again.locator("#undo").click()
    is_shown(again, "no")


def test_reloading_the_page_goes_on_where_it_was(page):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    page.reload()
    is_shown(page, "no")
    assert '"Y", "Goal"]' in text_of(page) and page.url.endswith("/")


def test_without_the_token_there_is_nothing_but_a_hint(browser, server, file):
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(server.address.split("?")[0])
    expect(page.locator("#connection")).to_contain_text("with its token")
    assert text_of(page) == ""
    page.close()


# Hostile files.


def hostile_text() -> str:
    place, state, last, name = HOSTILE_NAMES
    return toml.unparse(
        {
            "name": name,
            "map": "1.P.2\n",
            "legend": {"P": place},
            "agents": {
                "A<i>1": {"start": "1", "knows": [last, "b&amp;"]},
                "A2": {"start": "2", "knows": [last, "b&amp;"]},
            },
            "events": {last: f"A<i>1 at {place}", "b&amp;": f"A2 at {place}"},
            "machine": {"final": [last], "transitions": {state: {last: "</text>"}, "</text>": {"b&amp;": last}}},
        }
    )


def test_a_hostile_file_is_shown_as_text(page):
    place, state, last, name = HOSTILE_NAMES
    put_text(page, hostile_text())
    expect(page.locator("#team .node")).to_have_count(3)
    is_shown(page, "yes")
    assert {state, last, "</text>"} <= {*page.locator("#team .node title").all_text_contents()}
    expect(page.locator("#map .legend input")).to_have_value(place)
    expect(page.locator("#events")).to_contain_text("b&amp;")
    assert page.locator("img, #map b, #map i, #agents i").count() == 0 and page.locator("script").count() == 1
    check_mark(page, "A2", "b&amp;").click()
    is_shown(page, "no")
    expect(page.locator("#verdict")).to_contain_text("b&amp;")
    assert name in page.locator("#map .map").get_attribute("aria-label")


# Looks.


def test_nothing_sticks_out_at_any_width(page):
    check_mark(page, "A1", "R").click()
    is_shown(page, "no")
    page.locator('#team [data-name="u3"]').click()
    for width in (390, 1000, 1300, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        for root in ("document.documentElement", "document.getElementById('world')"):
            assert page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth + 1"), (root, width)


def test_the_page_has_the_colours_of_the_system(page):
    for scheme, paper in (("dark", "rgb(21, 23, 26)"), ("light", "rgb(252, 251, 249)")):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body")).to_have_css("background-color", paper)


def test_the_theme_is_changed_and_kept(page):
    page.get_by_role("button", name="Switch to dark colours").click()
    page.reload()
    expect(page.get_by_role("button", name="Switch to light colours")).to_be_visible()


# A verdict is of the text that is shown.


def test_a_verdict_is_grey_until_the_text_that_is_shown_is_checked(page):
    is_shown(page, "yes")
    area = page.locator("#editor textarea")
    area.press("Control+Home")
    hold(page, "understand", lambda: page.keyboard.type("#"))
    is_shown(page, "behind")
    expect(verdict(page)).to_have_text(re.compile("Checking …$"))
    let_go(page)
    is_shown(page, "yes")
    hold(page, "edit", check_mark(page, "A1", "R").click)
    is_shown(page, "behind")
    let_go(page)
    is_shown(page, "no")


def test_what_is_played_follows_the_proof_and_is_grey_until_then(page):
    hold(page, "judge", lambda: page.locator("#editor textarea").press("#"))
    is_shown(page, "yes")
    expect(page.locator("#verdict .answer.yes")).to_have_count(1)
    expect(page.locator("#verdict .answer.behind")).to_contain_text("Playing the team")
    let_go(page)
    expect(page.locator("#verdict .answer.yes")).to_have_count(3)
    expect(verdict(page)).to_contain_text("completes the task: 17 steps")


def test_the_walk_to_where_a_team_stalls_is_played_on_the_map(page):
    text = (TEAMS / "silent.toml").read_text()
    put_text(page, 'map = """\n1dt\nh#2\n.#p\n"""\n' + text[text.index("[legend]") :])
    is_shown(page, "no")
    expect(page.locator("#stall")).to_be_visible()
    expect(verdict(page)).to_contain_text("stall")
    disc = page.locator("#map .starts .agent").last
    end = disc.get_attribute("transform")
    expect(page.locator("#agents .node.lit")).to_have_count(2)
    page.locator("#stall").get_by_role("button", name="Back").click()
    page.locator("#stall input").fill("0")
    expect(page.locator("#stall")).to_have_attribute("data-step", "0")
    assert disc.get_attribute("transform") != end
    page.locator(".repair").click()
    is_shown(page, "yes")
    settle(page)
    is_shown(page, "yes")
    expect(page.locator("#stall")).to_be_hidden()


# A hand that can do everything.


def test_a_held_door_is_drawn_and_painted_over(page):
    put_text(page, start_text("drawbridge"))
    brush(page, "Gate")
    page.locator('[data-key="brush place name"]').fill("bridge")
    expect(page.locator('[data-key="brush open"]')).to_have_value("over")
    expect(page.locator('[data-key="brush close"]')).to_have_value("lift")
    page.mouse.click(*cell(page, 2, 5))
    expect(page.locator("#map")).to_contain_text("until over, and again from lift on")
    page.mouse.click(*cell(page, 1, 5))
    expect(page.locator(".line", has_text=".....bffff")).to_be_visible()
    assert 'bridge = { A1 = { open = "over", close = "lift" }, A2 = { open = "down", close = "up" } }' in text_of(page)


def test_agents_and_events_are_removed(page):
    page.get_by_role("button", name="Remove the event A2off").click()
    expect(check_mark(page, "A2", "A2off")).to_have_count(0)
    page.get_by_role("button", name="Remove the agent A3").click()
    expect(page.locator("#agents figure")).to_have_count(2)
    assert "A3" not in text_of(page).replace("A3's corner", "").replace("lets A3 pass, A2 and A3", "")
    page.locator("#undo").click()
    page.locator("#undo").click()
    expect(page.locator("#editor textarea")).to_have_value(BUTTONS)


def test_the_condition_of_a_new_event_is_a_guess_that_has_the_focus(page):
    drag(page, *middles(page, '#team [data-name="u0"] .handle', '#team [data-name="u4"] ellipse'))
    page.locator("dialog input").fill("bell")
    page.keyboard.press("Enter")
    expect(page.get_by_label("When bell happens")).to_be_focused()
    expect(page.locator("#events .guess")).to_contain_text("A guess")
    page.keyboard.type("A1 at goal")
    page.keyboard.press("Enter")
    expect(page.locator(".line", has_text='bell = "A1 at goal"')).to_be_visible()
    expect(page.locator("#events .guess")).to_have_count(0)


def test_an_arrow_follows_a_state_that_is_dragged_and_a_target_lights_up(page):
    edge = page.locator('#team [data-edge="0-1"] path').last
    before = edge.get_attribute("d")
    x, y = middle(page, '#team [data-name="u1"] ellipse')
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 20)
    page.mouse.move(x, y + 40)
    expect(edge).not_to_have_attribute("d", before)
    page.mouse.up()
    page.mouse.move(*middle(page, '#team [data-name="u0"] .handle'))
    page.mouse.down()
    page.mouse.move(*middle(page, '#team [data-name="u3"] ellipse'))
    expect(page.locator("#team .target")).to_have_attribute("data-name", "u3")
    page.mouse.move(5, 5)
    page.mouse.up()
    page.keyboard.press("Escape")


def test_positions_are_kept_over_a_reload_and_undone(page):
    state = page.locator('#team [data-name="u1"] ellipse').first
    before = state.get_attribute("cy")
    x, y = middle(page, '#team [data-name="u1"] ellipse')
    drag(page, (x, y), (x, y + 50))
    expect(state).not_to_have_attribute("cy", before)
    moved = state.get_attribute("cy")
    page.reload()
    expect(state).to_have_attribute("cy", moved)
    drag(page, middle(page, '#team [data-name="u1"] ellipse'), (x, y + 80))
    expect(state).not_to_have_attribute("cy", moved)
    page.locator("#undo").click()
    expect(state).to_have_attribute("cy", moved)
    expect(page.locator("#saved")).to_have_text("saved")


def test_the_label_of_a_transition_is_clicked(page):
    page.locator('#team [data-edge="0-1"] text').click()
    expect(page.get_by_label("Name of the event Y")).to_be_visible()


def test_files_are_listed_filtered_and_a_new_name_is_created_with_a_text_of_its_own(page, file):
    for name in ("door", "bell"):
        (file.parent / f"{name}.toml").write_text(start_text("a machine alone"))
    page.keyboard.press("Control+o")
    expect(page.locator(".files button")).to_have_text(["bell.toml", "door.toml", "task.toml"])
    page.locator("dialog.start input").fill("do")
    expect(page.locator(".files button")).to_have_text(["door.toml", "Create do.toml"])
    page.keyboard.press("Enter")  # the only one that there is
    expect(page.locator("#file-name")).to_have_text("door.toml")
    page.keyboard.press("Control+o")
    page.locator("dialog.start input").fill("lamp")
    page.get_by_role("button", name="Create lamp.toml").click()
    expect(page.locator("#file-name")).to_have_text("lamp.toml")
    assert text_of(page) == start_text("new task") and not (file.parent / "lamp.toml").exists()


# On one screen.


def test_the_text_is_made_wider_and_stays_so(page):
    [before] = boxes(page, "#text")
    page.locator("#divider").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    [wider] = boxes(page, "#text")
    assert wider.width > before.width + 20
    x, y = middle(page, "#divider")
    drag(page, (x, y), (x + 100, y))
    [widest] = boxes(page, "#text")
    assert widest.width == pytest.approx(wider.width + 100, abs=15)
    page.reload()
    expect(page.locator("#divider")).to_have_attribute("aria-valuenow", re.compile("^[4-6]"))


def test_from_1300_pixels_on_the_table_of_events_is_beside_the_machines_and_stays_in_sight(open_page):
    page = open_page(width=1300)
    page.locator('[data-agent="A3"]').scroll_into_view_if_needed()
    page.locator("#world").evaluate("own => own.scrollTo(0, 300)")
    table, team = boxes(page, "#events", "#agents")
    assert table.x > team.x + team.width and table.y >= 0
    expect(check_mark(page, "A1", "Y")).to_be_in_viewport()


def test_a_counterexample_in_a_large_machine_is_drawn_with_its_neighbours(page):
    events = [f"e{number}" for number in range(300)]
    chain = {f"s{number}": {event: f"s{number + 1}"} for number, event in enumerate(events)}
    knows = {"A1": events[:3], "A2": ["e1", *events[3:]]}
    put_text(page, toml.unparse({"initial": "s0", "final": ["s300"], "transitions": chain, "knows": knows}))
    is_shown(page, "no")
    expect(page.locator("#team")).to_contain_text("301 states")
    expect(page.locator("#team .node.lit")).to_have_count(1)
    assert 2 <= page.locator("#team .node").count() <= 30


# Playing with keys and fingers.


def test_arrows_move_the_agent_as_soon_as_the_game_is_chosen(page):
    page.locator("#tab-play").click()
    expect(page.locator("#play")).to_have_attribute("data-time", "0")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#play")).to_have_attribute("data-time", "1")
    expect(page.locator("#play figcaption b")).to_have_text(["A1", "A2", "A3"])


def test_on_a_phone_there_is_a_pad(open_page):
    page = open_page(width=390, height=844, has_touch=True, is_mobile=True)
    page.locator("#tab-play").tap()
    expect(page.locator("#play")).to_have_attribute("data-time", "0")
    expect(page.locator("#play .map")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="right", exact=True).tap()
    expect(page.locator("#play")).to_have_attribute("data-time", "1")


def test_training_cannot_be_started_twice(page):
    page.locator("#tab-train").click()
    hold(page, "train", page.locator("#start").click)
    expect(page.locator("#start")).to_be_disabled()
    page.evaluate("document.getElementById('start').click()")
    page.locator("#editor textarea").press("Control+Home")
    put_text(page, "broken")
    let_go(page)
    expect(page.locator("#training")).to_have_attribute("data-now", re.compile("starting|compiling|training|done"))


# Keys and contrast.


def test_a_machine_is_one_stop_of_the_tab_key(page):
    expect(page.locator("#team .editable [tabindex='0']")).to_have_count(1)
    page.locator('#team [data-name="u0"]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator('#team [data-edge="0-1"]')).to_be_focused()
    expect(page.locator("#team .editable [tabindex='0']")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(page.locator('#team [data-name="u1"]')).to_be_focused()
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('#team svg')")


def test_long_comments_are_wrapped_and_maps_are_not(page):
    editor = page.locator("#editor")
    assert editor.evaluate("own => own.scrollWidth <= own.clientWidth")
    area, paint = boxes(page, "#editor textarea", "#editor .paint")
    assert area.height == pytest.approx(paint.height, abs=1)
    wide = BUTTONS.replace('"""\n1.Y', '"""\n' + "." * 150 + "\n1.Y")
    type_text(page, wide)
    assert editor.evaluate("own => own.scrollWidth > own.clientWidth")
    page.locator("#editor textarea").focus()
    page.keyboard.press("Control+Home")
    for _ in range(9):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert editor.evaluate("own => own.scrollLeft") == 0


def test_axe_finds_what_is_wrong_with_a_page(browser):
    page = browser.new_page()
    page.set_content("<img src='x.png'><p style='color: #bbb; background: #fff'>pale</p>")
    assert {finding.split(" | ")[0] for finding in findings(page)} >= {"image-alt", "color-contrast"}
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_against_the_page(open_page, scheme):
    page = open_page(width=1440, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    assert findings(page, *rules_of(scheme)) == []
    check_mark(page, "A1", "R").click()
    expect(page.locator(".repair")).to_be_visible()
    page.locator('#team [data-name="u3"]').click()
    page.wait_for_function("() => !document.querySelector('.fresh')")
    settle(page)
    assert findings(page, *rules_of(scheme)) == []
    page.keyboard.press("Control+o")
    expect(page.locator(".start-card").first).to_be_visible()
    settle(page)
    assert findings(page, *rules_of(scheme)) == []
    page.keyboard.press("Escape")
    for tab in ("play", "train", "watch"):
        page.locator(f"#tab-{tab}").click()
        expect(page.locator(f"#{tab} > *").first).to_be_visible()
        settle(page)
        assert findings(page, *rules_of(scheme)) == []
