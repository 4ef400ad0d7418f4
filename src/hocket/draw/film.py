"""Episodes as films: animated SVG, GIF, and MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from hocket.draw.geometry import side_by_side
from hocket.draw.map_svg import agent_radius, map_svg, number_of, unit_of
from hocket.draw.markup import Html, tag
from hocket.draw.palette import FLOOR, INK, WALL
from hocket.draw.pixels import font_of, hatched, paint_disc, paint_ground, rgb
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
    f".floor{{fill:{FLOOR}}}.wall{{fill:{WALL}}}"
    ".border{fill:none;stroke:#999}.closed{fill:url(#hatching)}.lines{fill:none;stroke:#0002}"
    "text{font:600 12px sans-serif;text-anchor:middle;dominant-baseline:central}.caption{text-anchor:start}"
    ".agent circle{stroke:#fff}.agent text{fill:#fff}"
)
HATCHING = tag(
    "pattern", tag("path", d="M0 8L8 0", stroke=INK), id="hatching", width=8, height=8, patternUnits="userSpaceOnUse"
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
    return [*said.items(), (last, f"{said.get(last, f'step {last}')}{'' if episode.success else ' (not completed)'}")]


def _closed(scene: Scene, episode: WatchedEpisode) -> list[set[Area]]:
    """Find which areas are closed after each step."""
    return [{*scene.closed(Moment({}, dict(zip(scene.agents, states, strict=True))))} for states in episode.states]


# As SVG.


def film_svg(scene: Scene, episode: WatchedEpisode) -> str:
    """Animate the map: agents move, gates open, and a line says what happens; no script is needed."""
    unit, disc = unit_of(scene), agent_radius(scene)
    steps = len(episode.points) - 1 + PAUSE
    timing = {"dur": f"{steps * STEP:g}s", "repeatCount": "indefinite"}
    rows = [list(side_by_side([(x, y) for x, y in points], disc / unit)) for points in episode.points.tolist()]
    agents = []
    for place, name in enumerate(scene.agents):
        ways = [(row[place][0] * unit, row[place][1] * unit) for row in rows]
        values = ";".join(f"{x:.4g} {y:.4g}" for x, y in [*ways, *[ways[-1]] * PAUSE])
        moves = tag("animateTransform", attributeName="transform", type="translate", values=values, **timing)
        body = tag("circle", r=disc * min(row[place][2] for row in rows), fill=scene.colors[name])
        agents.append(tag("g", tag("title", name), body, tag("text", number_of(scene, name)), moves, class_="agent"))
    said = captions(episode)
    ends = [step for step, _ in said[1:]] + [steps]
    lines = [
        tag("text", text, _shown(begin / steps, end / steps, timing), class_="caption", x=4, y=height_of(scene) + 14)
        for (begin, text), end in zip(said, ends, strict=True)
    ]
    width, height = scene.width * unit + 4, height_of(scene) + CAPTION
    shown_as = f'<svg width="{width:g}" height="{height_of(scene):g}"'
    plain = map_svg(scene, ()).removesuffix("</svg>").replace("<svg", shown_as, 1)
    inside = Html(f"{plain}{''.join(agents)}</svg>")
    style = tag("style", Html(STYLE + _gate_style(scene, episode, steps)))
    view = f"0 0 {width:g} {height:g}"
    return (
        tag("svg", style, tag("defs", HATCHING), inside, *lines, xmlns="http://www.w3.org/2000/svg", viewBox=view)
        + "\n"
    )


def height_of(scene: Scene) -> float:
    """Say how high the map is, in its units."""
    return scene.height * unit_of(scene) + 4


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
            look = f"animation:gate{number} {steps * STEP:g}s step-end infinite"
            rules.append(f'[data-area="{number}"] .closed{{{look}}}')
    return "".join(rules)


# As pixels.


def frames(scene: Scene, episode: WatchedEpisode) -> Iterator[Image.Image]:
    """Paint the frames of a film, `BETWEEN` for each step."""
    scale, disc = PIXELS * unit_of(scene), agent_radius(scene) / unit_of(scene)
    width, height = (2 * round(side / 2) for side in (scene.width * scale, scene.height * scale + CAPTION))
    ground, said = paint_ground(scene, scale, (width, height)), dict(captions(episode))
    for area in scene.areas:
        if area.tag and area.shapes:
            x, y = area.shapes[0].middle
            ImageDraw.Draw(ground).text((x * scale, y * scale), area.tag, fill=INK, font=font_of(16), anchor="mm")
    masks = {area: hatched(area, scale, (width, height)) for area in scene.areas if area.gates}
    closed, caption, points = _closed(scene, episode), said[0], episode.points
    for step in range(len(points)):
        caption = said.get(step, caption)
        image = np.array(ground)
        for area in closed[step]:
            image[masks[area]] = rgb(INK)
        moves = BETWEEN if step + 1 < len(points) else 1
        for part in range(moves):
            frame, share = Image.fromarray(image), part / moves
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
