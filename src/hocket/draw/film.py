"""Episodes as films: animated SVG, GIF, and MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from hocket.draw.geometry import side_by_side
from hocket.draw.map_svg import agent_radius, agent_svg, area_tags, map_svg, number_of, unit_of
from hocket.draw.markup import Html, tag
from hocket.draw.palette import INK
from hocket.draw.pixels import font_of, hatched, paint_disc, paint_ground
from hocket.draw.scene import Area, Moment, Scene
from hocket.errors import FormatError, SettingsError
from hocket.files import write_whole

STEP = 0.25  # seconds that a step takes
PAUSE = 6  # steps for which the end is shown
BETWEEN = 3  # frames of a step, in films of pixels
MOST_STEPS = 2_000  # of an episode
CAPTION = 28.0  # height of the line below the map, in units of the map
PIXELS = 1.2  # of a unit of the map
STYLE = (
    ".map{background:var(--paper);font-family:system-ui,sans-serif}"
    ".map .caption{fill:var(--ink);font-size:14px;text-anchor:start}"
)
HATCHING = Html(  # as on the pages
    '<pattern id="hatching" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V7"/></pattern>'
)


class WatchedEpisode(Protocol):
    """An episode that can be watched: a `Replay`."""

    @property
    def success(self) -> bool: ...

    @property
    def points(self) -> NDArray[np.float64]:
        """[T + 1, N, 2] across and down."""

    @property
    def states(self) -> Sequence[Sequence[str]]:
        """[T + 1][N] of the agents' machines."""

    @property
    def events(self) -> Sequence[tuple[int, str]]:
        """The step after which each event happened."""


def draw_episode(scene: Scene, episode: WatchedEpisode, path: str | Path) -> None:
    """Draw an episode as a film, by the suffix of the file: .svg, .gif, or .mp4, which needs ffmpeg."""
    path = Path(path)
    makers: dict[str, Callable[[Scene, WatchedEpisode], str | bytes]] = {".svg": film_svg, ".gif": _gif, ".mp4": _mp4}
    make = makers.get(path.suffix.lower())
    if make is None:
        raise FormatError(f"a film ends in {', '.join(makers)}", path=path)
    if len(episode.points) > MOST_STEPS + 1:
        raise SettingsError(f"a film has at most {MOST_STEPS:,} steps, got {len(episode.points) - 1:,}")
    write_whole(path, make(scene, episode))


def captions(episode: WatchedEpisode) -> list[tuple[int, str]]:
    """Say what happened, and from which step on that is shown."""
    happened: dict[int, list[str]] = {}
    for step, event in episode.events:
        happened.setdefault(step, []).append(event)
    said = {0: "start", **{step: f"step {step}: {', '.join(events)}" for step, events in happened.items()}}
    last = len(episode.points) - 1
    said[last] = f"{said.get(last, f'step {last}')}{'' if episode.success else ' (not completed)'}"
    return sorted(said.items())


def _closed(scene: Scene, episode: WatchedEpisode) -> list[set[Area]]:
    """Find which areas are closed after each step."""
    return [{*scene.closed(Moment({}, dict(zip(scene.agents, states, strict=True))))} for states in episode.states]


# As SVG.


def film_svg(scene: Scene, episode: WatchedEpisode) -> str:
    """Animate the map of the pages: agents move, gates open, and a line says what happens; no script is needed."""
    unit, disc = unit_of(scene), agent_radius(scene)
    steps = len(episode.points) - 1 + PAUSE
    timing = {"dur": f"{steps * STEP:g}s", "repeatCount": "indefinite"}
    rows = [list(side_by_side([(x, y) for x, y in points], disc / unit)) for points in episode.points.tolist()]
    agents = []
    for place, name in enumerate(scene.agents):
        ways = [(row[place][0] * unit, row[place][1] * unit) for row in rows]
        moves = [_transform("translate", [f"{x:.4g} {y:.4g}" for x, y in ways], timing)]
        if any(row[place][2] < 1 for row in rows):
            moves.append(_transform("scale", [f"{row[place][2]:.3g}" for row in rows], timing))
        agents.append(agent_svg(scene, name, disc, *moves))
    said = captions(episode)
    ends = [step for step, _ in said[1:]] + [steps]
    below = scene.height * unit + CAPTION / 2
    lines = [
        tag("text", text, _shown(begin / steps, end / steps, timing), class_="caption", x=4, y=below)
        for (begin, text), end in zip(said, ends, strict=True)
    ]
    style = tag("style", Html(_page_style() + _gate_style(scene, episode, steps)))
    defined = tag("defs", HATCHING, class_="definitions")
    xmlns = "http://www.w3.org/2000/svg"
    return map_svg(scene, (), style, defined, *agents, *lines, foot=CAPTION, xmlns=xmlns) + "\n"


@cache
def _page_style() -> str:
    """Take the look of maps and agents from the style of the pages, in the colours of light ones."""
    shared = (files("hocket.draw") / "web" / "shared.css").read_text(encoding="utf-8")
    colors = dict(re.findall(r"(--[\w-]+): light-dark\((#\w+)", shared))
    rules = [*re.findall(r"^\.(?:map|agent|definitions) [.a-z].*", shared, re.MULTILINE), STYLE]
    return re.sub(r"var\((--[\w-]+)\)", lambda match: colors.get(match[1], match[0]), "".join(rules))


def _transform(kind: str, values: Sequence[str], timing: dict[str, str]) -> Html:
    """Move or scale an element from step to step; the last value stays for a pause."""
    each = ";".join([*values, *[values[-1]] * PAUSE])
    look = {"attributeName": "transform", "type": kind, "additive": "sum", "values": each}
    return tag("animateTransform", **look, **timing)


def _shown(begin: float, end: float, timing: dict[str, str]) -> Html:
    """Show an element for a part of the film."""
    marks = [(0.0, "hidden"), (begin, "visible"), (end, "hidden")]
    marks = marks[1:] if begin <= 0 else marks
    kept = [mark for mark in marks if mark[0] < 1]
    times, values = ";".join(f"{time:g}" for time, _ in kept), ";".join(value for _, value in kept)
    return tag("animate", attributeName="visibility", calcMode="discrete", keyTimes=times, values=values, **timing)


def _gate_style(scene: Scene, episode: WatchedEpisode, steps: int) -> str:
    """Show and hide what closes an area, by CSS."""
    closed, rules = _closed(scene, episode), []
    for number, area in enumerate(scene.areas):
        if area.gates:
            changes = [
                f"{100 * step / steps:.4g}%{{visibility:{'visible' if area in now else 'hidden'}}}"
                for step, now in enumerate(closed)
                if step == 0 or (area in now) != (area in closed[step - 1])
            ]
            rules.append(f"@keyframes gate{number}{{{''.join(changes)}}}")
            look = f"display:inline;animation:gate{number} {steps * STEP:g}s step-end infinite"
            rules.append(f'.map [data-area="{number}"] .closed{{{look}}}')
    return "".join(rules)


# As pixels.


def frames(scene: Scene, episode: WatchedEpisode) -> Iterator[Image.Image]:
    """Paint the frames of a film, `BETWEEN` for each step."""
    scale, disc = PIXELS * unit_of(scene), agent_radius(scene) / unit_of(scene)
    width, height = (2 * round(side / 2) for side in (scene.width * scale, scene.height * scale + CAPTION))
    ground, said = paint_ground(scene, scale, (width, height)), dict(captions(episode))
    masks = {area: hatched(area, scale, (width, height)) for area in scene.areas if area.gates}
    closed, caption, points = _closed(scene, episode), said[0], episode.points
    for step in range(len(points)):
        caption = said.get(step, caption)
        image = np.array(ground)
        for area in closed[step]:
            image[masks[area]] -= image[masks[area]] // 3
        floor = Image.fromarray(image)
        for text, x, y, size in area_tags(scene):
            font = font_of(round(PIXELS * size))
            ImageDraw.Draw(floor).text((PIXELS * x, PIXELS * y), text, fill=INK, font=font, anchor="mm")
        moves = BETWEEN if step + 1 < len(points) else 1
        for part in range(moves):
            frame, share = floor.copy(), part / moves
            here = points[step] if not part else (1 - share) * points[step] + share * points[step + 1]
            spots = side_by_side([(x, y) for x, y in here.tolist()], disc)
            for name, spot in zip(scene.agents, spots, strict=True):
                paint_disc(frame, spot, disc, scale, number_of(scene, name), scene.colors[name])
            place = (6, scene.height * scale + 5)
            ImageDraw.Draw(frame).text(place, caption, fill=INK, font=font_of(15))
            yield frame


def _gif(scene: Scene, episode: WatchedEpisode) -> bytes:
    first, *others = [frame.quantize(128) for frame in frames(scene, episode)]
    durations = [round(1000 * STEP / BETWEEN)] * len(others) + [round(1000 * STEP * PAUSE)]
    buffer = io.BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=durations, loop=0)
    return buffer.getvalue()


def _mp4(scene: Scene, episode: WatchedEpisode) -> bytes:
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        raise SettingsError("an .mp4 needs ffmpeg, which is not installed; .gif and .svg do without")
    painted = list(frames(scene, episode))
    painted += [painted[-1]] * (PAUSE * BETWEEN)
    size = "x".join(map(str, painted[0].size))
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder, "film.mp4")
        reads = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", f"{BETWEEN / STEP:g}", "-i", "-"]
        command = [ffmpeg, "-v", "error", *reads, "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(film)]
        pixels = b"".join(frame.tobytes() for frame in painted)
        done = subprocess.run(command, input=pixels, capture_output=True, check=False)
        if done.returncode or not film.exists():
            said = (done.stderr.decode(errors="replace").strip() or "it wrote nothing").splitlines()[-1]
            raise SettingsError(f"ffmpeg could not make the film: {said}")
        return film.read_bytes()
