"""What a task's picture shows, what it leaves out and says so, and that it is written whole or not at all."""

import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.cli.main import run
from hocket.draw import graphviz as drawing
from hocket.draw.geometry import ASPECT, GAP, arrange, parts, rectangles
from hocket.draw.task_picture import FEW_AGENTS, draw_task, hatching
from hocket.draw.task_scene import scene_of
from hocket.machine.composition import Composition
from hocket.task.agents import Agent, Gate
from hocket.task.catalogue import built_in_tasks, load_task
from hocket.task.conditions import Condition
from hocket.task.grid import Grid
from strategies import quick
from test_drawing import NASTY, SVG, groups, points, texts

TASKS = [*built_in_tasks(), "rendezvous-1", "rendezvous-2", "rendezvous-10"]


def machines_of(task: hk.Task) -> dict[str, hk.RewardMachine]:
    """List what `hocket show` draws."""
    team = task.machine
    if isinstance(team, Composition):
        return ({"team": team.machine()} if team.most_states <= 50_000 else {}) | dict(task.machines)
    return {"team": team} | dict(task.machines)


def test_without_machines_the_teams_and_all_agents_are_drawn(tmp_path):
    for name in ("buttons", "rendezvous-2"):
        task = hk.load_task(name)
        draw_task(task, tmp_path / "all.svg")
        draw_task(task, tmp_path / "same.svg", machines_of(task))
        assert (tmp_path / "all.svg").read_text() == (tmp_path / "same.svg").read_text()


def parse(path, task: hk.Task, machines: dict[str, hk.RewardMachine] | None = None) -> ElementTree.Element:
    draw_task(task, path / "task.svg", machines_of(task) if machines is None else machines)
    return ElementTree.parse(path / "task.svg").getroot()


def make_task(grid: Grid, agents: dict[str, Agent], name: str = "task") -> hk.Task:
    """Build a task in which all have to be somewhere at once."""
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "go"): "u1"}, final={"u1"})
    place = next(iter(grid.places))
    events = {"go": {agent: Condition(place) for agent in agents}}
    return hk.Task(name=name, grid=grid, agents=agents, events=events, machine=machine)


def boxes(root: ElementTree.Element, prefix: str) -> dict[str, np.ndarray]:
    """Find the box (left, top, right, bottom) of each mark whose name is a prefix and numbers; of words, the start."""
    found = {}
    for key, group in groups(root, "node").items():
        if re.fullmatch(rf"{prefix}\d*(n\d+)?", key):
            shape = next((shape for shape in group if shape.tag not in (f"{SVG}text", f"{SVG}title")), group)
            own = points(ElementTree.fromstring(f"<g>{ElementTree.tostring(shape, encoding='unicode')}</g>"))
            found[key] = np.concatenate([own.min(axis=0), own.max(axis=0)])
    return found


def middle(box: np.ndarray) -> np.ndarray:
    return (box[:2] + box[2:]) / 2


# What the picture shows.


@pytest.mark.parametrize("name", TASKS)
def test_every_place_agent_and_gate_is_told_and_every_machine_drawn(tmp_path, name):
    task = load_task(name)
    told = texts(parse(tmp_path, task))
    whole = "\n".join(told)
    assert task.name in told
    for place in task.grid.places:
        assert re.search(rf"^(.*[,(] ?)?{re.escape(place)}([,)].*)?$", whole, re.MULTILINE), place
    for agent, own in task.agents.items():
        assert agent in told  # on the map and over the machine
        assert re.search(rf"^start of (.*, )?{re.escape(agent)}\b", whole, re.MULTILINE)
        for gate in map(Gate.of, own.gates.values()):
            assert re.search(rf"^closed to (.*, )?{re.escape(agent)}(,.*)? {re.escape(str(gate))}$", whole, re.M)
    for event in task.machine.events:
        assert event in {text.partition(" / ")[0] for text in told} or isinstance(task.machine, Composition)


def test_the_buttons_picture_says_what_is_closed_to_whom_until_when(tmp_path):
    told = texts(parse(tmp_path, load_task("buttons")))
    lines = ["yellow region", "closed to A2 until Y", "green region", "closed to A3 until G"]
    assert [line for line in told if "region" in line or "closed" in line] == [
        *lines, "red region", "closed to A1 until R"
    ]  # fmt: skip


def test_cells_are_where_they_are_in_the_world(tmp_path):
    task = load_task("buttons")
    root = parse(tmp_path, task)
    left, top, right, bottom = boxes(root, "floor")["floor"]
    side = (right - left) / task.grid.columns
    assert (bottom - top) / task.grid.rows == pytest.approx(side, abs=0.01)
    covered = np.zeros(task.grid.cells, np.int64)
    for box in boxes(root, "wall").values():
        x, y, right, bottom = np.round((box - [left, top, left, top]) / side).astype(int)
        covered.reshape(task.grid.rows, task.grid.columns)[y:bottom, x:right] += 1
    assert covered.tolist() == [int(cell in task.grid.walls) for cell in range(task.grid.cells)]
    for agent in task.agents.values():
        row, column = task.grid.row_column(agent.start)
        mark = middle(boxes(root, "start")[f"start{agent.start}"])
        assert mark == pytest.approx([left + (column + 0.5) * side, top + (row + 0.5) * side], abs=0.5)


def test_places_have_distinct_fills_that_the_legend_repeats(tmp_path):
    root = parse(tmp_path, load_task("buttons"))
    fills = {}
    for key, group in groups(root, "node").items():
        if re.match(r"place\d", key):
            fills[group.find(f"{SVG}title").text] = group.find(f"{SVG}polygon").get("fill")
    assert len(fills) == len(set(fills.values())) == 7
    samples = [groups(root, "node")[key].find(f"{SVG}polygon") for key in boxes(root, "sample")]
    assert {sample.get("fill") for sample in samples if sample is not None} == set(fills.values())


def test_gates_are_hatched_and_nothing_else_is(tmp_path):
    task = load_task("four-buttons")
    root = parse(tmp_path, task)
    hatched = points(groups(root, "edge")["gates"])
    doors = [box for key, box in boxes(root, "place").items() if "door" in groups(root, "node")[key][0].text]
    assert len(doors) == 4
    for x, y in hatched:
        assert any(b[0] - 0.1 <= x <= b[2] + 0.1 and b[1] - 0.1 <= y <= b[3] + 0.1 for b in doors)
    for box in doors:
        inside = (hatched >= box[:2] - 0.1).all(axis=1) & (hatched <= box[2:] + 0.1).all(axis=1)
        assert inside.sum() > 10
    assert "gates" not in groups(parse(tmp_path, load_task("rendezvous-2")), "edge")


def test_a_small_place_is_drawn_upon_a_large_one(tmp_path):
    root = parse(tmp_path, load_task("pass-the-room"))
    order = [group.find(f"{SVG}title").text for key, group in groups(root, "node").items() if key.startswith("place")]
    assert order.index("far room") < order.index("far plate")


def test_a_start_and_a_goal_in_the_same_cell_are_both_seen(tmp_path):
    root = parse(tmp_path, load_task("rendezvous-10"))
    starts, tags = boxes(root, "start"), boxes(root, "tag")
    goal = next(box for key, box in tags.items() if texts(groups(root, "node")[key]) == ["G7"])
    agent = next(box for key, box in starts.items() if texts(groups(root, "node")[key]) == ["A6"])
    assert goal[3] <= agent[1] and abs(middle(goal)[0] - middle(agent)[0]) < 1


@pytest.mark.parametrize("name", TASKS)
def test_tags_agents_and_lines_of_the_legend_do_not_overlap(tmp_path, name):
    root = parse(tmp_path, load_task(name))
    marks = [*boxes(root, "start").values(), *boxes(root, "tag").values()]
    for group in (marks, boxes(root, "sample").values()):
        for one, other in combinations(group, 2):
            apart = (one[2:] <= other[:2] + 0.05) | (other[2:] <= one[:2] + 0.05)
            assert apart.any()
    starts = [
        (float(text.get("x")), float(text.get("y")))
        for key, group in groups(root, "node").items()
        if key.startswith("line")
        for text in group.iter(f"{SVG}text")
    ]
    assert all(abs(x - u) > 30 or abs(y - v) > 10 for (x, y), (u, v) in combinations(starts, 2))


@pytest.mark.parametrize("name", [*TASKS, "rendezvous-100"])
def test_panels_do_not_overlap_and_the_map_comes_first(tmp_path, name):
    frames = boxes(parse(tmp_path, load_task(name)), "frame")
    for one, other in combinations(frames.values(), 2):
        assert ((one[2:] < other[:2]) | (other[2:] < one[:2])).any()
    first = frames["frame0"]
    assert all((first[:2] <= box[:2] + 0.05).all() for box in frames.values())


@pytest.mark.parametrize("name", [*TASKS, "rendezvous-100"])
def test_pictures_have_the_proportions_of_a_page(tmp_path, name):
    _, _, width, height = map(float, parse(tmp_path, load_task(name)).attrib["viewBox"].split())
    assert 0.8 < width / height < 3.3


def test_the_map_panel_holds_its_legend(tmp_path):
    task = replace(load_task("buttons"), name="a name that is longer than the map is wide, and so is its title")
    root = parse(tmp_path, task)
    frame = boxes(root, "frame")["frame0"]
    widths = drawing.measure([task.name], 13)
    assert widths[task.name] < frame[2] - frame[0]
    marks = [*boxes(root, "sample").values(), *boxes(root, "line").values(), *boxes(root, "wall").values()]
    assert all((box[:2] > frame[:2]).all() and (box[2:] < frame[2:]).all() for box in marks)


# What it leaves out.


def test_a_team_of_too_many_states_is_left_out_with_a_note(tmp_path):
    task = load_task("rendezvous-5")
    told = texts(parse(tmp_path, task))
    assert "team machine: 64 states, not drawn" in told
    assert "team" not in told and "A5" in told
    assert not any("not drawn" in line for line in texts(parse(tmp_path, load_task("rendezvous-4"))))


def test_a_team_that_was_not_enumerated_is_counted_where_that_is_quick(tmp_path):
    assert "team machine: 2,048 states, not drawn" in texts(parse(tmp_path, load_task("rendezvous-10")))


def test_a_composition_of_more_states_than_are_counted_is_told_as_such(tmp_path):
    chain = {(str(place), "{}" + str(place)): str(place + 1) for place in range(3)}
    chains = {
        f"A{i}": hk.RewardMachine(
            initial="0", transitions={(s, e.format(f"{i}e")): t for (s, e), t in chain.items()}, final={"3"}
        )
        for i in range(1, 9)
    }
    agents = {name: Agent(0, part.events) for name, part in chains.items()}
    events = {event: {name: Condition("here")} for name, part in chains.items() for event in part.events}
    grid = Grid(1, 1, places={"here": {0}})
    task = hk.Task(name="chains", grid=grid, agents=agents, events=events, machine=Composition(chains))
    assert "team machine: more than 10,000 states, not drawn" in texts(parse(tmp_path, task, {}))


def test_an_agents_machine_of_too_many_transitions_is_left_out_with_a_note(tmp_path):
    moves = {(f"s{place}", f"e{event}"): "s0" for place in range(3) for event in range(67)}
    dense = hk.RewardMachine(initial="s0", transitions=moves)
    told = texts(parse(tmp_path, load_task("buttons"), {"A1": dense}))
    assert "A1’s machine: 201 transitions, not drawn" in told


def test_a_picture_of_a_hundred_agents_says_what_it_leaves_out(tmp_path):
    task = load_task("rendezvous-100")
    root = parse(tmp_path, task)
    told = texts(root)
    assert "94 more agents’ machines, not drawn" in told and "starts of 94 more agents" in told
    assert "team machine: up to 10^61 states, not drawn" in told
    assert len(boxes(root, "frame")) == 1 + FEW_AGENTS
    assert {agent.start for agent in task.agents.values()} == {int(key[5:]) for key in boxes(root, "start")}
    (more,) = [line for line in told if "more places" in line]
    named = [area for area in scene_of(task).areas if area.tag]
    assert more == f"{len(task.grid.places) - sum(len(area.names) for area in named)} more places"
    assert (tmp_path / "task.svg").stat().st_size < 1_000_000


def test_twelve_agents_are_all_drawn_and_of_thirteen_only_a_few(tmp_path):
    drawn = {many: boxes(parse(tmp_path, load_task(f"rendezvous-{many}")), "frame") for many in (12, 13)}
    assert [len(frames) for frames in drawn.values()] == [13, 7]


def test_any_number_of_agents_makes_a_picture(tmp_path):
    task = load_task("rendezvous-2000")
    first = dict(list(load_task("rendezvous-2").machines.items()))
    told = texts(parse(tmp_path, task, first))
    assert "team machine: up to 10^1205 states, not drawn" in told and "starts of 1,994 more agents" in told


def test_regions_with_gates_are_named_before_other_places(tmp_path):
    places = {f"p{number}": {number} for number in range(60)} | {"door": {70}}
    agent = Agent(80, ["go"], gates={"door": "go"})
    told = texts(parse(tmp_path, make_task(Grid(10, 10, places=places), {"A1": agent})))
    assert "closed to A1 until go" in told and "37 more places" in told


def test_show_draws_the_map_with_the_machines_that_can_be_read(tmp_path):
    path = tmp_path / "team.svg"
    assert run(["show", "rendezvous-10", "-o", str(path)]) == 0
    assert "team machine: 2,048 states, not drawn" in path.read_text(encoding="utf-8").replace("\xa0", " ")


# Untrusted names.


@pytest.mark.parametrize("name", [name for name in NASTY if name == name.strip()])  # a task asks for that
def test_names_are_drawn_as_they_are(tmp_path, name):
    agents = {name: Agent(0, [name], gates={f"{name}2": name}), f"{name}x": Agent(1, [name])}
    grid = Grid(2, 3, places={name: {2}, f"{name}2": {3, 4}, f"{name}3": {1}})
    machine = hk.RewardMachine(initial="u0", transitions={("u0", name): name}, final={name})
    events = {name: dict.fromkeys(agents, Condition(name))}
    task = hk.Task(name=name, grid=grid, agents=agents, events=events, machine=machine)
    root = parse(tmp_path, task)
    told = texts(root)
    lines = [name, f"start of {name}", f"start of {name}x ({name}3)", f"closed to {name} until {name}", f"{name}2"]
    assert set(lines) <= set(told)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "style", "g", "title", "polygon", "path", "ellipse", "text"
    }  # fmt: skip


names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8)
names = names.map(str.strip).filter(bool)


@quick
@given(names, names)
def test_any_names_make_a_picture_that_can_be_parsed(tmp_path_factory, agent, place):
    task = make_task(Grid(1, 2, places={place: {1}}), {agent: Agent(0, ["go"], gates={place: "go"})})
    told = texts(parse(tmp_path_factory.getbasetemp(), task))
    drawn = [re.sub("[\ufffe\uffff]", "\ufffd", name).replace("\xa0", " ") for name in (agent, place)]
    assert {f"start of {drawn[0]}", drawn[1], f"closed to {drawn[0]} until go"} <= set(told)


def test_a_long_name_is_cut_but_its_tooltip_is_not(tmp_path):
    place, agent = "p" * 200, "a" * 200
    root = parse(tmp_path, make_task(Grid(1, 2, places={place: {1}}), {agent: Agent(0, ["go"])}))
    assert max(len(text) for text in texts(root)) <= drawing.MAX_LINE
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert place in titles and f"start of {agent}" in titles
    assert "1" in texts(root)  # a number where the name has no room


def test_a_line_about_a_gate_says_until_when_however_long_a_name_is(tmp_path):
    agent = Agent(0, ["go"], gates={"door": "go"})
    told = texts(parse(tmp_path, make_task(Grid(1, 2, places={"door": {1}}), {"a" * 200: agent})))
    assert f"closed to {'a' * 23}… until go" in told


def test_agents_that_start_together_share_a_mark(tmp_path):
    agents = {name: Agent(1, ["go"]) for name in ("Al", "Bo", "Cy")}
    told = texts(parse(tmp_path, make_task(Grid(1, 3, places={"end": {2}}), agents)))
    assert "Al +2" in told and "start of Al, Bo, Cy" in told


# How it is written.


@pytest.mark.parametrize(("suffix", "magic"), [(".svg", b"<?xml"), (".png", b"\x89PNG\r\n\x1a\n"), (".PDF", b"%PDF-")])
def test_the_suffix_says_the_format(tmp_path, suffix, magic):
    task = load_task("buttons")
    draw_task(task, str(tmp_path / f"task{suffix}"), machines_of(task))
    assert (tmp_path / f"task{suffix}").read_bytes().startswith(magic)
    assert [found.name for found in tmp_path.iterdir()] == [f"task{suffix}"]


def test_all_formats_have_the_same_shape(tmp_path):
    task = load_task("warehouse")
    _, _, *size = map(float, parse(tmp_path, task).attrib["viewBox"].split())
    draw_task(task, tmp_path / "task.png", machines_of(task))
    assert np.array(struct.unpack(">II", (tmp_path / "task.png").read_bytes()[16:24])) / 200 * 72 == pytest.approx(
        size, abs=1
    )


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_same_task_gives_the_same_bytes(tmp_path, suffix):
    task = load_task("buttons")
    for number in range(2):
        draw_task(task, tmp_path / f"{number}{suffix}", machines_of(task))
    assert (tmp_path / f"0{suffix}").read_bytes() == (tmp_path / f"1{suffix}").read_bytes()


def test_the_hash_seed_does_not_change_a_picture(tmp_path):
    code = "import sys; from hocket.task.catalogue import load_task; from hocket.draw.task_picture import draw_task; "
    code += "task = load_task('rooms'); draw_task(task, sys.argv[1], task.machines)"
    contents = set()
    for seed in "12":
        path = tmp_path / f"{seed}.svg"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, path], env=environment, check=True)
        contents.add(path.read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("name", ["task.gif", "task", ".svg"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(hk.HocketError, match=rf"{re.escape(name)}: .*must be one of \.svg, \.png, \.pdf, got"):
        draw_task(load_task("buttons"), tmp_path / name, {})
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_behind_where_a_picture_cannot_be_written(tmp_path):
    (tmp_path / "taken.svg").mkdir()
    for name in ("taken.svg", "missing/task.svg"):
        with pytest.raises(hk.HocketError, match=name.split("/")[0]):
            draw_task(load_task("buttons"), tmp_path / name, {})
    assert list(tmp_path.rglob("*")) == [tmp_path / "taken.svg"]


def test_a_picture_of_a_large_map_is_a_small_file(tmp_path):
    rows, columns = 100, 300
    rng = np.random.default_rng(5)
    walls = frozenset(np.flatnonzero(rng.random(rows * columns) < 0.05).tolist()) - {0, 1}
    task = make_task(Grid(rows, columns, walls, {"end": {1}}), {"A1": Agent(0, ["go"])})
    parse(tmp_path, task)
    assert (tmp_path / "task.svg").stat().st_size < 1_000_000


# Cells as shapes, and panels on a page.

cells = st.sets(st.integers(0, 34))


@given(cells)
def test_rectangles_cover_each_cell_once_and_no_other(chosen):
    grid = Grid(5, 7)
    covered = [
        grid.cell(row, column)
        for left, top, width, height, _ in rectangles(chosen, grid.columns)
        for row in range(top, top + height)
        for column in range(left, left + width)
    ]
    assert sorted(covered) == sorted(chosen)


@given(cells)
def test_parts_are_the_cells_between_which_there_is_a_way(chosen):
    grid = Grid(5, 7)
    label = {cell: cell for cell in chosen}
    for _ in chosen:  # no way is longer
        near = {cell: {grid.neighbor(cell, action) for action in range(4)} & chosen for cell in chosen}
        label = {cell: min(label[other] for other in (cell, *near[cell])) for cell in chosen}
    expected = {own: {cell for cell in chosen if label[cell] == own} for own in label.values()}
    assert parts(chosen, grid.columns) == [expected[own] for own in sorted(expected)]


@given(st.floats(0, 500), st.floats(0, 500), st.floats(1, 100), st.floats(1, 100))
def test_hatching_stays_in_its_frame_and_is_slanted(left, top, width, height):
    for (x, y), (u, v) in hatching((left, width, top, height)):
        assert left - 1e-6 <= x <= u + 1e-6 and u <= left + width + 1e-6
        assert top - 1e-6 <= v <= y + 1e-6 and y <= top + height + 1e-6
        assert x + y == pytest.approx(u + v)


sizes = st.lists(st.tuples(st.integers(10, 900), st.integers(10, 400)), min_size=1, max_size=9)


@given(sizes, st.integers(0, 2))
def test_panels_are_put_apart_large_enough_and_within_one_rectangle(wanted, leading):
    frames = arrange(wanted, min(leading, len(wanted)))
    for (width, height), (_, wide, _, high) in zip(wanted, frames, strict=True):
        assert wide >= width - 1e-6 and high >= height - 1e-6
    for (a, b, c, d), (e, f, g, h) in combinations(frames, 2):
        assert a + b + GAP <= e + 1e-6 or e + f + GAP <= a + 1e-6 or c + d + GAP <= g + 1e-6 or g + h + GAP <= c + 1e-6
    assert frames[0][0] == frames[0][2] == 0


def test_equal_panels_fill_a_page():
    frames = arrange([(160, 100)] * 9, leading=0)
    right, bottom = max(left + width for left, width, _, _ in frames), max(top + height for _, _, top, height in frames)
    assert right / bottom == pytest.approx(ASPECT, rel=0.05)
