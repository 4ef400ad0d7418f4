"""The schematic of training and execution, as an SVG that follows the colour scheme of its page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

WIDTH, HEIGHT = 1080, 372
STYLE = """
:root { color-scheme: light dark }
text { font: 14px Helvetica, Arial, sans-serif; text-anchor: middle; fill: light-dark(#222222, #e9e7e2) }
.title { font-weight: bold; font-size: 15px }
.small { font-size: 12px; fill: light-dark(#555555, #b9b7b0) }
.frame { fill: light-dark(#ffffff, #1c1f23); stroke: light-dark(#d0d0d0, #4a5058) }
.box { fill: light-dark(#f4f4f0, #2a2e34); stroke: light-dark(#333333, #e9e7e2) }
.machine { fill: light-dark(#e3eef6, #17384d); stroke: light-dark(#0072b2, #4c9cc9) }
.sync { fill: light-dark(#fff4d6, #3a3016); stroke: light-dark(#966900, #b08e3f) }
.arrow { fill: none; stroke: light-dark(#333333, #e9e7e2); stroke-width: 1.4; marker-end: url(#tip) }
#tip path { fill: light-dark(#333333, #e9e7e2) }
"""


def box(kind: str, x: float, y: float, width: float, height: float, *lines: str) -> Iterator[str]:
    """Draw a box around lines of text, by its middle."""
    left, top = x - width / 2, y - height / 2
    yield f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>'
    for number, line in enumerate(lines):
        down = y + 5 + 17 * (number - (len(lines) - 1) / 2)
        yield f'<text x="{x}" y="{down}"{" class=small" if number else ""}>{escape(line)}</text>'.replace(
            "class=small", 'class="small"'
        )


def arrow(path: str, label: str = "", x: float = 0, y: float = 0) -> Iterator[str]:
    yield f'<path class="arrow" d="{path}"/>'
    if label:
        yield f'<text class="small" x="{x}" y="{y}">{escape(label)}</text>'


def agent(policy: float, machine: float, y: float, name: str) -> Iterator[str]:
    """Draw an agent: its policy and its machine by their middles, and what goes between them."""
    side = 1 if policy < machine else -1
    yield from box("box", policy, y, 116, 50, f"policy of {name}", "for each state")
    yield from box("machine", machine, y, 126, 50, f"machine of {name}", "its projection")
    yield from arrow(
        f"M{machine - 63 * side} {y} H{policy + 61 * side}", "state", (policy + machine - 5 * side) / 2, y - 8
    )


def schematic() -> str:
    """Draw both settings: an agent alone with simulated teammates, and the team."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" markerWidth="9" markerHeight="9" refX="7" refY="4" orient="auto">'
        '<path d="M0 0L8 4L0 8Z"/></marker></defs>',
        '<rect class="frame" x="2" y="2" width="396" height="368" rx="10"/>',
        '<rect class="frame" x="410" y="2" width="668" height="368" rx="10"/>',
        '<text class="title" x="200" y="30">Training: each agent alone</text>',
        '<text class="title" x="744" y="30">Execution: the team</text>',
    ]
    parts += [*agent(115, 295, 80, "A1")]
    parts += [*box("sync", 295, 192, 176, 50, "simulated teammates", "ready with probability 0.3")]
    parts += [*box("box", 205, 320, 340, 50, "environment of A1 alone", "its cell; gates follow its own machine")]
    parts += [*arrow("M125 105 V293", "action", 152, 205), *arrow("M295 295 V219", "proposed events", 242, 262)]
    parts += [*arrow("M295 167 V107", "events that happen", 232, 142), *arrow("M85 295 V107", "cell", 66, 205)]
    for policy, machine, name in ((480, 650, "A1"), (1008, 838, "AN")):
        parts += [*agent(policy, machine, 80, name)]
        parts += [*arrow(f"M{policy + 10} 105 V293", "action", policy + 36, 205)]
        parts += [*arrow(f"M{policy - 20} 295 V107", "cell", policy - 36, 205), *arrow(f"M{machine} 167 V107")]
    parts += [
        '<text class="title" x="744" y="84">…</text>',
        '<text class="small" x="744" y="142">events that happen</text>',
    ]
    parts += [*box("sync", 744, 192, 320, 50, "synchronisation", "an event happens if all who know it propose it")]
    parts += [*box("box", 744, 320, 630, 50, "environment of the team", "all agents move at once")]
    parts += [*arrow("M650 295 V219"), *arrow("M838 295 V219", "proposed events", 744, 262)]
    parts += ["</svg>\n"]
    return "\n".join(parts)
