"""Episodes as films: animated SVG, GIF, and MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hocket.draw.geometry import side_by_side
from hocket.draw.map_svg import MARGIN, XMLNS, agent_radius, agent_svg, map_svg, page_look, unit_of
from hocket.draw.markup import Html, tag
from hocket.draw.pixels import MapPainter
from hocket.draw.scene import Area, Moment, Scene
from hocket.errors import FormatError, SettingsError
from hocket.files import write_whole
from hocket.study.records import Replay, changes_of

STEP = 0.25  # seconds that a step takes
PAUSE = 6  # steps for which the end is shown
BETWEEN = 3  # frames of a step, in films of pixels
MOST_STEPS = 2_000  # of an episode
CAPTION = 28.0  # height of the line below the map, in units of the map
PIXELS = 1.2  # of a unit of the map


def draw_episode(scene: Scene, episode: Replay, path: str | Path) -> None:
    """Draw an episode as a film, by the suffix of the file: .svg, .gif, or .mp4, which needs ffmpeg."""
    makers: dict[str, Callable[[Scene, Replay], str | bytes]] = {".svg": film_svg, ".gif": _gif, ".mp4": _mp4}
    make = makers.get(Path(path).suffix.lower())
    if make is None:
        raise FormatError(f"a film ends in {', '.join(makers)}", path=path)
    if len(episode.points) > MOST_STEPS + 1:
        raise SettingsError(f"a film has at most {MOST_STEPS:,} steps, got {len(episode.points) - 1:,}")
    write_whole(Path(path), make(scene, episode))


def captions(episode: Replay) -> list[tuple[int, str]]:
    """List captions for the events, each with the step from which it is shown."""
    happened: dict[int, list[str]] = {}
    for step, event in episode.events:
        happened.setdefault(step, []).append(event)
    texts = {0: "start", **{step: f"step {step}: {', '.join(events)}" for step, events in happened.items()}}
    last = len(episode.points) - 1
    texts[last] = f"{texts.get(last, f'step {last}')}{'' if episode.success else ' (not completed)'}"
    return sorted(texts.items())


def _closed(scene: Scene, episode: Replay) -> list[frozenset[Area]]:
    moments = [Moment({}, dict(zip(scene.agents, states, strict=True))) for states in episode.states]
    return [frozenset(scene.closed(moment)) for moment in moments]


def _drawn_points(scene: Scene, episode: Replay) -> NDArray[np.float64]:
    """Compute right, down and relative size of each agent after each step [T + 1, N, 3]."""
    radius = agent_radius(scene) / unit_of(scene)
    return np.array([[*side_by_side([(x, y) for x, y in points], radius)] for points in episode.points.tolist()])


def film_svg(scene: Scene, episode: Replay) -> str:
    """Animate the map of the pages without scripts: agents move, gates open, and captions name the events."""
    unit, disc = unit_of(scene), agent_radius(scene)
    steps = len(episode.points) - 1 + PAUSE
    timing = {"dur": f"{steps * STEP:g}s", "repeatCount": "indefinite"}
    agents = []
    for name, points in zip(scene.agents, _drawn_points(scene, episode).swapaxes(0, 1).tolist(), strict=True):
        moves = [_transform("translate", [f"{x * unit:.4g} {y * unit:.4g}" for x, y, _ in points], timing)]
        if any(size < 1 for *_, size in points):
            moves.append(_transform("scale", [f"{size:.3g}" for *_, size in points], timing))
        agents.append(agent_svg(scene, name, disc, *moves))
    below, lines = scene.height * unit + CAPTION / 2, []
    for (begin, text), (end, _) in pairwise([*captions(episode), (steps, "")]):
        shown = _shown(begin / steps, end / steps, timing)
        lines.append(tag("text", text, shown, class_="caption", x=4, y=below))
    gates = tag("style", Html(_gate_style(scene, episode, steps)))
    view = -MARGIN, -MARGIN, scene.width * unit + 2 * MARGIN, scene.height * unit + 2 * MARGIN + CAPTION
    return map_svg(scene, (), page_look(), gates, *agents, *lines, view=view, xmlns=XMLNS) + "\n"


def _transform(kind: str, values: Sequence[str], timing: dict[str, str]) -> Html:
    """Move or scale an element from step to step; the last value is kept in the pause."""
    each = ";".join([*values, *[values[-1]] * PAUSE])
    look = {"attributeName": "transform", "type": kind, "additive": "sum", "values": each}
    return tag("animateTransform", **look, **timing)


def _shown(begin: float, end: float, timing: dict[str, str]) -> Html:
    marks = [(0.0, "hidden"), (begin, "visible"), (end, "hidden")][begin <= 0 :]
    kept = [mark for mark in marks if mark[0] < 1]
    times, values = ";".join(f"{time:g}" for time, _ in kept), ";".join(value for _, value in kept)
    return tag("animate", attributeName="visibility", calcMode="discrete", keyTimes=times, values=values, **timing)


def _gate_style(scene: Scene, episode: Replay, steps: int) -> str:
    closed, rules = _closed(scene, episode), []
    for number, area in enumerate(scene.areas):
        if area.gates:
            looks = changes_of(["visible" if area in now else "hidden" for now in closed])
            changes = [f"{100 * step / steps:.4g}%{{visibility:{look}}}" for step, look in looks]
            rules.append(f"@keyframes gate{number}{{{''.join(changes)}}}")
            animated = f"display:inline;animation:gate{number} {steps * STEP:g}s step-end infinite"
            rules.append(f'.map [data-area="{number}"] .closed{{{animated}}}')
    return "".join(rules)


def frames(scene: Scene, episode: Replay, begin: int = 0) -> Iterator[Image.Image]:
    """Paint the frames of a film one by one, `BETWEEN` for each step from `begin` on."""
    painter = MapPainter(scene, PIXELS, MARGIN, CAPTION)
    points, texts, caption = _drawn_points(scene, episode), dict(captions(episode)), ""
    for step, closed in enumerate(_closed(scene, episode)):
        caption = texts.get(step, caption)
        here, there = points[step], points[min(step + 1, len(points) - 1)]
        for part in range(0 if step < begin else BETWEEN if step + 1 < len(points) else 1):
            now = here + part / BETWEEN * (there - here)
            yield painter.paint(dict(zip(scene.agents, now.tolist(), strict=True)), closed, caption)


def _gif(scene: Scene, episode: Replay) -> bytes:
    steps = len(episode.points) - 1
    ends = [next(frames(scene, episode, step)) for step in (0, steps)]  # before gates opened, and after
    both = Image.new("RGB", (ends[0].width, 2 * ends[0].height))
    for number, end in enumerate(ends):
        both.paste(end, (0, number * end.height))
    palette = both.quantize(128)
    drawn = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames(scene, episode))
    durations = [round(1000 * STEP / BETWEEN)] * (steps * BETWEEN) + [round(1000 * STEP * PAUSE)]
    buffer = io.BytesIO()
    next(drawn).save(buffer, "GIF", save_all=True, append_images=drawn, duration=durations, loop=0)
    return buffer.getvalue()


def _mp4(scene: Scene, episode: Replay) -> bytes:
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        raise SettingsError("an .mp4 needs ffmpeg, which is not installed; .gif and .svg do without")
    last = next(frames(scene, episode, len(episode.points) - 1))
    width, height = (side - side % 2 for side in last.size)  # even, as players require
    with tempfile.TemporaryDirectory() as folder:
        film, errors = Path(folder, "film.mp4"), Path(folder, "errors")
        reads = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {BETWEEN / STEP:g} -i -".split()
        command = [ffmpeg, "-v", "error", *reads, "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(film)]
        with (
            suppress(BrokenPipeError),  # ffmpeg has written the reason
            errors.open("wb") as log,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log) as process,
            cast(BinaryIO, process.stdin) as pixels,
        ):
            for frame in chain(frames(scene, episode), repeat(last, PAUSE * BETWEEN)):
                pixels.write(frame.crop((0, 0, width, height)).tobytes())
        if process.returncode or not film.exists():
            reason = errors.read_text(errors="replace").strip() or "it wrote nothing"
            raise SettingsError(f"ffmpeg could not make the film: {reason.splitlines()[-1]}")
        return film.read_bytes()
