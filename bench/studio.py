"""How long does the studio take from a key or a tick to the painted verdict, in a real browser?

    python bench/studio.py [--rounds 40] [--out studio.json]

A check mark is clicked, and a key is typed, again and again. The clock runs in the page, from the event to the frame in
which the proof (decomposable or not, with the new machines) is painted, so that the browser, the server, the process
that checks and Graphviz all count; what is played and searched follows. Shown are the fastest, the median and what nine
of ten stay below, in milliseconds; on a machine that does other work as well, the fastest says most.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from hocket.machine.formats import toml
from hocket.task.catalogue import rendezvous

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from set_up import find_browser

PAUSE = 500  # milliseconds between edits, as a person makes them; repairs are searched for meanwhile
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
NINE = rendezvous(9)
TASKS = {
    "buttons": ((resources.files("hocket.task.builtin") / "buttons.toml").read_text(encoding="utf-8"), "A1", "R"),
    "1,024 states, 6,913 transitions": (
        toml.unparse(replace(NINE, machine=NINE.machine.machine()).document()),  # a state a line
        "A1",
        "l1",
    ),
    "rendezvous-10, by parts": (toml.unparse(rendezvous(10).document()), "A1", "l1"),
}
TARGETS = {"buttons": 50, "1,024 states, 6,913 transitions": 150, "rendezvous-10, by parts": 150}  # milliseconds

# Do something to an element, and tell how long it takes until what it means is painted.
TIMED = """
async (act) => {
  const root = document.documentElement;
  const before = root.dataset.revision;
  const begin = performance.now();
  const changed = new Promise((done) => {
    const watcher = new MutationObserver(() => {
      if (root.dataset.revision === before) return;
      watcher.disconnect();
      requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0));
    });
    watcher.observe(root, { attributes: true, attributeFilter: ["data-revision"] });
  });
  if (act.check) document.querySelector(`[data-key="${act.check}"]`).click();
  else {
    const area = document.querySelector("#editor textarea");
    if (act.text) area.value = act.text;
    else area.setRangeText(act.key, area.value.indexOf("slip = 0.0") + 10, area.value.indexOf("slip = 0.0") + 11);
    area.dispatchEvent(new InputEvent("input"));
  }
  return (await changed) - begin;
}
"""


def measure(page: Page, name: str, rounds: int) -> dict[str, list[float]]:
    """Click a check mark, and type a key, so many times each."""
    text, agent, event = TASKS[name]
    page.evaluate(TIMED, {"text": text})
    times_by_edit: dict[str, list[float]] = {"click": [], "key": []}
    for number in range(rounds):
        page.wait_for_timeout(PAUSE)
        times_by_edit["click"].append(page.evaluate(TIMED, {"check": f"know {agent} {event}"}))
        page.wait_for_timeout(PAUSE)
        times_by_edit["key"].append(page.evaluate(TIMED, {"key": f"{3 + number % 6}"}))
    return times_by_edit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        command = [sys.executable, "-m", "hocket", "studio", f"{folder}/task.toml", "--no-browser", "--port", "0"]
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
            try:
                page = play.chromium.launch(executable_path=find_browser(), args=[*FLAGS]).new_page()
                page.goto(server.stdout.readline().strip())
                page.wait_for_selector("html[data-revision]", state="attached")
                for name in TASKS:
                    measure(page, name, 3)  # warm
                    results[name] = measure(page, name, options.rounds)
            finally:
                server.terminate()
    print(f"{'task':<34}{'edit':<8}{'fastest':>9}{'median':>8}{'90 %':>8}{'target':>8}   ms")
    for name, times_by_edit in results.items():
        for edit, times in times_by_edit.items():
            least, median, most = np.percentile(times, [0, 50, 90])
            print(f"{name:<34}{edit:<8}{least:>9.0f}{median:>8.0f}{most:>8.0f}{TARGETS[name]:>8}")
    if options.out is not None:
        options.out.write_text(
            json.dumps({name: dict(times_by_edit) for name, times_by_edit in results.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
