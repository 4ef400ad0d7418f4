"""What a drawing shows, to whom it is readable, and that it is written whole or not at all."""

import os
import re
import struct
import subprocess
import sys
import threading
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.draw import graphviz as drawing
from hocket.draw.graphviz import draw_machines, machine_svg
from hocket.draw.palette import AGENT_COLORS
from strategies import BUTTONS_KNOWS, buttons, quick, rendezvous, rendezvous_parts

SVG = "{http://www.w3.org/2000/svg}"
NASTY = [
    "\\N", "\\E\\G\\L", "\\", "a\\", "\\\\n", "end\\l", "<b>", "<b>bold</b>", "<>", "<", ">", "&", "&amp;", "&#65;",
    '"', 'say "hi"', "'", "-- ->", "a -> b; c [label=d]", "{x|y}", "%s", "]]>", "<!-- x -->", "é漢字🙂", "\u200b", " x",
    "</text><script>", "m0s0",
]  # fmt: skip


def make(transitions: str, final: str = "", **more) -> hk.RewardMachine:
    """Build a machine from lines like "u0 coin u1"; the first state is the initial one."""
    triples = [tuple(line.split()) for line in transitions.strip().splitlines()]
    return hk.RewardMachine(initial=triples[0][0], transitions=triples, final=final.split(), **more)


def team_and_agents() -> dict[str, hk.RewardMachine]:
    return {"team": buttons()} | {agent: hk.project(buttons(), known) for agent, known in BUTTONS_KNOWS.items()}


def eleven() -> dict[str, hk.RewardMachine]:
    """Build a team of three beside ten agents: as many panels as a paper has room for."""
    return {"team": rendezvous(3)} | {f"A{place}": part for place, part in enumerate(rendezvous_parts(10), 1)}


def parse(machines: dict[str, hk.RewardMachine]) -> ElementTree.Element:
    return ElementTree.fromstring(machine_svg(machines))


def groups(root: ElementTree.Element, kind: str) -> dict[str, ElementTree.Element]:
    return {group.attrib["id"]: group for group in root.iter(f"{SVG}g") if group.attrib["class"] == kind}


def texts(element: ElementTree.Element) -> list[str]:
    return [(text.text or "").replace("\xa0", " ") for text in element.iter(f"{SVG}text")]


def state(root: ElementTree.Element, name: str) -> ElementTree.Element:
    """Find the group of the state that is drawn with a name, in a drawing of one machine."""
    return next(group for key, group in groups(root, "node").items() if "title" not in key and texts(group) == [name])


def points(element: ElementTree.Element) -> np.ndarray:
    """List where a group's curves end, its arrows' corners, the boxes around its circles and where texts start."""
    found = []
    for shape in element.iter():
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", shape.get("d", shape.get("points", "")))]
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        found += pairs[::3] if "d" in shape.attrib else pairs  # a curve's other points only bend it
        if shape.tag == f"{SVG}ellipse":
            x, y, wide, high = (float(shape.attrib[key]) for key in ("cx", "cy", "rx", "ry"))
            found += [(x - wide, y - high), (x + wide, y + high)]
        if shape.tag == f"{SVG}text":
            found.append((float(shape.attrib["x"]), float(shape.attrib["y"]) - 10))
    return np.array(found).reshape(-1, 2)


def test_final_states_have_two_rings_and_the_others_one():
    root = parse({"team": buttons()})
    rings = {name: len(list(state(root, name).iter(f"{SVG}ellipse"))) for name in buttons().states}
    assert rings == {name: 2 if name == "u7" else 1 for name in buttons().states}


def test_short_names_are_in_circles_of_one_size():
    root = parse({"team": buttons()})
    radii = {
        (ring.get("rx"), ring.get("ry")) for name in ("u0", "u4") for ring in state(root, name).iter(f"{SVG}ellipse")
    }
    assert len(radii) == 1 and len(set(*radii)) == 1


def test_an_arrow_from_nothing_points_at_the_initial_state():
    root = parse({"team": make("a go b", final="b")})
    line = next(groups(root, "edge")["m0initial"].iter(f"{SVG}path"))
    (start_x, start_y), *_ = points(line)
    ring = next(state(root, "a").iter(f"{SVG}ellipse"))
    assert start_x < float(ring.attrib["cx"]) - float(ring.attrib["rx"]) - 10
    assert start_y == pytest.approx(float(ring.attrib["cy"]), abs=1)
    assert len(list(root.iter(f"{SVG}ellipse"))) == 3  # a, and b with its two rings


def test_transitions_between_the_same_states_are_one_edge():
    root = parse({"team": make("a walk b\na run b\nb back a\na wait a\na sleep a\nb end c", final="c")})
    labels = sorted(texts(edge) for key, edge in groups(root, "edge").items() if key != "m0initial")
    assert labels == [["back"], ["end"], ["wait", "sleep"], ["walk", "run"]]


def test_an_edge_with_many_events_stays_low():
    events = [f"e{number}" for number in range(20)]
    root = parse({"team": make("\n".join(f"a {event} b" for event in events))})
    words = list(groups(root, "edge")["m0s0tom0s1"].iter(f"{SVG}text"))
    assert [word.text for word in words if word.text != ", "] == events
    assert len({word.attrib["y"] for word in words}) <= drawing.MAX_ROWS


def test_states_follow_their_distance_from_the_initial_state():
    root = parse({"team": buttons()})
    middle = {name: float(state(root, name).find(f".//{SVG}ellipse").attrib["cx"]) for name in buttons().states}
    assert middle["u0"] < middle["u1"] < middle["u2"] < middle["u3"] == middle["u4"] < middle["u5"] < middle["u6"]


def test_an_edge_that_leads_back_points_at_its_target():
    root = parse({"team": make("a go b\nb back a")})
    tip = points(next(groups(root, "edge")["m0s1tom0s0"].iter(f"{SVG}polygon")))
    middles = {name: float(next(state(root, name).iter(f"{SVG}ellipse")).attrib["cx"]) for name in "ab"}
    assert all(abs(tip[:, 0] - middles["a"]) < abs(tip[:, 0] - middles["b"]))


def test_states_that_cannot_be_reached_are_drawn_too():
    root = parse({"team": make("a go b\nx far y\ny near a")})
    assert {"a", "b", "x", "y"} <= set(texts(root))


def test_machines_that_are_drawn_one_by_one_share_their_colours():
    first, second = make("a go b\nb stop c"), make("x stop y")
    events = [*first.events, *second.events]
    edge = r'<g id="m0s{}tom0s{}".*?stroke="(#\w+)"'
    drawn = [machine_svg({"": machine}, events=events) for machine in (first, second)]
    colors = [re.search(edge.format(*ends), own, re.DOTALL)[1] for own, ends in zip(drawn, ["12", "01"], strict=True)]
    alone = re.search(edge.format(0, 1), machine_svg({"": second}), re.DOTALL)[1]
    assert colors[0] == colors[1] == alone


def test_a_machine_of_one_state_is_drawn():
    alone = hk.RewardMachine(initial="here", transitions={}, final={"here"})
    assert texts(parse({"": alone})) == ["here"]


def test_rewards_are_shown_where_they_are_not_those_of_completion():
    transitions = "a coin b\nb trap a\na wait a"
    general = make(transitions, rewards={("a", "coin"): 0.5, ("b", "trap"): -100, ("a", "wait"): -0.0})
    assert {"coin / 0.5", "trap / -100", "wait / 0"} <= set(texts(parse({"team": general})))
    assert {"coin", "trap", "wait"} <= set(texts(parse({"team": make(transitions)})))


def test_a_long_name_is_cut_but_not_its_reward_or_its_tooltip():
    state_name, event = "s" * 500, "e" * 500
    general = hk.RewardMachine(initial="a", transitions={("a", event): state_name}, rewards={("a", event): 7})
    root = parse({"t" * 500: general})
    cut = drawing.MAX_NAME - 1
    assert {"t" * cut + "…", "s" * cut + "…", "e" * cut + "… / 7"} <= set(texts(root))
    assert {state_name, f"a → {state_name}: {event} / 7"} <= {title.text for title in root.iter(f"{SVG}title")}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("waiting|carrying|apart|no half", ["waiting|carrying|", "apart|no half"]),
        ("the far side of the river, alone", ["the far side of the", "river, alone"]),
        ("nowhere_to_break_this_name", ["nowhere_to_break_this_name"]),
    ],
)
def test_a_long_name_of_a_state_is_broken_into_lines(name, lines):
    root = parse({"team": hk.RewardMachine(initial="a", transitions={("a", "go"): name})})
    assert [text.strip() for text in texts(groups(root, "node")["m0s1"])] == lines


def test_tooltips_list_the_states_that_a_merged_state_stands_for():
    root = parse({"A1": hk.project(buttons(), BUTTONS_KNOWS["A1"])})
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert any(title.endswith(" = {u1, u2, u3, u4, u5}") for title in titles)
    assert "u0" in titles and not any("m0" in title for title in titles)


def test_an_event_has_one_colour_in_all_panels_and_on_its_own_edges():
    root = parse(team_and_agents())
    colors: dict[str, set[str]] = {}
    for key, edge in groups(root, "edge").items():
        if not key.endswith("initial"):
            (word,), (line,) = edge.iter(f"{SVG}text"), edge.iter(f"{SVG}path")
            colors.setdefault(word.text, set()).update({word.attrib["fill"], line.attrib["stroke"]})
    assert colors.keys() == set(buttons().events)
    assert all(len(found) == 1 for found in colors.values())
    assert len(set().union(*colors.values())) == len(buttons().events)


def test_events_beyond_the_palette_differ_by_their_lines():
    events = [f"e{number}" for number in range(3 * len(AGENT_COLORS))]
    root = parse({"team": make("\n".join(f"s{event} {event} t{event}" for event in events))})
    lines = [edge.find(f".//{SVG}path") for key, edge in groups(root, "edge").items() if key != "m0initial"]
    assert len({(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}) == len(events)


def linear(color: str) -> np.ndarray:
    channels = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("color", [*AGENT_COLORS, drawing.INK])
def test_text_can_be_read_on_white(color):
    luminance = linear(color) @ [0.2126, 0.7152, 0.0722]
    assert 1.05 / (luminance + 0.05) >= 4.5


# What is left of linear red, green and blue without one kind of cone (Machado, Oliveira and Fernandes, 2009).
SIGHT = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_CONES = [
    [0.41222147, 0.53633254, 0.05144599],
    [0.2119035, 0.68069955, 0.10739696],
    [0.08830246, 0.28171884, 0.6299787],
]
TO_OKLAB = [
    [0.21045426, 0.79361778, -0.00407205],
    [1.9779985, -2.4285922, 0.45059371],
    [0.02590404, 0.78277177, -0.80867577],
]


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_told_apart_with_any_sight(sight):
    seen = np.clip([np.array(SIGHT[sight]) @ linear(color) for color in AGENT_COLORS], 0, 1)
    places = np.cbrt(seen @ np.transpose(TO_CONES)) @ np.transpose(TO_OKLAB)
    assert min(np.linalg.norm(one - other) for one, other in combinations(places, 2)) >= 0.08


@pytest.mark.parametrize("name", NASTY)
def test_names_are_drawn_as_they_are(name):
    machine = hk.RewardMachine(
        initial=name,
        transitions={(name, name): f"x{name}", (name, "other"): f"x{name}", (f"x{name}", f"{name}x"): name},
    )
    root = parse({name: machine})
    assert sorted(texts(root)) == sorted([name, name, f"x{name}", name, "other", f"{name}x"])
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "g", "title", "style", "polygon", "path", "ellipse", "text"
    }  # fmt: skip


names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8).filter(str.strip)


@quick
@given(names, names, names)
def test_any_names_make_a_picture_that_can_be_parsed(title, event, target):
    root = parse({title: hk.RewardMachine(initial="start", transitions={("start", event): target})})
    drawn = [re.sub("[\ufffe\uffff]", "\ufffd", name).replace("\xa0", " ") for name in (title, event, target)]
    assert set(drawn) <= set(texts(root))


def test_what_xml_cannot_hold_is_replaced_in_a_title():
    assert "a\ufffdb\ufffd\ufffd\ufffd" in texts(parse({"a\x00b\x1b\ud800\uffff": make("a go b")}))


@pytest.mark.parametrize("many", [1, 2, 3, 4, 7, 11])
@pytest.mark.parametrize("largest_first", [True, False])
def test_panels_do_not_overlap_and_hold_their_machines(many, largest_first):
    order = list(eleven().items())
    machines = dict((order if largest_first else order[::-1])[:many])
    root = parse(machines)
    nodes = groups(root, "node")
    frames = [points(group) for key, group in nodes.items() if key.startswith("frame")]
    boxes = [(*frame.min(axis=0), *frame.max(axis=0)) for frame in frames]
    assert len(boxes) == many
    for one, other in combinations(boxes, 2):
        assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    for place, (left, top, right, bottom) in enumerate(boxes):
        marks = groups(root, "node") | groups(root, "edge")
        drawn = np.concatenate([points(group) for key, group in marks.items() if re.match(f"m{place}(s|initial)", key)])
        assert (drawn > (left + 5, top + 5)).all() and (drawn < (right - 5, bottom - 5)).all()


@pytest.mark.parametrize("machines", [team_and_agents(), eleven()], ids=["four", "eleven"])
def test_a_team_is_as_wide_or_as_high_as_the_whole_picture(machines):
    nodes = groups(parse(machines), "node")
    frames = [points(group) for key, group in nodes.items() if key.startswith("frame")]
    extent = np.ptp(np.concatenate(frames), axis=0)
    assert np.isclose(np.ptp(frames[0], axis=0), extent, atol=0.1).any()


def test_pictures_are_neither_towers_nor_ribbons():
    for machines in (team_and_agents(), eleven(), dict(list(eleven().items())[1:])):
        _, _, width, height = map(float, parse(machines).attrib["viewBox"].split())
        assert 1 < width / height < 2.6


@pytest.mark.parametrize(("suffix", "magic"), [(".svg", b"<?xml"), (".png", b"\x89PNG\r\n\x1a\n"), (".PDF", b"%PDF-")])
def test_the_suffix_says_the_format(tmp_path, suffix, magic):
    draw_machines(team_and_agents(), tmp_path / f"machines{suffix}")
    assert (tmp_path / f"machines{suffix}").read_bytes().startswith(magic)
    assert [found.name for found in tmp_path.iterdir()] == [f"machines{suffix}"]


def test_the_file_holds_the_svg_that_notebooks_get(tmp_path):
    draw_machines(team_and_agents(), str(tmp_path / "machines.svg"))
    assert (tmp_path / "machines.svg").read_text(encoding="utf-8") == machine_svg(team_and_agents())


def test_all_formats_have_the_same_shape(tmp_path):
    for suffix in drawing.FORMATS:
        draw_machines(team_and_agents(), tmp_path / f"machines{suffix}")
    _, _, *points_of_svg = map(float, parse(team_and_agents()).attrib["viewBox"].split())
    pixels = struct.unpack(">II", (tmp_path / "machines.png").read_bytes()[16:24])
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", (tmp_path / "machines.pdf").read_bytes())
    assert np.array(pixels) / 200 * 72 == pytest.approx(points_of_svg, abs=1)
    assert [float(number) for number in box.groups()] == pytest.approx(points_of_svg, abs=1)


def test_a_wide_picture_is_scaled_to_a_bounded_number_of_pixels(tmp_path):
    chain = make("\n".join(f"s{place} go s{place + 1}" for place in range(200)))
    draw_machines({"chain": chain}, tmp_path / "chain.png")
    assert max(struct.unpack(">II", (tmp_path / "chain.png").read_bytes()[16:24])) <= 10_000


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_same_machine_gives_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for path in paths:
        draw_machines(team_and_agents(), path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second


def test_a_pdf_says_no_time_of_its_making(tmp_path):
    draw_machines(team_and_agents(), tmp_path / "machines.pdf")
    dates = re.findall(rb"Date \(D:(\d+)", (tmp_path / "machines.pdf").read_bytes())
    assert dates == [b"20000101000000"]


def run(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    ).stdout


def test_the_hash_seed_does_not_change_a_drawing():
    code = """
import hashlib, hocket
from hocket.draw.graphviz import machine_svg
machine = hocket.RewardMachine(
    initial="a", transitions={("a", "x"): "b", ("a", "y"): "b", ("b", "z"): "a"}, final={"c", "d"}, rewards={},
    states={"a", "b", "c", "d"}, events={"x", "y", "z", "w"})
print(hashlib.sha256(machine_svg({"team": machine}).encode()).hexdigest())
"""
    assert len({run(code, PYTHONHASHSEED=seed) for seed in "123"}) == 1


def test_importing_the_module_does_not_load_graphviz():
    assert run("import sys, hocket.draw.graphviz; print('pygraphviz' in sys.modules)").strip() == "False"


def test_graphviz_is_not_heard_and_others_are(capfd, monkeypatch):
    monkeypatch.setattr(drawing, "_render", lambda *_: os.write(2, b"noise") * b" ")
    machine_svg({"team": buttons()})
    sys.stderr.write("still here")
    assert capfd.readouterr() == ("", "still here")


def test_a_closed_standard_error_is_no_obstacle():
    code = "import os, hocket\nfrom hocket.draw.graphviz import machine_svg\nos.close(2)\n"
    code += "print(machine_svg({'x': hocket.RewardMachine(initial='a', transitions={('a', 'b'): 'c'})})[:5])"
    assert run(code).strip() == "<?xml"


def test_threads_draw_the_same_and_leave_standard_error_as_it_was(capfd):
    expected = machine_svg(team_and_agents())
    found = []
    threads = [threading.Thread(target=lambda: found.append(machine_svg(team_and_agents()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"still here")
    assert found == [expected] * 4
    assert capfd.readouterr().err == "still here"


@pytest.mark.parametrize("name", ["machines.gif", "machines", "machines.svg.txt", ".svg"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(hk.HocketError, match=rf"{re.escape(name)}: .*must be one of \.svg, \.png, \.pdf, got"):
        draw_machines(team_and_agents(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_behind_where_a_drawing_cannot_be_written(tmp_path):
    (tmp_path / "taken.svg").mkdir()
    with pytest.raises(hk.HocketError, match=r"taken\.svg"):
        draw_machines(team_and_agents(), tmp_path / "taken.svg")
    assert list(tmp_path.rglob("*")) == [tmp_path / "taken.svg"]
    with pytest.raises(hk.HocketError, match="missing"):
        draw_machines(team_and_agents(), tmp_path / "missing" / "machines.svg")


def test_a_refused_drawing_leaves_the_earlier_one(tmp_path):
    path = tmp_path / "machines.svg"
    path.write_text("earlier")
    with pytest.raises(hk.HocketError):
        draw_machines({}, path)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_machines_too_large_to_read_are_refused_with_their_size():
    chain = make("\n".join(f"s{place} go s{place + 1}" for place in range(300)))
    with pytest.raises(hk.HocketError, match=r"'team' must have at most 300 states .* got 301 and 300"):
        machine_svg({"A1": buttons(), "team": chain})
    dense = make("\n".join(f"s{place} e{event} s0" for place in range(19) for event in range(79)))
    with pytest.raises(hk.HocketError, match=r"1,500 transitions .* got 19 and 1,501"):
        machine_svg({"team": dense})


def test_a_drawing_of_nothing_is_refused():
    with pytest.raises(hk.HocketError, match="at least one machine"):
        machine_svg({})


def test_what_graphviz_lacks_on_a_bare_machine_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(hk.HocketError, match=r"machines cannot be drawn: .*libglib"):
        machine_svg({"x": hk.RewardMachine(initial="a", transitions={("a", "b"): "c"}, final={"c"})})
