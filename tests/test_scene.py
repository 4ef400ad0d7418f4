"""One scene, whatever draws it: letters, colours, numbers and closed gates are the same in all pictures."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageColor

import hocket as hk
from hocket.draw import palette
from hocket.draw.map_svg import legend, map_svg
from hocket.draw.palette import LINE_COLORS, PALE, PLACE_COLORS, choose_colors, choose_styles
from hocket.draw.pixels import Frames
from hocket.draw.scene import Area, Moment, Scene
from hocket.draw.task_picture import task_svg
from hocket.draw.task_scene import MOST_NAMED, scene_of
from hocket.draw.text import CELL, CLOSED, TextMap
from hocket.report.figures import maps
from hocket.report.figures.canvas import style
from hocket.report.figures.maps import Panels, list_areas
from hocket.report.page.encoding import Numbering, scene_data
from hocket.task.catalogue import built_in_tasks
from hocket.task.files import task_from
from test_drawing import SVG, groups, points
from test_picture import boxes

TASKS = [*built_in_tasks(), "rendezvous-2", "rendezvous-10"]

Entries = list[tuple[str, str, str]]  # tag or number, name and colour, in the order in which they are told


def expected_areas(scene: Scene) -> Entries:
    return [(area.tag, area.name, area.color) for area in scene.areas]


def expected_agents(scene: Scene) -> Entries:
    return [(str(scene.numbers[name]), name, scene.colors[name]) for name in scene.agents]


# What each picture tells.


def text_entries(scene: Scene) -> Entries:
    """Read the legend of a map as text: what has a background stands for what follows."""
    found = []
    for line in TextMap(scene).legend(scene.opening, width=100):
        for span in line.spans:
            if " on #" in str(span.style):
                name = line.plain[span.end :].split("   ")[0].split(f" {CLOSED} ")[0].strip()
                found.append((line.plain[span.start : span.end].strip(), name, str(span.style)[-7:]))
    return found


def css_color(element: ElementTree.Element) -> str:
    return re.search(r"--color:(#\w{6})", element.get("style"))[1]


def page_areas(scene: Scene) -> Entries:
    root = ElementTree.fromstring(legend(scene))
    return [(swatch.text, words.text, css_color(swatch)) for swatch, words in root]


def page_agents(scene: Scene) -> Entries:
    told = scene_data(scene, Numbering())["agents"]
    root = ElementTree.fromstring(map_svg(scene, [scene.starts[name] for name in scene.agents]))
    discs = [group for group in root.iter("g") if group.get("class") == "agent"]
    drawn = [(disc.find("text").text, disc.find("circle").get("fill")) for disc in discs]
    assert drawn == [(own["number"], own["color"]) for own in told]
    return [(own["number"], own["name"], own["color"]) for own in told]


def picture_areas(root: ElementTree.Element) -> Entries:
    """Read the legend of a picture: samples with a tag, and the line beside each."""
    nodes = groups(root, "node")
    found = []
    for key in nodes:
        if sample := re.fullmatch(r"sample(\d+)tag", key):
            words = nodes[f"line{sample[1]}n0"].find(f"{SVG}text").text
            found.append((nodes[key].find(f"{SVG}text").text, words, fill(nodes[f"sample{sample[1]}"])))
    return found


def fill(group: ElementTree.Element) -> str:
    return next(shape.get("fill") for shape in group if shape.tag not in (f"{SVG}title", f"{SVG}text"))


@pytest.mark.parametrize("name", TASKS)
def test_tags_and_colours_of_areas_are_the_same_in_all_pictures_and_in_the_same_order(name):
    task = hk.load_task(name)
    scene = scene_of(task)
    areas = expected_areas(scene)
    assert [own for own in text_entries(scene) if own[1] in {area.name for area in scene.areas}] == areas
    assert page_areas(scene) == areas
    assert picture_areas(ElementTree.fromstring(task_svg(task))) == areas
    assert list_areas(scene) == "; ".join(f"{tag}: {words}" for tag, words, _ in areas)


@pytest.mark.parametrize("name", TASKS)
def test_the_ground_has_the_colours_and_tags_of_its_areas_in_all_pictures(name):
    task = hk.load_task(name)
    scene = scene_of(task)
    frames = Frames(task, "rgb_array")
    image = np.asarray(frames.painter.paint({}, frozenset()))
    lines = [line.plain for line in TextMap(scene).draw(Moment({}, None))]
    written = "".join(line for line in lines if {*line} - {*"─ "})  # without lines between rows, for thin walls
    with style():
        panels = Panels(scene, ["map"], "title", [])
        panels.draw_areas(panels.maps[0])
        tags = {(round(own.xy[0]), round(own.xy[1])): own.get_text() for own in panels.maps[0].texts}
    for cell, area in scene.ground.items():
        row, column = divmod(cell, scene.columns)
        side = frames.cell
        square = image[row * side : (row + 1) * side - 1, column * side : (column + 1) * side - 1]
        assert (square == ImageColor.getrgb(area.color)).all(axis=2).mean() > 0.4
        assert written[CELL * cell] == area.tag[0]
    assert tags == {area.shapes[0][:2]: area.tag for area in scene.areas}


@pytest.mark.parametrize("name", TASKS)
def test_a_tag_on_a_page_is_on_its_area_and_if_possible_under_no_agent(name):
    scene = scene_of(hk.load_task(name))
    root = ElementTree.fromstring(map_svg(scene, [scene.starts[name] for name in scene.agents]))
    unit, occupied = float(root.get("data-unit")), {*scene.opening.cells.values()}
    written = {}
    for text in (element for element in root.iter("text") if element.get("class") == "tag"):
        column, row = (float(text.get(side)) / unit for side in "xy")
        written[text.text] = [
            int(y) * scene.columns + int(x) for y in (row - 0.01, row + 0.01) for x in (column - 0.01, column + 0.01)
        ]
    assert written.keys() == {area.tag for area in scene.areas if scene.visible[area]}
    for area in filter(lambda area: scene.visible[area], scene.areas):
        assert {*written[area.tag]} <= scene.visible[area]
        assert not {*written[area.tag]} & occupied or scene.visible[area] <= occupied


def initial_states(task: hk.Task) -> dict[str, str]:
    return {name: machine.initial for name, machine in task.machines.items()}


@pytest.mark.parametrize("name", TASKS)
def test_agents_have_the_same_numbers_and_colours_in_all_pictures(name):
    task = hk.load_task(name)
    scene = scene_of(task)
    agents = expected_agents(scene)
    few = agents[:6]
    assert text_entries(scene)[: len(few)] == few
    assert page_agents(scene) == agents
    nodes = groups(ElementTree.fromstring(task_svg(task)), "node")
    frames = Frames(task, "rgb_array")
    image = frames.draw(scene.opening.cells, initial_states(task), 0)
    alone = [own for own in agents if len(scene.opening.crowds[scene.opening.cells[own[1]]]) == 1]
    for _, agent, color in alone:  # a crowd has a colour of its own
        cell = scene.opening.cells[agent]
        assert fill(nodes[f"start{cell}"]) == color
        row, column = divmod(cell, scene.columns)
        left = image[row * frames.cell + frames.cell // 2, column * frames.cell + frames.cell // 4]
        assert "#{:02x}{:02x}{:02x}".format(*left) == color


@pytest.mark.parametrize("name", TASKS)
def test_events_have_the_same_colours_in_a_picture_and_on_a_page(name):
    task = hk.load_task(name)
    scene, names = scene_of(task), Numbering()
    told = scene_data(scene, names)["colors"]
    on_page = {event: [*LINE_COLORS.values()][told[names[event]]] for event in scene.styles}
    root = ElementTree.fromstring(task_svg(task))
    for element in root.iter(f"{SVG}text"):
        if element.text in scene.styles and element.get("fill") in LINE_COLORS.values():
            assert on_page[element.text] == element.get("fill") == scene.styles[element.text][0]


# Gates.


def crossed(scene: Scene, moment: Moment) -> set[int]:
    written = "".join(line.plain for line in TextMap(scene).draw(moment))
    return {cell for cell in range(scene.rows * scene.columns) if written[CELL * cell + 1] == CLOSED}


def hatched_pixels(frames: Frames, moment: Moment) -> set[int]:
    image, scene = frames.draw(moment.cells, moment.states, 0, moment.driven), frames.scene
    lines = (image != np.asarray(frames.painter.paint({}, frozenset()))).any(axis=2)
    squares = lines.reshape(scene.rows, frames.cell, scene.columns, frames.cell).any(axis=(1, 3))
    return {*np.flatnonzero(squares).tolist()}


def area_cells(scene: Scene, numbers: set[int]) -> set[int]:
    return {cell for number in numbers for cell in scene.cells_in(scene.areas[number].shapes)}


@pytest.mark.parametrize("name", TASKS)
def test_what_is_closed_to_an_agent_is_so_in_all_pictures_and_in_the_world(name):
    """The oracle is what an episode in plain Python goes by."""
    task = hk.load_task(name)
    scene, frames, names = scene_of(task), Frames(task, "rgb_array"), Numbering()
    told = scene_data(scene, names)["agents"]
    for number, (agent, machine) in enumerate(task.machines.items()):
        values = np.zeros((scene.rows * scene.columns, 5, len(machine.states)))
        views = {own.title: own.closed for own in maps.by_state(scene, agent, values)}
        for state, closed in zip(machine.states, task.closed_cells(agent), strict=True):
            moment = Moment({}, {agent: state}, agent)
            assert crossed(scene, moment) == hatched_pixels(frames, moment) == closed
            assert area_cells(scene, told[number]["closed"].get(names[state], set())) == closed
            assert views.get(state, closed) == closed


@pytest.mark.parametrize("name", TASKS)
def test_before_the_first_step_all_gates_are_closed_in_all_pictures(name):
    task = hk.load_task(name)
    scene = scene_of(task)
    gated = {cell for agent in task.agents.values() for region in agent.gates for cell in task.grid.places[region]}
    assert crossed(scene, Moment({})) == gated
    assert hatched_pixels(Frames(task, "rgb_array"), Moment({}, initial_states(task))) == gated
    root = ElementTree.fromstring(map_svg(scene, []))
    numbers = {int(group.get("data-area")) for group in root.iter("g") if group.get("data-area")}
    assert area_cells(scene, numbers) == gated
    picture = ElementTree.fromstring(task_svg(task))
    left, top, right, _ = boxes(picture, "floor")["floor"]
    side = (right - left) / scene.columns
    ends = [points(path) for path in groups(picture, "edge").get("gates", ())]
    middles = [own.mean(axis=0) for own in ends if len(own) and np.ptp(own, axis=0).max() > side / 4]  # not at a corner
    hatched = {int((y - top) // side) * scene.columns + int((x - left) // side) for x, y in middles}
    assert hatched <= gated and all(hatched & scene.cells_in(area.shapes) for area in scene.areas if area.gates)


def test_an_area_of_two_names_is_closed_until_both_its_gates_are_open():
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    grid = hk.Grid(1, 3, places={"door": {1}, "gate": {1}, "end": {2}})
    agents = {"A": hk.Agent(0, ("a", "b"), gates={"door": "a", "gate": "b"})}
    scene = scene_of(hk.Task("t", grid, agents, {event: {"A": hk.Condition("end")} for event in "ab"}, machine))
    area = scene.areas[0]
    assert (area.names, area.notes) == (("door", "gate"), ["closed to A until a", "closed to A until b"])
    assert [scene.bars(area, "A", state) for state in "012"] == [True, True, False]


def test_a_gate_of_which_a_machine_cannot_tell_whether_it_is_open_counts_as_closed():
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("0", "b"): "1"}, final={"1"})
    area = Area.disc((1, 1), 1, "#000000", "door", gates=[("A", "a"), ("A", "nonsense")])
    scene = Scene("t", 2, 2, ("A",), {"A": machine}, {"A": ("a", "b")}, areas=(area,))
    assert scene.bars(area, "A", "1")


# Colours and tags.


@pytest.mark.parametrize("name", TASKS)
def test_no_colour_contradicts_a_name(name):
    scene = scene_of(hk.load_task(name))
    kinds = [(area.names[0], area.color, PLACE_COLORS) for area in scene.areas]
    kinds += [
        (palette.INITIALS.get(event.lower(), event), color, LINE_COLORS) for event, (color, _) in scene.styles.items()
    ]
    for words, color, colors in kinds:
        told = [word for word in words.lower().split() if word in colors]
        assert not told or color in (colors[told[0]], palette.paler(colors[told[0]]))


NAMES = st.lists(
    st.text(min_size=1, max_size=6) | st.sampled_from(["R", "red", "a1", "a2", "b"]), unique=True, max_size=30
)


@given(NAMES, st.data())
def test_a_name_keeps_its_colour_whatever_is_added_and_all_its_looks_if_it_is_added_at_the_end(names, data):
    extra = data.draw(st.text(min_size=1).filter(lambda name: name not in names))
    at = data.draw(st.integers(0, len(names)))
    inserted, appended = [*names[:at], extra, *names[at:]], [*names, extra]
    before, after, last = choose_styles(names), choose_styles(inserted), choose_styles(appended)
    assert all(after[name][0] == color for name, (color, _) in before.items())
    assert all(last[name] == style for name, style in before.items())
    for choose in (lambda names: choose_colors({name: name for name in names}), palette.agent_colors):
        then = choose(appended)
        assert all(then[name] == color for name, color in choose(names).items())
    shades = [{color, palette.paler(color), palette.paler(palette.paler(color))} for color in PLACE_COLORS.values()]
    hues = {
        name: [shade for shade in shades if color in shade]
        for name, color in choose_colors({name: name for name in names}).items()
    }
    then = choose_colors({name: name for name in inserted})
    assert all(any(then[name] in shade for shade in hue) for name, hue in hues.items())


def test_few_agents_have_different_colours():
    assert len({*palette.agent_colors(["Ann", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal"]).values()}) == 8
    assert palette.agent_colors(["A1", "A2", "A3"]) == {
        f"A{number + 1}": palette.AGENT_COLORS[number] for number in range(3)
    }


def test_events_that_tell_a_colour_get_it_and_those_that_share_one_differ_by_their_lines():
    styles = choose_styles(["R", "red", "blue light"])
    assert styles["R"] == (LINE_COLORS["red"], "solid") and styles["red"] == (LINE_COLORS["red"], "dashed")
    assert styles["blue light"][0] == LINE_COLORS["blue"]


@pytest.mark.parametrize("name", TASKS)
def test_a_map_has_the_letters_of_its_file_also_when_it_is_saved_and_loaded(name):
    task = hk.load_task(name)
    again = task_from(task.document(), name)
    tags = {area.names[0]: area.tag for area in scene_of(task).areas}
    assert {place: tags[place] for place in tags if place in task.grid.letters} == {
        place: letter for place, letter in task.grid.letters.items() if place in tags
    }
    assert (again, again.digest) == (task, task.digest)
    assert [(area.names, area.tag, area.color) for area in scene_of(again).areas] == [
        (area.names, area.tag, area.color) for area in scene_of(task).areas
    ]


def test_of_many_places_those_with_gates_have_tags_and_colours_and_the_rest_none():
    machine = hk.RewardMachine(initial="0", transitions={("0", "go"): "1"}, final={"1"})
    grid = hk.Grid(10, 10, places={f"p{number}": {number} for number in range(80)} | {"door": {90}})
    agents = {"A": hk.Agent(99, ("go",), gates={"door": "go"})}
    areas = scene_of(hk.Task("t", grid, agents, {"go": {"A": hk.Condition("p3")}}, machine)).areas
    assert sum(bool(area.tag) for area in areas) == MOST_NAMED and areas[-1].tag
    assert all((area.color == PALE) == (not area.tag) for area in areas)
