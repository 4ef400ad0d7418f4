"""Films of episodes: what they show, in which files, and what is refused."""

import os
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.resources import files
from io import BytesIO
from weakref import WeakValueDictionary

import numpy as np
import pytest
from PIL import Image, ImageSequence

import hocket as hk
from hocket.cli.play import played_episode
from hocket.draw.map_svg import HATCHING, MARGIN, XMLNS, area_tags, map_svg, page_look, unit_of
from hocket.draw.markup import tag
from hocket.draw.pixels import rasterise
from hocket.draw.scene import Moment
from hocket.learn.policies import reference_teammates
from hocket.report import film
from studies import drift_review, drift_scene

SVG = "{http://www.w3.org/2000/svg}"


def buttons():
    task = hk.load_task("buttons")
    return played_episode(task, reference_teammates(task, "optimal"), seed=0, steps=100)


def drifting():
    scene = drift_scene()
    return scene, drift_review(scene).replays["softmax"]


def test_an_svg_moves_every_agent_along_its_way_and_says_what_happens():
    scene, episode = buttons()
    root = ElementTree.fromstring(film.film_svg(scene, episode))
    moves = root.findall(f".//{SVG}animateTransform[@type='translate']")
    assert len(moves) == 3
    for place, move in enumerate(moves):
        ways = [tuple(map(float, value.split())) for value in move.get("values").split(";")]
        assert len(ways) == len(episode.points) + film.PAUSE
        unit = 400 / max(scene.width, scene.height)
        alone = [  # who shares a cell stands beside its middle
            step for step, points in enumerate(episode.points.tolist()) if points.count(points[place]) == 1
        ]
        expected = episode.points[alone, place] * unit
        np.testing.assert_allclose(np.array(ways)[alone], expected, rtol=1e-3)
    sizes = root.findall(f".//{SVG}animateTransform[@type='scale']")
    assert len(sizes) == 2  # of those who meet on the red button
    said = [text.text for text in root.findall(f"{SVG}text[@class='caption']")]
    assert said[0] == "start" and any("Y" in line for line in said)
    assert {step for step, _ in film.captions(episode)} == {0, *(step for step, _ in episode.events)}
    gates = root.findall(f"{SVG}style")[1].text
    assert gates.count("@keyframes gate") == sum(bool(area.gates) for area in scene.areas) > 0


@pytest.mark.parametrize("filmed", [buttons, drifting])
def test_an_svg_has_the_map_and_the_look_of_the_pages(filmed):
    scene, episode = filmed()
    made = film.film_svg(scene, episode)
    _, ground = map_svg(scene, ()).removesuffix("</svg>").split(">", 1)
    assert ground in made
    for page in (files("hocket.report") / "document.html", files("hocket.studio") / "page" / "index.html"):
        assert HATCHING in page.read_text(encoding="utf-8") and HATCHING in made
    root = ElementTree.fromstring(made)
    rules = dict(re.findall(r"(\.[^{}]+?) ?\{ ?(.+?) ?\}", root.find(f"{SVG}style").text))
    assert rules[".map .floor"] == "fill: #f6f5f1;" and rules[".map .wall"].startswith("fill: #4f4f4c;")
    assert not {*re.findall(r"var\((.+?)\)", made)} - {"--color"}  # which no map has by itself
    assert len(root.findall(f".//{SVG}svg")) == 0  # one clock for all that moves


@pytest.mark.parametrize("filmed", [buttons, drifting])
def test_a_frame_of_pixels_is_the_map_of_the_pages_with_its_agents(filmed):
    """The oracle draws all of a frame as one SVG: ground, agents and what is said."""
    scene, episode = filmed()
    for step, frame in list(enumerate(film.frames(scene, episode)))[:: 6 * film.BETWEEN]:
        states = episode.states[step // film.BETWEEN]
        closed = scene.closed(Moment({}, dict(zip(scene.agents, states, strict=True))))
        said = [text for since, text in film.captions(episode) if since <= step // film.BETWEEN][-1]
        height = scene.height * unit_of(scene)
        caption = tag("text", said, class_="caption", x=4, y=height + film.CAPTION / 2)
        width, height = (side / film.PIXELS for side in frame.size)
        starts = [(x, y) for x, y in episode.points[step // film.BETWEEN].tolist()]
        look = {"width": f"{frame.width}", "height": f"{frame.height}", "xmlns": XMLNS}
        view = (-MARGIN, -MARGIN, width, height)
        whole = map_svg(scene, starts, page_look(), caption, closed=closed, view=view, **look)
        expected = np.asarray(rasterise(whole, "#ffffff").convert("RGB"), int)
        differences = np.abs(np.asarray(frame, int) - expected).max(axis=2)
        assert (differences > 60).mean() < 0.001 and (differences > 8).mean() < 0.01  # places are rounded to a quarter


def test_letters_are_drawn_where_no_font_is_installed(tmp_path):
    """Only the fonts that come with matplotlib are used, so that an empty folder of fonts changes nothing."""
    code = (
        "import sys; from test_film import buttons, film;"
        "sys.stdout.buffer.write(next(film.frames(*buttons())).tobytes())"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    (tmp_path / "fonts.conf").write_text("<fontconfig/>")
    environment["FONTCONFIG_FILE"] = str(tmp_path / "fonts.conf")
    drawn = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
    scene, episode = buttons()
    frame = next(film.frames(scene, episode))
    assert frame.tobytes() == drawn
    spots = {text: (x, y) for text, x, y, _ in area_tags(scene)}
    x, y = (film.PIXELS * (part + MARGIN) for part in spots["r"])
    letter = np.asarray(frame.crop((round(x) - 10, round(y) - 10, round(x) + 10, round(y) + 10)), int)
    assert (letter.sum(axis=2) < 3 * 40).any()  # black upon the hatching of what is closed


def test_a_gif_has_three_frames_for_each_step_and_ends_with_a_pause(tmp_path):
    scene, episode = buttons()
    hk.draw_episode(scene, episode, tmp_path / "episode.gif")
    with Image.open(tmp_path / "episode.gif") as image:
        frames = [frame.convert("RGB").copy() for frame in ImageSequence.Iterator(image)]
        durations = [frame.info.get("duration") for frame in ImageSequence.Iterator(image)]
    assert len(frames) <= film.BETWEEN * (len(episode.points) - 1) + 1  # frames that are the same may be joined
    assert sum(durations) >= 1000 * film.STEP * (len(episode.points) - 1)
    first, last = (np.asarray(frame) for frame in (frames[0], frames[-1]))
    x, y = (np.array(episode.points[0, 0]) * film.PIXELS * 400 / max(scene.width, scene.height)).round().astype(int)
    assert (first[y - 8 : y + 8, x - 8 : x + 8] != last[y - 8 : y + 8, x - 8 : x + 8]).any()


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_long_film_is_written_frame_by_frame(tmp_path, monkeypatch, suffix):
    """At most some frames are there at a time, as a failed episode of a thousand steps has three thousand."""
    (tmp_path / "ffmpeg").write_text('#!/bin/sh\nfor last; do :; done\n/usr/bin/wc -c > "$last"\n')
    (tmp_path / "ffmpeg").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    painted, most = WeakValueDictionary(), 0
    paint = film.MapPainter.paint

    def counted(self, *arguments):
        nonlocal most
        image = paint(self, *arguments)
        painted[id(image)] = image
        most = max(most, len(painted))
        return image

    monkeypatch.setattr(film.MapPainter, "paint", counted)
    hk.draw_episode(*buttons(), tmp_path / f"episode{suffix}")
    assert most < 8


@pytest.mark.parametrize("suffix", [".svg", ".gif"])
def test_a_world_without_cells_is_filmed_too(tmp_path, suffix):
    hk.draw_episode(*drifting(), tmp_path / f"drift{suffix}")
    content = (tmp_path / f"drift{suffix}").read_bytes()
    if suffix == ".svg":
        ElementTree.fromstring(content)
    else:
        assert Image.open(BytesIO(content)).n_frames > 20


def test_an_mp4_is_made_by_ffmpeg_or_refused_without_it(tmp_path, monkeypatch):
    scene, episode = buttons()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hk.HocketError, match="needs ffmpeg, which is not installed"):
        hk.draw_episode(scene, episode, tmp_path / "episode.mp4")
    fake = tmp_path / "ffmpeg"
    fake.write_text('#!/bin/sh\nfor last; do :; done\nprintf "%s " "$@" > "$last"\n/usr/bin/wc -c >> "$last"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    hk.draw_episode(scene, episode, tmp_path / "episode.mp4")
    said = (tmp_path / "episode.mp4").read_text().split()
    width, height = map(int, said[said.index("-s") + 1].split("x"))
    shown = film.BETWEEN * (len(episode.points) - 1) + 1 + film.PAUSE * film.BETWEEN
    assert int(said[-1]) == width * height * 3 * shown and width % 2 == height % 2 == 0
    fake.write_text("#!/bin/sh\necho broken pipe >&2\nexit 1\n")
    with pytest.raises(hk.HocketError, match="ffmpeg could not make the film: broken pipe"):
        hk.draw_episode(scene, episode, tmp_path / "other.mp4")
    assert not (tmp_path / "other.mp4").exists()


def test_what_cannot_be_filmed_is_refused(tmp_path):
    scene, episode = buttons()
    with pytest.raises(hk.HocketError, match=r"a film ends in .svg, .gif, .mp4"):
        hk.draw_episode(scene, episode, tmp_path / "episode.avi")
    long = episode._replace(points=np.repeat(episode.points, 200, axis=0))
    with pytest.raises(hk.HocketError, match="at most 2,000 steps"):
        hk.draw_episode(scene, long, tmp_path / "episode.svg")


def test_the_command_films_a_task_and_a_folder_of_runs(hocket, tmp_path):
    folder = tmp_path / "runs"
    (run,) = hk.train("buttons", "dqprm", seeds=1, steps=3_000)
    hk.save_runs("buttons", [run], folder)
    for target, more in (("buttons", ["--with", str(folder), "--steps", "60"]), (str(folder), [])):
        code, out, _ = hocket("play", target, *more, "-o", tmp_path / "episode.svg")
        assert code in (0, 1) and "ompleted in" in out
        ElementTree.parse(tmp_path / "episode.svg")
    (tmp_path / "empty").mkdir()
    code, _, said = hocket("play", tmp_path / "empty", "-o", tmp_path / "no.svg")
    assert code == 2 and "no episode that was kept" in said
