"""A report as its reader sees it: in a real browser, from disk, with no network."""

import csv
import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import hocket as hk
from accessibility import findings, rules_of
from conftest import PATIENCE
from hocket.cli.play import played_episode
from hocket.draw.task_scene import scene_of
from hocket.learn.policies import reference_teammates
from hocket.report.film import BETWEEN, STEP, film_svg, frames
from hocket.report.page import write_report
from hocket.report.page.standings import number
from hocket.report.recording import write_recording
from hocket.report.summary import summarize
from hocket.runtime.launch import find_agreed
from hocket.runtime.log import AgentLog
from hocket.runtime.settings import RunSettings
from hocket.study.records import TestSummary
from hocket.study.store import load_results
from rest import boxes, settle
from studies import HOSTILE, QUOTED, hostile_study, record, small_study, write_study
from studies import replay as make_replay

pytestmark = pytest.mark.browser

MEETING, BUTTONS, DRIFT = range(3)  # the tasks of the page, in order
SVG = "{http://www.w3.org/2000/svg}"
CURVES = f'.task .curves[data-section="{MEETING}"] .chart'


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return small_study(tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(scope="module")
def address(folder) -> str:
    return write_report(folder, folder / "report.html").resolve().as_uri()


@pytest.fixture
def open_page(browser, address) -> Iterator:
    """Open the report in windows of any kind; in the end, nothing may have gone wrong or asked the network."""
    contexts, opened_urls, said, asked = [], [], [], []

    def opened(width=1200, height=900, url=address, has_clock=False, **more):
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **more))
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        if has_clock:
            page.clock.install(time=0)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.goto(url)
        expect(page.locator(".chart > svg:not([viewBox])")).to_have_count(0)
        if has_clock:
            page.clock.pause_at(1_000_000)  # from here on, time passes only when a test says so
        elif more.get("java_script_enabled", True):
            settle(page)
        opened_urls.append(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
    assert [url.split("#")[0] for url in asked if not url.startswith("data:")] == opened_urls


@pytest.fixture
def page(open_page):
    return open_page()


def replay(page, place: int):
    """Find the player of a task that has one."""
    return page.locator(f'.replay[data-section="{place}"]')


def step_of(player) -> int:
    return int(player.get_attribute("data-step"))


def agent_at(player, agent: int) -> tuple[float, float]:
    """Say where an agent is drawn, in cells."""
    own = player.locator(".map .agent").nth(agent).get_attribute("transform")
    unit = float(player.locator(".map").get_attribute("data-unit"))
    across, down = re.match(r"translate\((\S+) (\S+)\)", own).groups()
    return float(across) / unit, float(down) / unit


# Curves.


def chart(page, place: int):
    return page.locator(f'.task .curves[data-section="{place}"]')


def test_every_learner_has_a_line_and_optimal_a_level(page):
    figure = chart(page, MEETING)
    assert figure.locator(".series").evaluate_all("all => all.map((own) => own.dataset.label)") == ["dqprm", "iql"]
    assert figure.locator(".level").count() == 1
    figure.locator('button[data-value="softmax"]').click()
    assert "optimal 21" in figure.locator("svg").first.text_content()


def test_a_press_on_the_legend_hides_a_line_and_another_shows_it(page):
    figure = chart(page, MEETING)
    button = figure.locator(".toggles button", has_text="iql")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert figure.locator(".series").evaluate_all("all => all.map((own) => own.dataset.label)") == ["dqprm"]
    button.press("Enter")
    assert figure.locator(".series").count() == 2
    figure.locator(".toggles button", has_text="optimal").click()
    assert figure.locator(".level").count() == 0


def test_all_lines_may_be_hidden(page):
    figure = chart(page, MEETING)
    for button in figure.locator(".toggles button").all():
        button.click()
    assert figure.locator(".series").count() == 0
    figure.locator(".chart > svg").hover()
    expect(figure.locator(".tooltip")).to_be_hidden()


def tooltip_rows(figure) -> dict[str, list[str]]:
    rows = figure.locator(".tooltip tbody tr").all()
    return {
        row.locator("th").inner_text().strip(): [own.inner_text() for own in row.locator("td").all()] for row in rows
    }


@pytest.mark.parametrize("kind", ["softmax", "greedy"])
def test_pointing_at_a_step_tells_the_values_of_the_data(page, folder, kind):
    section = summarize(load_results(folder)).sections[MEETING]
    figure = chart(page, MEETING)
    figure.locator(f'button[data-value="{kind}"]').click()
    plot = figure.locator(".chart > svg")
    plot.focus()
    for _ in range(3):
        plot.press("ArrowRight")
    assert figure.locator(".tooltip b").inner_text() == "3,000 training steps"
    found = tooltip_rows(figure)
    for group in section.groups:
        low, median, high = (number(round(float(line[2]), 2)) for line in group.curves[kind].quartiles)
        success = f"{float(group.curves[kind].success[2]):.3f}"
        assert found[group.label] == [median, f"{low}–{high}", success]
    assert found["optimal"][0] == number(section.level(kind))


def test_the_pointer_finds_the_nearest_test(page):
    figure = chart(page, MEETING)
    plot, dots, title = (
        figure.locator(".chart > svg"),
        figure.locator(".crosshair circle"),
        figure.locator(".tooltip b"),
    )
    [(_, _, width, _)] = boxes(page, f"{CURVES} svg")
    plot.hover(position={"x": width * 0.4, "y": 150})
    expect(title).to_have_text(re.compile("^[23],000 training steps$"))
    expect(dots).to_have_count(4)
    expect(figure.locator(".tooltip")).to_be_visible()
    plot.hover(position={"x": width - 5, "y": 150})
    expect(title).to_have_text("6,000 training steps")
    page.mouse.move(2, 2)
    expect(figure.locator(".tooltip")).to_be_hidden()
    expect(dots).to_have_count(0)


@pytest.mark.parametrize("axis", ["x axis", "y axis"])
def test_both_axes_are_linear_or_logarithmic(page, axis):
    figure = chart(page, MEETING)
    path = figure.locator(".series .curve").first
    choice = figure.locator(".choice", has_text=axis)
    drawn = {}
    for kind in ("linear", "log"):
        choice.locator(f'button[data-value="{kind}"]').click()
        numbers = [float(number) for number in re.findall(r"[\d.]+", path.get_attribute("d"))]
        drawn[kind] = numbers[axis == "y axis" :: 2]
    even = [second - first for first, second in zip(drawn["linear"], drawn["linear"][1:], strict=False)]
    if axis == "x axis":
        assert max(even) - min(even) < 0.3  # a test after every 1,000 steps
        uneven = [second - first for first, second in zip(drawn["log"], drawn["log"][1:], strict=False)]
        assert uneven == sorted(uneven, reverse=True) and uneven[0] > 3 * uneven[-1]
    else:
        assert drawn["linear"] != drawn["log"]


# Tables.


def test_a_table_sorts_both_ways_by_number_and_what_never_happened_comes_last(page):
    table = page.locator("#task-1 table[data-sortable]")
    head = table.locator("thead th", has_text="learnt after")
    column = head.evaluate("own => own.cellIndex")
    cells = table.locator(f"tbody tr > :nth-child({column + 1})")

    def values() -> list[str]:
        return [own.inner_text() for own in cells.all()]

    def numbers() -> list[int]:
        return [int(own.replace(",", "")) for own in values() if own not in ("never", "–")]

    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers() == sorted(numbers()) and {*values()[-4:]} == {"never", "–"}
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers() == sorted(numbers(), reverse=True) and {*values()[-4:]} == {"never", "–"}


def saved(page, button) -> tuple[str, str]:
    """Press a button that saves a file; tell the file's name and what is in it."""
    with page.expect_download() as waiting:
        button.click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_text(encoding="utf-8")


def test_curves_are_saved_as_numbers(page, folder):
    name, text = saved(page, chart(page, MEETING).locator("[data-download=CSV]"))
    rows = [*csv.DictReader(text.splitlines())]
    section = summarize(load_results(folder)).sections[MEETING]
    assert name == "rendezvous-2-curves.csv" and len(rows) == 2 * 2 * 6
    for row in rows:
        group = next(own for own in section.groups if own.label == row["learner"])
        curve = group.curves[row["policy"]]
        place = curve.step.tolist().index(int(row["step"]))
        assert float(row["median"]) == pytest.approx(curve.quartiles.median[place], abs=0.005)
        assert float(row["success"]) == pytest.approx(curve.success[place], abs=0.0005)
        assert (row["task"], int(row["runs"])) == ("rendezvous-2", 3)


def test_curves_are_saved_as_a_drawing_that_needs_nothing_else(page):
    name, text = saved(page, chart(page, MEETING).locator("[data-download=SVG]"))
    root = ElementTree.fromstring(text)
    assert name == "rendezvous-2-curves.svg" and root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//*[@data-label='dqprm']")) == 1
    assert "var(" not in text and "class=" not in text


def test_a_table_sorts_by_what_numbers_are_worth(page):
    table = page.locator("#task-1 table[data-sortable]")
    head = table.locator("thead th", has_text="mean steps")
    cells = table.locator(f"tbody tr > :nth-child({head.evaluate('own => own.cellIndex') + 1})")
    for direction in (False, True):
        head.locator("button").click()
        worth = [float(own.get_attribute("data-value")) for own in cells.all()]
        assert worth == sorted(worth, reverse=direction) and len({*worth}) > 2


def test_a_table_sorts_by_name_and_forgets_the_column_before(page):
    table = page.locator("#task-1 table[data-sortable]")
    table.locator("thead th", has_text="runs").locator("button").click()
    head = table.locator("thead th", has_text="learner")
    head.locator("button").click()
    names = [own.inner_text().strip() for own in table.locator("tbody th").all()]
    assert names == sorted(names) and len({*names}) == 3
    assert table.locator("[aria-sort]").count() == 1


# Episodes.


def test_play_advances_and_pause_stops(open_page):
    page = open_page(has_clock=True)
    player = replay(page, MEETING)
    player.locator("select[data-choice=speed]").select_option("2")
    player.locator("button.play").click()
    page.clock.run_for(2_600)  # milliseconds
    assert step_of(player) == 5 and player.locator("button.play").get_attribute("aria-label") == "Pause"
    player.locator("button.play").click()
    assert step_of(player) == 5 and player.locator("button.play").get_attribute("aria-label") == "Play"
    page.clock.run_for(2_000)
    assert step_of(player) == 5


def test_an_episode_that_is_played_ends_and_can_be_played_again(open_page):
    page = open_page(has_clock=True)
    player = replay(page, MEETING)
    player.locator("select[data-choice=speed]").select_option("64")
    player.focus()
    page.keyboard.press("Space")
    page.clock.run_for(1_000)
    assert step_of(player) == 17
    assert player.locator("button.play").get_attribute("aria-label") == "Play again"
    player.focus()
    page.keyboard.press("Space")
    page.clock.run_for(100)
    assert 0 < step_of(player) < 17


def test_only_one_episode_plays_at_a_time(open_page):
    page = open_page(has_clock=True)
    first, second = replay(page, MEETING), replay(page, DRIFT)
    first.locator("select[data-choice=speed]").select_option("1")
    first.locator("button.play").click()
    second.locator("select[data-choice=speed]").select_option("1")
    second.locator("button.play").click()
    assert first.locator("button.play").get_attribute("aria-label") == "Play"
    assert second.locator("button.play").get_attribute("aria-label") == "Pause"


def test_keys_step_and_go_to_the_ends(page):
    player = replay(page, MEETING)
    player.focus()
    for key, step in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", 17),
        ("ArrowRight", 17),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        assert step_of(player) == step
    before = player.locator("select[data-choice=speed]").input_value()
    page.keyboard.press("+")
    assert int(player.locator("select[data-choice=speed]").input_value()) == 2 * int(before)
    page.keyboard.press("-")
    assert player.locator("select[data-choice=speed]").input_value() == before


def test_the_slider_goes_to_a_step(page):
    player = replay(page, MEETING)
    slider = player.locator("input[type=range]")
    slider.fill("8")
    assert step_of(player) == 8
    assert slider.get_attribute("aria-valuetext") == "step 8 of 17: r"
    slider.press("ArrowRight")
    assert step_of(player) == 9


def test_agents_are_where_the_record_says(page, folder):
    own = summarize(load_results(folder)).sections[MEETING].groups[0].replays[0, "softmax"]
    player = replay(page, MEETING)
    player.focus()
    for step in range(7):
        for agent in range(2):
            assert agent_at(player, agent) == pytest.approx(own.points[step, agent], abs=0.01)
        page.keyboard.press("ArrowRight")


def test_an_area_is_hatched_until_its_gate_opens(page):
    player = replay(page, DRIFT)  # the buoy is closed to Bo until the last step
    hatching = player.locator(".map .closed")
    slider = player.locator("input[type=range]")
    for step, is_closed in ((0, True), (23, True), (24, False), (5, True)):
        slider.fill(str(step))
        assert hatching.is_visible() == is_closed
    assert page.locator(".map-figure .closed").last.is_visible()  # before the first step all is closed


def test_points_that_are_no_cells_are_found_again(page, folder):
    own = summarize(load_results(folder)).sections[DRIFT].groups[0].replays[7, "softmax"]
    player = replay(page, DRIFT)
    player.focus()
    for step in range(24):
        assert agent_at(player, 0) == pytest.approx(own.points[step, 0], abs=0.02)
        page.keyboard.press("ArrowRight")


def test_agents_in_one_cell_stand_side_by_side(page):
    player = replay(page, MEETING)
    player.locator("input[type=range]").fill("8")
    (one, _), (other, _) = agent_at(player, 0), agent_at(player, 1)
    assert 0.3 < abs(one - other) < 0.8 and (one + other) / 2 == pytest.approx(4.5)


def test_machines_show_the_state_they_are_in_and_the_edge_they_took(page):
    player = replay(page, MEETING)
    machine = player.locator('.machine-figure[data-agent="0"]')
    lit = machine.locator(".lit text")
    for step, state, edges in ((6, "0", []), (7, "1", ["0-1"]), (8, "2", ["1-2"]), (9, "2", []), (17, "3", ["2-3"])):
        player.locator("input[type=range]").fill(str(step))
        assert lit.all_text_contents() == [state]
        assert machine.locator(".taken").evaluate_all("all => all.map((own) => own.dataset.edge)") == edges
        assert player.locator('.crew button[data-agent="0"] .state').inner_text() == state


def test_a_synchronisation_flashes_on_those_who_know_it(page):
    player = replay(page, MEETING)
    for step, flashing, links in ((4, [1], 0), (5, [], 0), (8, [0, 1], 2)):
        player.locator("input[type=range]").fill(str(step))
        found = player.locator(".map .agent").evaluate_all("all => all.map((own) => own.classList.contains('flash'))")
        assert [place for place, own in enumerate(found) if own] == flashing
        assert player.locator(".map .meeting").count() == links
    assert player.locator(".badge").all_inner_texts() == ["r"]


def test_a_press_on_an_event_goes_to_its_step(page):
    player = replay(page, MEETING)
    assert [own.split() for own in player.locator(".log button").all_inner_texts()] == [
        ["4", "r2"], ["7", "r1"], ["8", "r"], ["17", "g1", "g2"],
    ]  # fmt: skip
    player.locator(".log button", has_text="17").click()
    assert step_of(player) == 17
    assert player.locator(".log [aria-current]").inner_text().split() == ["17", "g1", "g2"]
    assert player.locator(".scrub .events line").count() == 4


def test_selectors_choose_the_episode(page):
    player = replay(page, MEETING)
    status, outcome = player.locator(".status .at"), player.locator(".outcome")
    assert status.inner_text() == "step 0 of 17"
    player.locator("select[data-choice=seed]").select_option("2")
    player.locator("button[data-value=softmax]").click()  # which waits two steps
    assert status.inner_text() == "step 0 of 19" and outcome.inner_text() == "completed in 19 steps"
    player.locator("button[data-value=greedy]").click()
    assert status.inner_text() == "step 0 of 17"
    player.locator("select[data-choice=group]").select_option(label="iql")
    assert outcome.inner_text() == "not completed within 17 steps"
    assert player.locator("select[data-choice=seed]").input_value() == "2"  # as before


def test_a_machine_can_be_hidden_and_shown(page):
    player = replay(page, MEETING)
    chip = player.locator('.crew button[data-agent="1"]')
    assert player.locator(".watched figure").count() == 3  # with the team's
    chip.click()
    assert player.locator(".watched figure").count() == 2 and chip.get_attribute("aria-pressed") == "false"
    chip.click()
    assert player.locator(".watched figure").count() == 3


def test_the_team_machine_steps_with_what_happens(page, folder):
    player = replay(page, MEETING)
    team = summarize(load_results(folder)).sections[MEETING].scene.team
    machine, chip = player.locator('.watched [data-agent="team"]'), player.locator('.crew button:has-text("team")')
    state = team.initial
    happened = dict.fromkeys(range(18), ()) | {4: ("r2",), 7: ("r1",), 8: ("r",), 17: ("g1", "g2")}
    for step, events in happened.items():
        for event in events:
            state = team.step(state, event) or state
        player.locator("input[type=range]").fill(str(step))
        assert machine.locator(".lit text").all_text_contents() == [state] == [chip.locator(".state").inner_text()]
    assert state in team.final and "done" in chip.get_attribute("class")


@pytest.fixture(scope="module")
def bridge(tmp_path_factory) -> Path:
    """Write a study of one episode in which a bridge is let down and raised for each of two agents."""
    task = hk.load_task("drawbridge")
    scene = scene_of(task)
    events = ((1, "down"), (2, "up"), (3, "down"), (4, "over"), (5, "lift"), (6, "over"), (7, "cross"), (8, "end"))
    own = make_replay(scene, [scene.starts["A1"], scene.starts["A2"]], {"A1": "r" * 8, "A2": "d" + "." * 7}, events)
    review = TestSummary(1, 1, (1, 1), np.zeros((2, 0), np.int64), {"softmax": own})
    runs = [record("drawbridge", task.digest, "dqprm", 0, [20, 20], review)]
    return write_study(tmp_path_factory.mktemp("bridge") / "runs", runs, [task])


@pytest.fixture
def bridge_player(bridge, open_page):
    page = open_page(url=write_report(bridge, bridge / "report.html").resolve().as_uri())
    return replay(page, 0)


def test_gates_open_and_close_as_the_world_has_it_and_say_to_whom_they_are_closed(bridge_player):
    task = hk.load_task("drawbridge")
    closed = {
        name: dict(zip(task.machines[name].states, task.closed_regions(name), strict=True)) for name in task.agents
    }
    recorded = json.loads(saved(bridge_player.page, bridge_player.locator("[data-download=recording]"))[1])
    seen = []
    for step in range(9):
        bridge_player.locator("input[type=range]").fill(str(step))
        shut = [name for name in task.agents if "bridge" in closed[name][recorded["agents"][name]["states"][step]]]
        area = bridge_player.locator(".map [data-area]")
        locks = [own.locator("title").text_content() for own in area.locator(".lock.shut").all()]
        assert locks == [f"closed to {name}" for name in shut]
        assert area.locator(".closed").first.is_visible() == bool(shut)
        assert area.evaluate("own => own.classList.contains('ajar')") == (len(shut) == 1)
        seen.append(len(shut))
    assert seen == [2, 1, 2, 1, 0, 1, 0, 0, 0]


def test_an_episode_is_saved_as_data_that_tell_all_of_it(bridge_player, bridge):
    name, text = saved(bridge_player.page, bridge_player.locator("[data-download=recording]"))
    (section,) = summarize(load_results(bridge)).sections
    own, told = section.groups[0].replays[0, "softmax"], json.loads(text)
    assert name == "drawbridge-dqprm-0-softmax.json"
    assert [told["agents"][agent]["x"] for agent in ("A1", "A2")] == own.points[:, :, 0].T.tolist()
    assert [told["agents"][agent]["y"] for agent in ("A1", "A2")] == own.points[:, :, 1].T.tolist()
    assert [told["agents"][agent]["states"] for agent in ("A1", "A2")] == [
        list(line) for line in zip(*own.states, strict=True)
    ]
    assert [tuple(event) for event in told["events"]] == list(own.events)
    assert (told["task"], told["seed"], told["success"], told["steps"]) == ("drawbridge", 0, True, 8)
    assert told["team"][-1] == "done"


def test_an_episode_is_saved_as_a_drawing_that_moves(bridge_player, open_page, tmp_path):
    name, text = saved(bridge_player.page, bridge_player.locator("[data-download=animation]"))
    assert name == "drawbridge-dqprm-0-softmax.svg" and "var(" not in text
    root = ElementTree.fromstring(text)
    ways = [own for own in root.iter(f"{SVG}animateTransform") if own.get("type") == "translate"]
    assert len(ways) == 2 and all(
        len(own.get("values").split(";")) == len(own.get("keyTimes").split(";")) for own in ways
    )
    first, *_, last = ways[0].get("values").split(";")
    assert [float(part) for part in first.split()] == [20, 20]  # in the middle of a cell of 40 units
    assert float(last.split()[0]) == 20 + 8 * 40
    (tmp_path / name).write_text(text, encoding="utf-8")
    page = open_page(url=(tmp_path / name).as_uri())
    place = "() => { const own = document.querySelector('[data-moves]').getCTM(); return own.e; }"
    page.evaluate("() => { document.documentElement.pauseAnimations(); document.documentElement.setCurrentTime(0); }")
    start = page.evaluate(place)
    page.evaluate("() => document.documentElement.setCurrentTime(2.2)")  # eight steps, four a second
    assert page.evaluate(place) - start == pytest.approx(320, abs=1)
    words = page.locator("text").evaluate_all(
        "all => all.map((own) => [own.firstChild.data, getComputedStyle(own).opacity])"
    )
    assert [(word, seen) for word, seen in words if word in ("team: apart", "team: done", "end")] == [
        ("team: apart", "0"),
        ("team: done", "1"),
        ("end", "1"),
    ]


def animated(film: ElementTree.Element, kind: str) -> list[list[list[float]]]:
    """List what a film does with its agents, step by step."""
    moves = [move for move in film.iter(f"{SVG}animateTransform") if move.get("type") == kind]
    return [[[*map(float, value.split())] for value in move.get("values").split(";")] for move in moves]


def test_the_page_and_the_command_film_episodes_of_built_in_and_wrapped_worlds_alike(page, folder):
    for place, seed in ((MEETING, 0), (DRIFT, 7)):
        button = replay(page, place).get_by_role("button", name="animation")
        saved_film = ElementTree.fromstring(saved(page, button)[1])
        section = summarize(load_results(folder)).sections[place]
        episode = section.groups[0].replays[seed, "softmax"]
        film = ElementTree.fromstring(film_svg(section.scene, episode))
        steps = len(episode.points)
        for ours, theirs in zip(animated(saved_film, "translate"), animated(film, "translate"), strict=True):
            np.testing.assert_allclose(ours[:steps], theirs[:steps], atol=0.6)  # of 400 units
        for shape in ("rect", "ellipse"):  # floor, places, walls
            ours, theirs = ([own.get("fill") for own in root.iter(f"{SVG}{shape}")] for root in (saved_film, film))
            assert [color for color in ours if color] == [color for color in theirs if color]
        words = {text.text for text in film.iter(f"{SVG}text") if text.get("class") == "tag"}
        assert words <= {text.text for text in saved_film.iter(f"{SVG}text")}


def test_films_of_pixels_look_as_the_animation_does_in_a_browser(open_page, tmp_path):
    task = hk.load_task("buttons")
    scene, episode = played_episode(task, reference_teammates(task, "optimal"), seed=0, steps=100)
    painted = [*frames(scene, episode)]
    (tmp_path / "film.svg").write_text(film_svg(scene, episode), encoding="utf-8")
    page = open_page(url=(tmp_path / "film.svg").as_uri())
    page.set_viewport_size({"width": painted[0].width, "height": painted[0].height})
    for step in (0, 8, len(episode.points) - 1):
        page.evaluate(
            """seconds => {
                document.documentElement.pauseAnimations();
                document.documentElement.setCurrentTime(seconds);
                for (const own of document.getAnimations()) { own.pause(); own.currentTime = 1000 * seconds; }
            }""",
            step * STEP + 0.001,
        )
        shown = np.asarray(Image.open(BytesIO(page.screenshot())).convert("RGB"), int)
        differences = np.abs(shown - np.asarray(painted[step * BETWEEN], int)).max(axis=2)
        assert (differences[:-36] > 60).mean() < 0.01  # letters are of another font


def test_with_reduced_motion_agents_jump(open_page):
    page = open_page(has_clock=True, reduced_motion="reduce")
    page.evaluate("""() => {
        window.seen = [];
        const agent = document.querySelector(".replay .map .agent");
        const look = () => window.seen.push(agent.getAttribute("transform"));
        new MutationObserver(look).observe(agent, { attributes: true });
    }""")
    player = replay(page, MEETING)
    player.locator("select[data-choice=speed]").select_option("16")
    player.locator("button.play").click()
    page.clock.run_for(500)
    assert 6 <= step_of(player) <= 8
    player.locator("button.play").click()
    unit = float(player.locator(".map").get_attribute("data-unit"))
    seen = [[float(own) / unit for own in re.findall(r"[\d.]+", line)[:2]] for line in page.evaluate("window.seen")]
    before = [own for own in seen if own[0] < 4]  # where they meet they stand side by side
    assert len(before) > 3 and all(across % 1 == down % 1 == 0.5 for across, down in before)


# Names that want to be more.


CUT = """() => [...document.querySelectorAll("main *, nav *")].flatMap((own) => {
  const look = getComputedStyle(own);
  if (own.closest("svg") || look.overflowX === "visible") return [];
  if (own.scrollWidth <= own.clientWidth + 1 && own.scrollHeight <= own.clientHeight + 1) return [];
  const is_shaded = look.overflowX === "auto" && look.backgroundImage.includes("gradient");
  return is_shaded || look.textOverflow === "ellipsis" ? [] : [own.className];
})"""


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (800, "dark")])
def test_nothing_is_cut_without_a_sign_that_it_scrolls(open_page, width, scheme):
    page = open_page(width=width, color_scheme=scheme)
    page.locator("details").evaluate_all("all => all.forEach((own) => { own.open = true; })")
    settle(page)
    assert page.evaluate(CUT) == []
    if width == 400:  # there is something to scroll at all
        assert page.locator(".scrolling").evaluate_all("all => all.some((own) => own.scrollWidth > own.clientWidth)")


@pytest.mark.parametrize("name", [HOSTILE, QUOTED])
def test_a_name_is_shown_as_text(open_page, tmp_path, name):
    folder = hostile_study(tmp_path / "hostile", name)
    page = open_page(width=360, url=write_report(folder, tmp_path / "report.html").resolve().as_uri())
    player = replay(page, 0)
    player.focus()
    page.keyboard.press("ArrowRight")
    assert player.locator(".log b").inner_text() == f"{name}e"
    assert player.locator(".crew .state").first.inner_text() == f"{name}t"
    assert player.locator(".lit").count() == 3  # of two agents and the team
    assert player.locator("select[data-choice=group] option").first.inner_text() == f"{name}l, depth=0"
    assert name in chart(page, 0).locator(".tooltip").inner_text()
    assert page.locator("img").count() == 0
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360


# Looks.

# The texts whose contrast with what lies behind them is below 4.5:1, by the formula of WCAG 2.
CONTRAST = """() => {
    const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    const linear = (own) => (own <= 0.03928 ? own / 12.92 : ((own + 0.055) / 1.055) ** 2.4);
    const light = (color) => {
        const [r, g, b] = color.slice(0, 3).map((own) => linear(own / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        const lit = element.closest(".lit");
        if (lit) return parse(getComputedStyle(lit.querySelector("ellipse")).fill);
        for (let own = element; own; own = own.parentElement) {
            const color = parse(getComputedStyle(own).backgroundColor);
            if (color.length === 3 || color[3] === 1) return color;
        }
        return [255, 255, 255];
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.data.trim();
        const element = walker.currentNode.parentElement;
        if (!text || !element.checkVisibility() || element.closest("script, .map, :disabled")) continue;
        const style = getComputedStyle(element);
        const own = parse(element.closest("svg") ? style.fill : style.color);
        const [one, other] = [light(own), light(behind(element))].sort((a, b) => b - a);
        const ratio = (one + 0.05) / (other + 0.05);
        if (ratio < 4.5) low.push(`${text} in ${element.outerHTML.slice(0, 60)}: ${ratio.toFixed(2)}`);
    }
    return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(open_page, scheme):
    page = open_page(color_scheme=scheme, reduced_motion="reduce")
    replay(page, MEETING).locator("input[type=range]").fill("8")
    plot = chart(page, MEETING).locator(".chart > svg")
    plot.focus()
    plot.press("ArrowRight")
    for details in page.locator("details").all():
        details.evaluate("own => { own.open = true; }")
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_page_follows_the_system_until_the_button_is_pressed(open_page, scheme, other):
    page = open_page(color_scheme=scheme)

    def brightness() -> int:
        return sum(map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]))

    before = brightness()
    assert (before > 600) == (scheme == "light")
    page.locator(".theme").click()
    assert (brightness() > 600) == (other == "light")
    page.locator(".theme").click()
    assert brightness() == before


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_the_page_is_never_wider_than_its_window(open_page, width):
    page = open_page(width=width)
    replay(page, MEETING).locator("input[type=range]").fill("8")
    for details in page.locator("details").all():
        details.evaluate("own => { own.open = true; }")
    settle(page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    wide = page.evaluate("document.querySelector('.task .chart > svg').getBoundingClientRect().width")
    assert 0.8 * min(width, 1100) < wide <= width


def test_in_a_narrow_window_values_have_their_place_below_the_curves(open_page):
    page = open_page(width=360)
    svg, values = boxes(page, f"{CURVES} svg", f"{CURVES} .tooltip")
    assert chart(page, MEETING).locator(".tooltip b").inner_text() == "6,000 training steps"
    assert values.y >= svg.y + svg.height


def test_a_window_that_changes_its_width_has_its_curves_drawn_anew(page):
    plot = chart(page, MEETING).locator(".chart > svg")
    before = plot.get_attribute("viewBox")
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function(
        "(before) => document.querySelector('.task .chart > svg').getAttribute('viewBox') !== before", arg=before
    )


def test_controls_are_reached_by_tab_and_have_names(page):
    nameless = page.locator("button, select, input").evaluate_all(
        """all => all
            .filter((own) => own.tabIndex < 0 || !(own.ariaLabel || own.innerText || own.labels?.length))
            .map((own) => own.outerHTML)"""
    )
    assert nameless == []


def test_without_scripts_everything_but_curves_and_episodes_is_there(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("table[data-sortable]").count() == 4  # one of all tasks
    assert page.locator(".machine").first.is_visible()
    assert page.locator(".theme").is_hidden()
    assert page.locator("noscript").first.is_visible()


# For everybody.


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "light"), (1440, "dark")])
def test_axe_finds_nothing_on_a_report(open_page, width, scheme):
    assert findings(open_page(width=width, color_scheme=scheme), *rules_of(scheme)) == []


def test_curves_beside_each_other_name_all_lines_and_lead_to_their_task(open_page):
    page = open_page(width=1440)
    figures = page.locator(".beside figure")
    expect(figures).to_have_count(3)
    for index, figure in enumerate(figures.all()):
        whole = page.locator(f"section.task[data-section='{index}'] .toggles button:not(.reference)")
        expect(figure.locator(".tooltip tbody tr[data-label]")).to_have_count(whole.count())
    figures.first.get_by_role("link").click()
    expect(page.locator("#task-1 h2")).to_be_in_viewport()


def test_agents_in_one_cell_stand_beside_each_other_on_the_page_of_a_run(open_page, tmp_path):
    task, middle = hk.load_task("rendezvous-2"), 34
    settings = RunSettings(task, "one", find_agreed(task))
    settings.save(tmp_path)
    moves = [("start",), *(("move", agent, 1, 0, 0, middle) for agent in task.agents)]
    for name in (*task.agents, "world"):
        log = AgentLog(tmp_path / f"{name}.log", settings.header(name), durable=False)
        log.append(moves if name == "world" else [("start", 1)])
        log.close()
    page = open_page(url=write_recording(tmp_path).resolve().as_uri())
    places = page.evaluate(
        """() => {
          const slider = document.getElementById("time");
          const discs = [...document.querySelectorAll(".starts .agent")];
          return Array.from({ length: 1 + Number(slider.max) }, (_, number) => {
            slider.value = number;
            slider.dispatchEvent(new Event("input"));
            return discs.map((disc) => disc.getAttribute("transform"));
          });
        }"""
    )
    assert all(one != other for one, other in places)
    assert ["scale(0." in place for place in places[-1]] == [True, True]  # both are in the middle
    assert ["scale(1)" in place for place in places[0]] == [True, True]
