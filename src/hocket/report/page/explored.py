"""How the machine of a task was learnt by exploring, if the folder of runs says so."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from hocket.draw.markup import Html, tag
from hocket.errors import HocketError
from hocket.files import MEGABYTE, exists, read_text

LIMIT = 16 * MEGABYTE


def exploration_section(folder: Path | None) -> Html:
    """Show the machines that were learnt with their evidence, what it took, and what may be claimed.

    The drawing is an image, so that nothing in it can act on the page.
    """
    if folder is None or not exists(folder / "exploration" / "exploration.json"):
        return Html("")
    try:
        document = json.loads(read_text(folder / "exploration" / "exploration.json", LIMIT))
        drawing = read_text(folder / "exploration" / "machines.svg", LIMIT)
        summary, claim = (str(document[key]) for key in ("summary", "claim"))
    except (HocketError, OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        return tag("section", tag("p", f"What was learnt by exploring cannot be read: {error}", class_="note"))
    source = f"data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}"
    caption = (
        "The local machines that were learnt. ×n: n episodes show the transition; thin and dashed: few do. "
        "An event with a question mark was never tried in that state."
    )
    figure = tag(
        "figure",
        tag("img", src=source, alt="The machines that were learnt", style="max-width:100%"),
        tag("figcaption", caption),
    )
    heading = tag("h2", "The machine was learnt by exploring")
    honest = "Steps of exploring come before those of the learning curves of the explored task."
    return tag("section", heading, tag("p", summary), tag("p", honest), figure, tag("p", claim, class_="note"))
