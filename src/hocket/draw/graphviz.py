"""Draw machines as SVG, PNG or PDF: a panel for each, and the same colour for an event in all of them.

Graphviz lays out each machine separately. The panels are then put on a grid and rendered as one picture with given
positions, so that all formats show the same drawing.
"""

from __future__ import annotations

import html
import math
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.etree import ElementTree

from hocket.draw.boxes import boxes_of, close_all, is_closed_box, label_in
from hocket.draw.geometry import Frame, Pair, arrange
from hocket.draw.markup import Html, tag, truncate
from hocket.draw.palette import FLOOR, Style, adapt, choose_styles
from hocket.errors import FormatError, HocketError, MachineError
from hocket.files import write_whole
from hocket.machine.parts import INSIDE
from hocket.machine.reward_machine import RewardMachine

VECTORS, PIXELS = {"dpi": "72", "size": "138"}, {"dpi": "200", "size": "50"}  # in inches: at most 10,000 dots
FORMATS = {".svg": VECTORS, ".png": PIXELS, ".pdf": VECTORS}
MAX_STATES, MAX_TRANSITIONS = 300, 1_500  # per panel
MAX_NAME, MAX_LINE = 48, 64  # characters of a name and of other text that are drawn; tooltips of an SVG show all
MAX_WIDTH = 20  # characters in a line of a state's name, if it can be broken
MAX_ROWS = 6  # lines of an edge's label; more events than that share lines
MANY_MARKS = 500  # beyond this a full search for the best layout takes minutes
HASTE = {"mclimit": "0.1", "nslimit": "1", "nslimit1": "1"}

INK, FRAME, FONT, TITLE_SIZE = "#333333", "#d0d0d0", "Helvetica,Arial,sans-serif", "13"
BOX = {"style": "rounded,filled", "fillcolor": FLOOR, "color": "#b0b0b0", "labelloc": "t", "fontsize": "11"}
CLOSED = {"shape": "box", "style": BOX["style"], "fillcolor": BOX["fillcolor"]}  # of a box that is one state
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # most are not allowed in XML

POINTS = 72  # to the inch, Graphviz's unit of size; positions and the lengths below are in points
PADDING = 12.0  # around a panel's content
POSITIONS = ("pos", "lp")  # Graphviz's attributes that hold points
NOT_EMBEDDED = ("id", "font-family", "{http://www.w3.org/XML/1998/namespace}space")  # attributes of files only
POINT = re.compile(r"(-?\d[\d.e+-]*),(-?\d[\d.e+-]*)")

Styles = Mapping[str, Style]  # of events
NONE: Mapping[str, Support] = MappingProxyType({})
FEW = 2  # episodes up to which an edge is dashed
WIDTHS = {1: "0.5", FEW: "0.8", 9: "1.2", math.inf: "1.8"}  # most episodes that show an edge -> how wide it is
_one_at_a_time = threading.RLock()  # Graphviz has global state


class Mark(NamedTuple):
    """A node or an edge with its attributes for Graphviz."""

    name: str  # unique in a picture
    attributes: Mapping[str, str]
    ends: tuple[str, ...] = ()  # the names of an edge's nodes
    tooltip: str = ""
    data: Mapping[str, str] = {}  # attributes for the scripts of a page
    boxes: tuple[str, ...] = ()  # around a node, the outermost first


class Support(NamedTuple):
    """The evidence for a machine that was learnt: episodes that show each transition, and events never tried."""

    episodes: dict[tuple[str, str], int]  # (state, event) -> number of episodes
    never_tried: dict[str, list[str]]  # state -> events


class Panel(NamedTuple):
    """Marks with positions, up and right from the origin."""

    marks: Sequence[Mark]
    size: Pair


def require_format(path: str | Path) -> str:
    """Return the suffix of a drawing's file, which is its format; refuse unknown ones."""
    form = Path(path).suffix.lower()
    if form not in FORMATS:
        raise FormatError(f"a drawing's suffix must be one of {', '.join(FORMATS)}, got {form!r}", path=path)
    return form


def draw_machines(
    machines: Mapping[str, RewardMachine],
    path: str | Path,
    *before: Panel,
    events: Iterable[str] = (),
    support: Mapping[str, Support] = NONE,
    closed: bool = False,
) -> None:
    """Draw machines, each under its title, into a file whose suffix says the format: .svg, .png or .pdf.

    Panels `before` precede the machines. `events` get their colours first, so that separate drawings can use the same
    colours. `support` is the evidence for machines that were learnt, by title: edges that fewer episodes show are
    thinner, and states name the events that were never tried there. With `closed`, each machine that another one calls
    is one state, not a box with its states.
    """
    Drawing(close_all(machines) if closed else machines, before, events, support).write(path)


def machine_svg(machines: Mapping[str, RewardMachine], events: Iterable[str] = ()) -> str:
    """Return a drawing of machines as the text of an SVG."""
    return Drawing(machines, events=events).svg()


def embedded_machine(machine: RewardMachine, events: Iterable[str], label: str) -> tuple[Html, float]:
    """Draw a machine without a title for a page; return its width, too.

    There are no ids, so that it can be on a page more than once: the group of a state has its number as `data-state`,
    that of an edge the numbers of its two states as `data-edge`.
    """
    svg, marks = Drawing({"": machine}, events=events).render(".svg")
    root, known = ElementTree.fromstring(svg), {mark.name: mark.data for mark in marks}
    graph = root[0]
    for element in [element for element in graph if element.get("id") not in known]:
        graph.remove(element)  # background and frame
    for element in graph.iter():
        element.tag = element.tag.rpartition("}")[2]
        texts = element.text or "", element.tail or ""
        element.text, element.tail = ("" if text.isspace() else text for text in texts)
        data = known.get(element.get("id", ""), {})
        element.attrib = {key: value for key, value in element.attrib.items() if key not in NOT_EMBEDDED} | {**data}
    width, height = (float(root.attrib[side].removesuffix("pt")) for side in ("width", "height"))
    look = {"class_": "machine", "viewBox": root.attrib["viewBox"], "role": "img", "aria_label": label}
    elements = Html(ElementTree.tostring(graph, encoding="unicode"))
    return tag("svg", elements, width=width, height=height, **look), width


def place_machine(machine: RewardMachine) -> dict[str, list[Any]]:
    """Lay out a machine for a page that draws it: positions are right and down from the upper left corner, in points.

    Each node has the middle, width and height of a state; each route has the control points of an edge's Bézier curve,
    the tip of its arrow, and the middle of its label.
    """
    _check_size("", machine)
    marks = _marks(machine, "m", choose_styles(machine.events))
    nodes, routes = [], []
    with _graphviz():
        graph = _laid_out("", marks)
        width, height = map(float, graph.graph_attr["bb"].split(",")[2:])

        def points(text: str) -> list[list[float]]:
            return [[round(float(right), 1), round(height - float(up), 1)] for right, up in POINT.findall(text)]

        for mark in marks:
            placed = _attributes(graph, mark)
            tip, *curve = points(placed["pos"])  # of an edge, the tip of the arrow comes first
            if "data-state" in mark.data:
                nodes.append([*tip, *(round(float(placed[side]) * POINTS, 1) for side in ("width", "height"))])
            elif "data-edge" in mark.data:
                is_reversed = not placed["pos"].startswith("e")
                route = curve[::-1] if is_reversed else curve
                routes.append({"curve": route, "tip": tip, "label": points(placed["lp"])[0]})
    return {"size": [round(width, 1), round(height, 1)], "nodes": nodes, "routes": routes}


def measure(texts: Iterable[str], size: float) -> dict[str, float]:
    """Measure the widths of texts in a size of the font, all in points."""
    looks = {text: {"label": literal(text, MAX_LINE), "shape": "plain", "fontsize": f"{size:g}"} for text in texts}
    marks = [Mark(f"text{number}", look) for number, look in enumerate(looks.values())]
    with _graphviz():
        graph = _graph(marks, {})
        graph.layout(prog="dot")
        widths = [float(graph.get_node(mark.name).attr["width"]) * POINTS for mark in marks]
    return dict(zip(looks, widths, strict=True))


class Drawing(NamedTuple):
    """Panels and machines, each machine under its title, and events that get their colours before theirs."""

    machines: Mapping[str, RewardMachine]
    before: Sequence[Panel] = ()
    events: Iterable[str] = ()
    support: Mapping[str, Support] = NONE  # of machines that were learnt, by title

    def write(self, path: str | Path) -> None:
        """Write the drawing to a file whose suffix is the format."""
        form = require_format(path)
        write_whole(Path(path), self.svg() if form == ".svg" else self.render(form)[0])

    def svg(self) -> str:
        """Return the text of an SVG, which is dark on dark pages."""
        return adapt(self.render(".svg")[0].decode())

    def render(self, form: str) -> tuple[bytes, Sequence[Mark]]:
        """Draw all panels; return the content of a file, and the marks."""
        machines, before = self.machines, self.before
        if not machines and not before:
            raise HocketError("a drawing needs at least one machine, got none")
        for title, machine in machines.items():
            _check_size(title, machine)
        styles = choose_styles([*self.events, *(event for machine in machines.values() for event in machine.events)])
        panels = [*before]
        with _graphviz():
            for number, (title, machine) in enumerate(machines.items()):
                panels.append(_lay_out(title, _marks(machine, f"m{number}", styles, self.support.get(title))))
            content = _render(panels, len(before), form)
        marks = [mark for panel in panels for mark in panel.marks]
        if form == ".svg":  # tooltips replace Graphviz's titles, which are the names of marks
            tooltips = {mark.name: f"<title>{_xml(mark.tooltip)}</title>\n" for mark in marks if mark.tooltip}
            titles = r'(<g id="([^"]*)" [^>]*>\n)<title>.*?</title>\n'
            content = re.sub(titles, lambda match: match[1] + tooltips.get(match[2], ""), content.decode()).encode()
        if form == ".pdf":
            content = re.sub(rb"(?<=CreationDate \(D:)\d{14}", b"20000101000000", content)
        return content, marks


def _check_size(title: str, machine: RewardMachine) -> None:
    states, transitions = len(machine.states), len(machine.graph.target)
    if states > MAX_STATES or transitions > MAX_TRANSITIONS:
        limit = f"at most {MAX_STATES:,} states and {MAX_TRANSITIONS:,} transitions"
        raise MachineError(f"{title!r} must have {limit} to be drawn, got {states:,} and {transitions:,}")


def _marks(machine: RewardMachine, prefix: str, styles: Styles, support: Support | None = None) -> list[Mark]:
    """List the marks of a machine; the arrow to the initial state starts from an invisible node."""
    nodes = {state: f"{prefix}s{number}" for number, state in enumerate(machine.states)}
    inside: dict[str, list[str]] = {}
    for name, members in boxes_of(machine).items():
        for state in members:
            inside.setdefault(state, []).append(name)
    start = Mark(f"{prefix}start", {"label": "", "shape": "point", "style": "invis", "width": "0.01"})
    arrow = Mark(f"{prefix}initial", {"color": INK}, (start.name, nodes[machine.initial]))
    states = []
    for number, (state, node) in enumerate(nodes.items()):
        members = machine.members[state]
        tooltip = state if members == (state,) else f"{state} = {{{', '.join(members)}}}"
        look = {"label": _broken(state), "peripheries": "2" if state in machine.final else "1"}
        if support is not None and (never := support.never_tried.get(state)):
            look["label"] += "\\n" + _broken(f"{', '.join(never)}?")
            tooltip += f"; never tried here: {', '.join(never)}"
        boxes = tuple(inside.get(state, ()))
        if boxes:
            look["label"] = _broken(label_in(boxes[-1], state))
        elif is_closed_box(machine, state):
            look |= CLOSED
        states.append(Mark(node, look, tooltip=tooltip, data={"data-state": str(number)}, boxes=boxes))
    return [start, *states, arrow, *_edges(machine, nodes, styles, support)]


def _broken(name: str) -> str:
    """Break a long name into lines: after bars, which the names of composed states have, or after blanks and commas."""
    short, lines = truncate(name, MAX_NAME), [""]
    for piece in re.findall(r"[^|]*[|]+|[^|]+$" if "|" in short else r"[^ ,]*[ ,]+|[^ ,]+$", short):
        if lines[-1] and len(lines[-1] + piece) > MAX_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\\n".join(map(literal, lines))


def _edges(
    machine: RewardMachine, nodes: Mapping[str, str], styles: Styles, support: Support | None = None
) -> Iterator[Mark]:
    """Merge the transitions between the same two states into one edge each."""
    merged: dict[tuple[str, str], dict[str, str]] = {}  # events, each with its reward or number of episodes
    for (state, event), target in machine.transitions.items():
        note = "" if machine.is_task_completion else f" / {machine.rewards[state, event] + 0.0:g}"
        if support is not None:
            episodes = support.episodes.get((state, event), 0)
            note = f" ×{episodes:,}" if episodes else ""
        merged.setdefault((state, target), {})[event] = note
    names = tuple(machine.states)
    numbers = {state: number for number, state in enumerate(names)}
    reached = {names[state]: rank for rank, state in enumerate(machine.reach.order.tolist())}
    for (state, target), events in merged.items():
        color, line = styles[next(iter(events))] if len(events) == 1 else (INK, "solid")
        look = {"label": _stacked(events, styles), "color": color, "style": line}
        if support is not None:
            episodes = max(support.episodes.get((state, event), 0) for event in events)
            look["penwidth"] = next(width for most, width in WIDTHS.items() if episodes <= most)
            look["style"] = "dashed" if episodes <= FEW else "solid"
        tooltip = f"{state} → {target}: {', '.join(event + note for event, note in events.items())}"
        ends = nodes[state], nodes[target]
        # Graphviz ranks along edges: edges that lead back are reversed, so that ranks follow distances from the start.
        if reached.get(target, len(names)) < reached.get(state, len(names)):
            ends, look["dir"] = ends[::-1], "back"
        data = {"data-edge": f"{numbers[state]}-{numbers[target]}"}
        yield Mark(f"{nodes[state]}to{nodes[target]}", look, ends, tooltip, data)


def _stacked(events: Mapping[str, str], styles: Styles) -> str:
    """Write events under each other, each in its colour, as one of Graphviz's HTML-like labels."""
    words = [f'<FONT COLOR="{styles[name][0]}">{literal(name)}{note}</FONT>' for name, note in events.items()]
    per_row = math.ceil(len(words) / MAX_ROWS)
    rows = "<BR/>".join(", ".join(words[first : first + per_row]) for first in range(0, len(words), per_row))
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="2"><TR><TD>{rows}</TD></TR></TABLE>>'


def literal(text: str, most: int = MAX_NAME) -> str:
    """Escape text so that Graphviz shows it as it is, in plain and in HTML-like labels; truncate it if it is long."""
    return _xml(truncate(text, most)).replace("\\", "\\\\")


def _xml(text: str) -> str:
    return html.escape(UNPRINTABLE.sub("\ufffd", text))


def _render(panels: Sequence[Panel], leading: int, form: str) -> bytes:
    """Draw panels, each in its frame; the first machine leads, too, if it has the most marks."""
    sizes = [(panel.size[0] + 2 * PADDING, panel.size[1] + 2 * PADDING) for panel in panels]
    first, *others = [len(panel.marks) for panel in panels[leading:]] or [0]
    leading += bool(others) and first > max(others)
    page: list[Mark] = []
    for panel, frame in zip(panels, arrange(sizes, leading), strict=True):
        color = FRAME if len(panels) > 1 else "transparent"
        page.append(box(f"frame{len(page)}", frame, {"style": "rounded", "color": color}))
        page += [moved(mark, frame[0] + PADDING, -frame[2] - PADDING - panel.size[1]) for mark in panel.marks]
    graph = _graph(page, {"bgcolor": "white", "margin": "0", "pad": "0.03"} | FORMATS[form])
    return bytes(graph.draw(format=form.removeprefix("."), prog="nop2"))


def box(name: str, frame: Frame, look: Mapping[str, str], tooltip: str = "") -> Mark:
    """Make a rectangle that fills a frame."""
    left, width, top, height = frame
    position = {"shape": "box", "fixedsize": "true", "pos": f"{left + width / 2:.2f},{-top - height / 2:.2f}"}
    size = {"width": f"{width / POINTS:.4f}", "height": f"{height / POINTS:.4f}", "label": ""}
    return Mark(name, {**position, **size, **look}, tooltip=tooltip)


def _lay_out(title: str, marks: Sequence[Mark]) -> Panel:
    """Let Graphviz place a title, unless it is empty, and the marks of a machine."""
    text = literal(title)
    graph = _laid_out(text, marks)
    placed, clusters = list[Mark](), {"": graph}
    for number, (name, (outer, cluster)) in enumerate(_nesting(marks).items()):
        clusters[name] = clusters[outer].get_subgraph(cluster)
        left, low, right, high = map(float, clusters[name].graph_attr["bb"].split(","))
        look = BOX | {"label": literal(name.split(INSIDE)[-1])}
        placed.append(box(f"{marks[0].name}box{number}", (left, right - left, -high, high - low), look, name))
    for mark in marks:
        attributes = _attributes(graph, mark)
        positions = {name: attributes[name] for name in POSITIONS if attributes[name]}
        placed.append(mark._replace(attributes={**mark.attributes, **positions}))
    right, top = map(float, graph.graph_attr["bb"].split(",")[2:])
    if not text:
        return Panel(placed, (right, top))
    half_width, half_height = (float(graph.graph_attr[name]) * POINTS / 2 for name in ("lwidth", "lheight"))
    look = {"pos": f"{half_width:.2f},{top - half_height:.2f}", "shape": "plain", "fontsize": TITLE_SIZE}
    return Panel([Mark(f"{marks[0].name}title", look | {"label": text}), *placed], (right, top))


def _laid_out(label: str, marks: Sequence[Mark]) -> Any:  # noqa: ANN401
    settings = {"label": label, "labelloc": "t", "rankdir": "LR", "ranksep": "0.35"}
    graph = _graph(marks, settings | (HASTE if len(marks) > MANY_MARKS else {}))
    clusters = {"": graph}
    for name, (outer, cluster) in _nesting(marks).items():
        inside = [mark.name for mark in marks if name in mark.boxes]
        clusters[name] = clusters[outer].add_subgraph(inside, cluster, label=literal(name), margin="6")
    graph.layout(prog="dot")
    return graph


def _attributes(graph: Any, mark: Mark) -> Any:  # noqa: ANN401
    return (graph.get_edge(*mark.ends, mark.name) if mark.ends else graph.get_node(mark.name)).attr


def _nesting(marks: Iterable[Mark]) -> dict[str, tuple[str, str]]:
    """List boxes, the outer ones first: the box around each, if there is one, and its name for Graphviz."""
    outer = {name: around for mark in marks for around, name in pairwise(("", *mark.boxes))}
    return {name: (around, f"cluster{number}") for number, (name, around) in enumerate(outer.items(), start=1)}


def moved(mark: Mark, right: float, up: float) -> Mark:
    """Move a mark."""

    def move(point: re.Match[str]) -> str:
        return f"{float(point[1]) + right:.2f},{float(point[2]) + up:.2f}"

    positions = {name: POINT.sub(move, mark.attributes[name]) for name in POSITIONS if name in mark.attributes}
    return mark._replace(attributes={**mark.attributes, **positions})


def _graph(marks: Iterable[Mark], settings: Mapping[str, str]) -> Any:  # noqa: ANN401
    try:
        import pygraphviz  # loads Graphviz, which only drawings need
    except ImportError as error:  # its wheel contains Graphviz, but not the libraries of a desktop
        raise HocketError(
            f"machines cannot be drawn: {error}; Graphviz needs some libraries of the system, on Debian and Ubuntu the "
            "packages libglib2.0-0, libxext6, libxrender1 and libexpat1"
        ) from None

    graph = pygraphviz.AGraph(name="machines", directed=True, strict=False)
    graph.graph_attr.update(fontname=FONT, fontsize=TITLE_SIZE, nodesep="0.3", **settings)
    graph.node_attr.update(fontname=FONT, fontsize="12", fontcolor=INK, color=INK, shape="ellipse")
    graph.node_attr.update(width="0.5", height="0.5", margin="0.03,0.01")
    graph.edge_attr.update(fontname=FONT, fontsize="11", fontcolor=INK, arrowsize="0.7")
    for mark in marks:
        if mark.ends:
            graph.add_edge(*mark.ends, key=mark.name, id=mark.name, **mark.attributes)
        else:
            graph.add_node(mark.name, id=mark.name, **mark.attributes)
    return graph


@contextmanager
def _graphviz() -> Iterator[None]:
    """Lock Graphviz, and drop what it and its libraries write to the process's standard error."""
    with _one_at_a_time, Path(os.devnull).open("wb") as sink:
        try:
            kept = os.dup(2)
        except OSError:  # there is none
            yield
            return
        os.dup2(sink.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
