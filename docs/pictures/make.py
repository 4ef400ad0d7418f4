"""Make the pictures of these pages anew, all of them or those that are named:

    python docs/pictures/make.py [NAME.svg|NAME.png ...]

Drawings need nothing but hocket. Pages are looked at in Chromium by playwright, which the extra `test` installs.
"""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from importlib import resources
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import Any

import hocket as hk
from hocket.cli.main import run

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent
LEARNERS = ("sweep", "dqprm", "hil", "iql", "optimal")

PICTURE = re.compile(r"\(pictures/([\w-]+)\.svg\)")
FILE = re.compile(r"^```toml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CELL = re.compile(r"^```{code-cell}\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Make = Callable[[Path], None]


def shown_in(page: str) -> list[str]:
    """List the pictures of a page, by their names, in its order."""
    return PICTURE.findall((DOCS / page).read_text(encoding="utf-8"))


# Drawings.


def draw_team_and_projections(path: Path) -> None:
    """Draw the team machine of buttons, and the projections of all agents."""
    task = hk.load_task("buttons")
    hk.draw_machines({"team": task.machine, **task.machines}, path)


def draw_world(path: Path) -> None:
    """Draw what a run has learnt of the map of buttons so far."""
    hk.draw_world(hk.train("buttons", seeds=1, steps=2_000)[0].world, path)


def draw_calls(path: Path) -> None:
    """Draw a machine that calls two others, with open boxes or, where the name says so, with closed ones."""
    moves = {("empty", "get ore"): "loaded", ("loaded", "drop"): "empty", ("loaded", "put"): "stored"}
    fetch = hk.RewardMachine(initial="empty", transitions=moves, final=["stored"])
    moves = {("start", "fetch"): "build", ("start", "rest"): "done", ("build", "build"): "done"}
    day = hk.RewardMachine(initial="start", transitions=moves, final=["done"])
    machine = hk.unfold(day, {"fetch": fetch, "build": hk.sequence("saw", "nail")})
    hk.draw_machines({"": machine}, path, closed="closed" in path.stem)


def draw_task(name: str) -> Make:
    """Draw a task that comes with hocket, as `hocket show` does."""

    def draw(path: Path) -> None:
        run(["show", name, "-o", str(path)])

    return draw


def formula_tasks() -> Iterator[tuple[str, hk.Task]]:
    """Make the tasks of the page on formulas, each with the name of the picture below it, by the page's own code."""
    pieces = doctest.DocTestParser().parse((DOCS / "formulas.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {"hk": hk}
    words: list[str | list[str]] = []
    for piece in pieces:
        if isinstance(piece, str):
            yield from ((name, names["make_task"](*words)) for name in PICTURE.findall(piece))
        elif "make_task" not in names and re.match(r"import|from|def|[A-Z]+ =", piece.source):
            exec(piece.source, names)  # the page is ours, and its examples are tested
        else:
            calls = (own for own in ast.walk(ast.parse(piece.source)) if isinstance(own, ast.Call))
            made = [own for own in calls if isinstance(own.func, ast.Name) and own.func.id == "make_task"]
            words = [ast.literal_eval(word) for own in made for word in own.args] or words


def draw_formula(name: str) -> Make:
    """Draw the machines of a task of the page on formulas; a team machine that is a composition is not drawn."""

    def draw(path: Path) -> None:
        task = dict(formula_tasks())[name]
        team = {"team": task.machine} if isinstance(task.machine, hk.RewardMachine) else {}
        hk.draw_machines({**team, **task.machines}, path)

    return draw


def blocks_of(page: str) -> dict[str, str]:
    """Read the files that a page shows, by name."""
    return dict(FILE.findall((DOCS / page).read_text(encoding="utf-8")))


def draw_file(page: str, name: str) -> Make:
    """Draw a task or a machine whose file a page shows."""

    def draw(path: Path) -> None:
        with TemporaryDirectory() as folder, chdir(folder):
            Path(name).write_text(blocks_of(page)[name], encoding="utf-8")
            run(["show", name, "-o", str(path)])

    return draw


def draw_example(page: str) -> Make:
    """Draw what a page of the gallery is about: the first task that its cells make, or else the first machine."""

    def draw(path: Path) -> None:
        names: dict[str, Any] = {}
        with TemporaryDirectory() as folder, chdir(folder):
            for cell in CELL.findall((DOCS / "gallery" / page).read_text(encoding="utf-8")):
                exec(cell, names)  # the page is ours, and its cells are executed when the site is built
                things = [value for value in names.values() if isinstance(value, hk.Task | hk.RewardMachine)]
                if things:
                    break
        if isinstance(things[0], hk.Task):
            hk.draw_task(things[0], path, {})
        else:
            hk.draw_machines({"": things[0]}, path)

    return draw


def draw_schematic(path: Path) -> None:
    """Draw how agents train, and how they act as a team."""
    path.write_text(run_path(str(HERE / "schematic.py"))["schematic"](), encoding="utf-8")


# Pages.


@contextmanager
def open_page(address: str, width: int, height: int, scheme: str = "light") -> Iterator[Any]:
    """Open a page in a window of some size."""
    from playwright.sync_api import sync_playwright  # only for pictures of pages

    with sync_playwright() as play:
        path = run_path(str(DOCS.parent / "tests" / "set_up.py"))["find_browser"]()
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto(address)
        yield page
        browser.close()


def photograph_report(path: Path) -> None:
    """Train all learners on buttons, and show curves and an episode of their report; -dark is for dark pages."""
    scheme = "dark" if path.stem.endswith("-dark") else "light"
    with TemporaryDirectory() as folder:
        hk.run_study(hk.Study([hk.load_task("buttons")], LEARNERS), folder)
        report = hk.write_report(folder, Path(folder, "report.html"))
        with open_page(report.as_uri(), 1088, 900, scheme) as page:
            slider = page.locator(".replay input[type=range]")
            slider.evaluate("own => { own.value = 12; own.dispatchEvent(new Event('input')); }")
            page.evaluate(ONLY_SOME_PARTS)
            begin, end = (page.locator(name).first.bounding_box() for name in (f"{PART} h3", ".replay"))
            around = {
                "x": end["x"] - MARGIN,
                "y": begin["y"] - MARGIN,
                "width": end["width"] + 2 * MARGIN,
                "height": end["y"] + end["height"] - begin["y"] + 2 * MARGIN,
            }
            page.screenshot(path=path, full_page=True, clip=around)


MARGIN = 16  # pixels around a part of a page
PART = "section.task > :visible"
ONLY_SOME_PARTS = """() => {
    const kept = ["Learning curves", "Episode replay"];
    for (const own of document.querySelector("section.task").children)
        if (!kept.includes(own.querySelector("h3")?.textContent)) own.style.display = "none";
}"""


@contextmanager
def open_studio(height: int) -> Iterator[Any]:
    """Open buttons in the studio."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "buttons.toml")
        file.write_text((resources.files("hocket.task.builtin") / "buttons.toml").read_text("utf-8"), encoding="utf-8")
        command = [sys.executable, "-m", "hocket", "studio", str(file), "--no-browser", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio:
            assert studio.stdout is not None
            try:
                with open_page(studio.stdout.readline().strip(), 1360, height) as page:
                    page.wait_for_selector("html[data-revision]")
                    yield page
            finally:
                studio.kill()


def photograph_studio(path: Path) -> None:
    """Take R from A1, and show the counterexample."""
    with open_studio(890) as page:
        page.get_by_label("A1 knows R").click()
        page.wait_for_selector(".repair")
        page.wait_for_selector(".line.fresh", state="detached")  # what has changed ceases to be lit
        page.evaluate("() => { document.activeElement.blur(); document.getElementById('world').scrollTop = 0; }")
        page.wait_for_timeout(1_000)  # milliseconds, in which what moves comes to rest
        page.screenshot(path=path)


def photograph_map(path: Path) -> None:
    """Show the map with a brush for gates."""
    with open_studio(1600) as page:
        page.locator("#map").get_by_role("button", name="Gate", exact=True).click()
        page.evaluate("() => document.activeElement.blur()")
        page.mouse.move(0, 0)
        page.locator("#map").screenshot(path=path)


def photograph_game(path: Path) -> None:
    """Walk A1 to the yellow button beside optimal teammates, and wait."""
    with open_studio(760) as page:
        page.get_by_role("tab", name="Play").click()
        for row in (1, 2):
            page.locator("#play select").nth(row).select_option("optimal")
        page.get_by_text("step 0: ").wait_for()
        page.locator("#play .board").focus()
        for time, key in enumerate(("ArrowRight", "ArrowRight", *("ArrowDown",) * 5), start=1):
            page.keyboard.press(key)
            page.wait_for_selector(f'#play[data-time="{time}"]')
        page.wait_for_timeout(500)
        page.screenshot(path=path)


def makers() -> dict[str, Make]:
    """Say how each picture is made."""
    examples = [page for page in sorted((DOCS / "gallery").glob("*.md")) if page.stem != "index"]
    return {
        "buttons-machines.svg": draw_team_and_projections,
        "world.svg": draw_world,
        "calls.svg": draw_calls,
        "calls-closed.svg": draw_calls,
        **{f"{name}.svg": draw_task(name) for name in shown_in("tasks.md")},
        **{f"{name}.svg": draw_formula(name) for name in shown_in("formulas.md")},
        "parcel.svg": draw_file("tutorials/first-task.md", "parcel.toml"),
        "kitchen.svg": draw_file("tutorials/repair.md", "kitchen.toml"),
        **{f"gallery-{page.stem}.svg": draw_example(page.name) for page in examples},
        "schematic.svg": draw_schematic,
        "report.png": photograph_report,
        "report-dark.png": photograph_report,
        "studio.png": photograph_studio,
        "studio-map.png": photograph_map,
        "studio-play.png": photograph_game,
    }


if __name__ == "__main__":
    known = makers()
    for name in sys.argv[1:] or known:
        if name not in known:
            sys.exit(f"there is no picture {name!r}; those there are: {', '.join(known)}")
        known[name](HERE / name)
        print(HERE / name)
