"""Episodes to be filmed: played on a task, or kept in a folder of runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hocket.draw.film import MOST_STEPS
from hocket.draw.scene import Scene
from hocket.draw.scene_files import read_scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError
from hocket.study.records import Replay
from hocket.study.store import load_results
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.task import Task


def played_episode(task: Task, act: Teammates, seed: int, steps: int) -> tuple[Scene, Replay]:
    """Play an episode of so many steps at most."""
    episode = TeamEpisode(task, seed, strict=False)
    cells, states = [tuple(episode.cells.values())], [tuple(episode.states.values())]
    events: list[tuple[int, str]] = []
    while not episode.done and episode.time < min(steps, MOST_STEPS):
        happened = episode.step(act(episode)).events
        cells.append(tuple(episode.cells.values()))
        states.append(tuple(episode.states.values()))
        events += [(episode.time, event) for event in happened]
    rows, columns = np.divmod(np.array(cells), task.grid.columns)
    points = np.stack([columns, rows], axis=2) + 0.5
    return scene_of(task), Replay(episode.done, points, tuple(states), tuple(events))


def kept_episode(folder: Path) -> tuple[Scene, Replay]:
    """Find the first episode that was kept in a folder of runs, of a greedy policy if there is one, and its map."""
    results = load_results(folder)
    scenes = {digest: scene_of(task) for digest, task in results.tasks.items()}
    scenes |= {scene.digest: scene for scene in map(read_scene, results.scenes)}
    for record in results.records:
        replays = record.test_summary.replays if record.test_summary is not None else {}
        if replays and record.digest in scenes:
            return scenes[record.digest], replays.get("greedy") or next(iter(replays.values()))
    raise FormatError("has no episode that was kept to be watched", path=folder)
