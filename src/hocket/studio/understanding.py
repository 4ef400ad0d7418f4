"""What a text means: the world that it describes, and whether its task is decomposable, as the page is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hocket.documents import Document
from hocket.draw.map_svg import map_svg
from hocket.draw.palette import LINE_COLORS, agent_colors, choose_styles
from hocket.draw.scene import Moment, Scene
from hocket.draw.task_scene import scene_of
from hocket.errors import HocketError, cut_names, printable
from hocket.machine.assignment import EFFORT_FOR_A_HINT
from hocket.machine.composition import SEPARATOR, Composition
from hocket.machine.counterexample import Counterexample, describe_failure, describe_merging
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.formats import files_in
from hocket.machine.formats.schema import LANGUAGES, Design, design_from
from hocket.machine.parts import PARTS
from hocket.machine.reward_machine import RewardMachine
from hocket.studio.lines import line_of
from hocket.studio.pictures import Data, picture_of, team_picture
from hocket.studio.sections import parse
from hocket.task.conditions import write_conditions
from hocket.task.delays import with_delays
from hocket.task.files import has_world, task_from
from hocket.task.task import Task
from hocket.task.teamwork.check import Stall, TeamCheck
from hocket.task.verdict import Part, Verdict, check_machine, check_task

COLOR_NUMBERS = {color: number for number, color in enumerate(LINE_COLORS.values())}  # as the page's style has them
MOST_SHOWN = 300  # last steps of an episode that stalls
NESTED = "is nested too deeply to be a task"


def understand(text: str, folder: Path | None = None, *, wait: bool = False) -> Data:
    """Tell what a text means, and whether it is decomposable; where it means nothing, what is wrong, in which line."""
    try:
        document = parse(text)
        subject = _subject(document, folder)
        told = _task(subject, wait) if isinstance(subject, Task) else _design(subject, wait)
    except RecursionError:
        return {"error": {"message": NESTED, "line": None}}
    except HocketError as error:
        return {"error": tell_error(error, text)}
    return told | {"written": how_written(document), "error": None}


def subject_of(text: str, folder: Path | None = None) -> Task | Design:
    """Read a task, or a machine without a world."""
    return _subject(parse(text), folder)


def _subject(document: Document, folder: Path | None) -> Task | Design:
    return task_from(document, "task", folder) if has_world(document) else design_from(document, files_in(folder))


def tell_error(error: HocketError, text: str) -> Data:
    """Tell what is wrong and where."""
    return {"message": printable(str(error), 1_000), "line": line_of(error, text)}


def how_written(document: Document) -> Data:
    """Tell how the machine and the agents are written, which decides what can be changed by hand."""
    table = document["machine"] if isinstance(document.get("machine"), dict) else document
    assert isinstance(table, dict)
    sentence = next((key for key in LANGUAGES if key in table), None)
    said = table[sentence] if sentence is not None else ""
    kind = sentence or next((key for key in ("parts", "file", "calls", *PARTS) if key in table), "transitions")
    return {
        "machine": kind,
        "sentence": "; ".join(said) if isinstance(said, list) else str(said),
        "team": "team" in document,
    }


# A task, and a machine without a world.


def _task(task: Task, wait: bool) -> Data:
    scene = scene_of(task)
    styles = choose_styles((*scene.styles, *task.events))  # those of drawings and reports come first
    return {
        "name": task.name,
        "description": task.description,
        "map": _map(task, scene),
        "agents": [
            {
                **_agent(name, scene.numbers[name], scene.colors[name], agent.knows),
                "start": agent.starts[0],
                "gates": {region: str(gate) for region, gate in task.gates[name].items()},
            }
            for name, agent in task.agents.items()
        ],
        "events": [
            _event(event, styles, task.controllers[event], task.needs[event])
            | {"sentence": write_conditions(conditions)}
            for event, conditions in task.events.items()
        ],
        "machines": _machines(task.decomposition, wait),
        **_proof(task.decomposition),
    }


def _design(design: Design, wait: bool) -> Data:
    machine, styles, decomposition = design.machine, choose_styles(design.machine.events), _decomposed(design)
    colors, control = agent_colors(decomposition.knows), decomposition.control
    return {
        "name": "machine",
        "description": "",
        "map": None,
        "agents": [
            {**_agent(name, number, colors[name], known), "gates": {}}
            for number, (name, known) in enumerate(decomposition.knows.items(), start=1)
        ],
        "events": [
            _event(event, styles, control.get(event, ()), control.get(event, ())) | {"sentence": None}
            for event in machine.events
        ],
        "machines": _machines(decomposition, wait),
        **_proof(decomposition),
    }


def _decomposed(design: Design) -> Decomposition:
    return decompose(design.machine, design.knows or {"all": tuple(design.machine.events)}, design.control)


def _agent(name: str, number: int, color: str, knows: Iterable[str]) -> Data:
    return {"name": name, "number": str(number)[-3:], "color": color, "knows": list(knows)}


def _event(name: str, styles: Mapping[str, tuple[str, str]], controllers: Iterable[str], needs: Iterable[str]) -> Data:
    color, line = styles[name]
    return {
        "name": name,
        "color": COLOR_NUMBERS[color],
        "line": line,
        "control": list(controllers),
        "needs": list(needs),
    }


def _map(task: Task, scene: Scene) -> Data:
    grid = task.grid
    return {
        "rows": grid.rows,
        "columns": grid.columns,
        "walls": sorted(grid.walls),
        "places": {name: sorted(cells) for name, cells in grid.places.items()},
        "svg": map_svg(scene, [scene.starts[name] for name in scene.agents]),
        "areas": [
            {
                "names": list(area.names),
                "tag": area.tag,
                "color": area.color,
                "gates": [
                    {
                        "place": place,
                        "agent": agent,
                        "when": str(gates[place]),
                        "open": next(iter(gates[place].opens), ""),
                        "close": next(iter(gates[place].closes), ""),
                    }
                    for agent, gates in task.gates.items()
                    for place in area.names
                    if place in gates
                ],
            }
            for area in scene.painted
        ],
    }


def _machines(decomposition: Decomposition, wait: bool) -> Data:
    return {
        "team": team_picture(decomposition.machine, _states_of_interest(decomposition), wait=wait),
        "agents": {agent: picture_of(machine, wait=wait) for agent, machine in decomposition.machines.items()},
    }


def _states_of_interest(decomposition: Decomposition) -> list[str]:
    """List the states of the team that a counterexample is about."""
    example = decomposition.counterexample
    if example is None:
        return []
    merged = [confusion.merged_with for confusion in example.confusions]
    return [*dict.fromkeys([*_team_states(decomposition.machine, example.trace), *merged])]


# The verdict.


def _proof(decomposition: Decomposition) -> Data:
    """Tell whether it is decomposable, and a counterexample step by step; what takes longer, `judge` tells."""
    example = decomposition.counterexample
    return {
        "decomposable": decomposition.ok,
        "said": cut_names(decomposition.explain().splitlines()[0]),
        "counterexample": None if example is None else _story(decomposition, example),
    }


def judge(subject: Task | Design) -> Data:
    """Tell all that is checked beside the algebra: what is played and searched, warnings and notes."""
    if isinstance(subject, Design):
        verdict = check_machine(subject.machine, _decomposed(subject).knows, subject.control)
    else:
        verdict = _check(subject)
    assert verdict.decomposition is not None
    example = verdict.decomposition.counterexample
    story = () if example is None else example.sentences
    stall = next((part.value.stall for part in verdict.parts if isinstance(part.value, TeamCheck)), None)
    return {
        "ok": verdict.ok,
        "answers": [_answer(part) for part in verdict.parts if part.answer],
        "problems": [problem for problem in verdict.problems if problem not in story],
        "warnings": list(verdict.warnings),
        "notes": list(verdict.notes),
        "stall": None if stall is None or isinstance(subject, Design) else _walk(subject, stall),
    }


def _answer(part: Part) -> Data:
    """Tell an answer; one that is no, and that nobody has to mind, is not `ok`, and is not `required` either."""
    is_tolerant = not isinstance(part.document, dict) or part.document.get("tolerant", True)
    return {"ok": part.ok and bool(is_tolerant), "required": part.name != "delays", "said": part.answer}


def _check(task: Task) -> Verdict:
    """Check a task; where gates cannot be checked, as no state tells which are open, that is a problem."""
    try:
        verdict = check_task(task)
    except HocketError as error:
        verdict = check_machine(task.machine, task.knows, task.controllers)
        return verdict.with_part(Part("gates", ok=False, problems=(printable(str(error), 1_000),)))
    with suppress(HocketError):  # a team that is too large for it
        return with_delays(verdict, is_required=False, effort=EFFORT_FOR_A_HINT)
    return verdict


def _walk(task: Task, stall: Stall) -> Data:
    """Tell step by step how a team stalls: where everybody is, in which states, and what is closed."""
    scene, agents = scene_of(task), tuple(task.agents)
    steps = []
    for cells, states, events in stall.steps[-MOST_SHOWN:]:
        by_agent = dict(zip(agents, states, strict=True))
        closed = scene.closed(Moment(dict(zip(agents, cells, strict=True)), by_agent))
        numbers = [number for number, area in enumerate(scene.areas) if area in closed]
        steps.append({"cells": cells, "states": by_agent, "events": events, "closed": numbers})
    waits = [wait.describe(agent) for agent, wait in stall.waiting.items()]
    return {"steps": steps, "first": len(stall.steps) - len(steps), "waits": waits}


def _story(decomposition: Decomposition, example: Counterexample) -> Data:
    """Tell a counterexample step by step: where the team machine and each agent's machine are after each event."""
    return {
        **example.as_json(),
        "said": describe_failure(example),
        "team": _team_states(decomposition.machine, example.trace),
        "agents": {agent: _states(machine, example.trace) for agent, machine in decomposition.machines.items()},
        "merged": [describe_merging(example, confusion) for confusion in example.confusions],
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
