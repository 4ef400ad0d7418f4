"""What a text means: the world that it describes, and whether its task is decomposable, as the page is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hocket.draw.palette import LINE_COLORS, agent_colors, choose_styles
from hocket.draw.scene import Scene
from hocket.draw.task_scene import scene_of
from hocket.errors import HocketError, printable
from hocket.machine.completion import find_completion, leaving_warnings
from hocket.machine.composition import SEPARATOR, Composition
from hocket.machine.counterexample import Counterexample, describe_failure, describe_merging
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.formats import toml
from hocket.machine.formats.schema import Design, Document, design_from
from hocket.machine.formulas import LANGUAGES
from hocket.machine.reward_machine import RewardMachine
from hocket.studio.lines import line_of
from hocket.studio.pictures import Data, picture_of, team_picture
from hocket.task.check import check_task
from hocket.task.conditions import write_conditions
from hocket.task.files import task_from
from hocket.task.task import Task

WORLDLY = ("map", "agents", "legend", "places", "machine")  # keys that a task has, and a machine alone has not
COLOR_NUMBERS = {color: number for number, color in enumerate(LINE_COLORS.values())}  # as the page's style has them
NESTED = "is nested too deeply to be a task"


def understand(text: str, folder: Path | None = None, *, wait: bool = False) -> Data:
    """Tell what a text means; where it means nothing, what is wrong and in which line."""
    try:
        document = toml.parse(text)
        subject = _subject(document, folder)
        told = _task(subject, wait) if isinstance(subject, Task) else _design(subject, wait)
    except RecursionError:
        return {"error": {"message": NESTED, "line": None}}
    except HocketError as error:
        return {"error": tell_error(error, text)}
    return told | {"written": how_written(document), "error": None}


def subject_of(text: str, folder: Path | None = None) -> Task | Design:
    """Read a task, or a machine without a world."""
    return _subject(toml.parse(text), folder)


def _subject(document: Document, folder: Path | None) -> Task | Design:
    return task_from(document, "task", folder) if {*WORLDLY} & {*document} else design_from(document)


def tell_error(error: HocketError, text: str) -> Data:
    """Tell what is wrong and where."""
    return {"message": printable(str(error), 1_000), "line": line_of(error, text)}


def how_written(document: Document) -> Data:
    """Tell how the machine and the agents are written, which decides what can be changed by hand."""
    table = document["machine"] if isinstance(document.get("machine"), dict) else document
    assert isinstance(table, dict)
    sentence = next((key for key in LANGUAGES if key in table), None)
    said = table[sentence] if sentence is not None else ""
    kind = sentence or next((key for key in ("parts", "file") if key in table), "transitions")
    return {
        "machine": kind,
        "sentence": "; ".join(said) if isinstance(said, list) else str(said),
        "team": "team" in document,
    }


# A task, and a machine without a world.


def _task(task: Task, wait: bool) -> Data:
    scene, found = scene_of(task), task.decomposition
    styles = choose_styles((*scene.styles, *task.events))  # those of drawings and reports come first
    return {
        "name": task.name,
        "description": task.description,
        "map": _map(task, scene),
        "agents": [
            {
                "name": name,
                "number": str(scene.numbers[name])[-3:],
                "color": scene.colors[name],
                "start": agent.start,
                "knows": list(agent.knows),
                "gates": {region: str(gate) for region, gate in task.gates[name].items()},
            }
            for name, agent in task.agents.items()
        ],
        "events": [
            {
                "name": event,
                "color": COLOR_NUMBERS[styles[event][0]],
                "line": styles[event][1],
                "sentence": write_conditions(conditions),
                "control": list(conditions),
                "needs": list(task.needs[event]),
            }
            for event, conditions in task.events.items()
        ],
        "machines": _machines(task.machine, found, wait),
        "verdict": _task_verdict(task),
        "counterexample": None if found.counterexample is None else _story(found, found.counterexample),
    }


def _design(design: Design, wait: bool) -> Data:
    machine, styles = design.machine, choose_styles(design.machine.events)
    knows = design.knows or {"all": tuple(machine.events)}
    found = decompose(machine, knows, design.control)
    completion = find_completion(machine)
    colors = agent_colors(knows)
    problems = (*found.problems, *completion.problems)
    return {
        "name": "machine",
        "description": "",
        "map": None,
        "agents": [
            {"name": name, "number": str(number)[-3:], "color": colors[name], "knows": list(own), "gates": {}}
            for number, (name, own) in enumerate(found.knows.items(), start=1)
        ],
        "events": [
            {
                "name": event,
                "color": COLOR_NUMBERS[styles[event][0]],
                "line": styles[event][1],
                "sentence": None,
                "control": list(found.control.get(event, ())),
                "needs": list(found.control.get(event, ())),
            }
            for event in machine.events
        ],
        "machines": _machines(machine, found, wait),
        "verdict": {
            "decomposable": found.ok,
            "ok": found.ok and not completion.problems,
            "said": _headline(found),
            "problems": [own for own in problems if not _is_told(own, found)],
            "warnings": [*completion.warnings, *leaving_warnings(found.machines)],
            "notes": list(found.notes),
        },
        "counterexample": None if found.counterexample is None else _story(found, found.counterexample),
    }


def _map(task: Task, scene: Scene) -> Data:
    grid = task.grid
    return {
        "rows": grid.rows,
        "columns": grid.columns,
        "walls": sorted(grid.walls),
        "places": {name: sorted(cells) for name, cells in grid.places.items()},
        "areas": [
            {
                "names": list(area.names),
                "tag": area.tag,
                "color": area.color,
                "cells": sorted(scene.cells_in(area.shapes)),
                "gates": [
                    {"place": place, "agent": agent, "when": when} for place, agent, when in _gates(task, area.names)
                ],
            }
            for area in scene.painted
        ],
    }


def _gates(task: Task, places: Sequence[str]) -> list[tuple[str, str, str]]:
    return [
        (place, agent, str(gates[place])) for agent, gates in task.gates.items() for place in places if place in gates
    ]


def _machines(machine: RewardMachine | Composition, found: Decomposition, wait: bool) -> Data:
    enumerated = found.machine if isinstance(found.machine, RewardMachine) else machine
    return {
        "team": team_picture(enumerated, wait=wait),
        "agents": {agent: picture_of(own, wait=wait) for agent, own in found.machines.items()},
    }


# The verdict.


def _headline(found: Decomposition) -> str:
    return found.explain().splitlines()[0]


def _is_told(problem: str, found: Decomposition) -> bool:
    """Say whether a problem is the counterexample, which has its own place on the page."""
    example = found.counterexample
    return example is not None and problem in (describe_failure(example), f"There, {example.remark}")


def _task_verdict(task: Task) -> Data:
    found = task.decomposition
    try:
        seen = check_task(task)
    except HocketError as error:  # a gate that no state can tell
        return {
            "decomposable": found.ok,
            "ok": False,
            "said": _headline(found),
            "problems": [printable(str(error), 1_000)],
            "warnings": [],
            "notes": list(found.notes),
        }
    problems = [own for own in seen.problems if not _is_told(own, found)]
    if not seen.labelling.ok and found.ok:
        problems.append(str(seen.labelling.witness))
    return {
        "decomposable": found.ok,
        "ok": seen.ok,
        "said": _headline(found),
        "problems": problems,
        "warnings": list(seen.warnings),
        "notes": [*found.notes, *seen.notes],
    }


def _story(found: Decomposition, example: Counterexample) -> Data:
    """Tell a counterexample step by step: where the team machine and each agent's machine are after each event."""
    return {
        "kind": example.kind,
        "event": example.event,
        "trace": list(example.trace),
        "state": example.state,
        "said": describe_failure(example),
        "remark": example.remark,
        "team": _team_states(found.machine, example.trace),
        "agents": {agent: _states(machine, example.trace) for agent, machine in found.machines.items()},
        "confusions": [
            {
                "agent": own.agent,
                "state": own.state,
                "merged_with": own.merged_with,
                "missing": list(own.missing),
                "said": describe_merging(example, own),
            }
            for own in example.confusions
        ],
    }


def _states(machine: RewardMachine, trace: Sequence[str]) -> list[str]:
    """List where a machine is before a trace and after each of its events; what it does not know leaves it there."""
    states = [machine.initial]
    for event in trace:
        states.append(machine.transitions.get((states[-1], event), states[-1]))
    return states


def _team_states(machine: RewardMachine | Composition, trace: Sequence[str]) -> list[str]:
    if isinstance(machine, RewardMachine):
        return _states(machine, trace)
    state, states = machine.initial, [SEPARATOR.join(machine.initial)]
    for event in trace:
        state = machine.step(state, event) or state
        states.append(SEPARATOR.join(state))
    return states
