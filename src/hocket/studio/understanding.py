"""Descriptions of a text for the page: agents, events and map, the verdict, repairs, and explanations of logs."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hocket.documents import Document
from hocket.draw.map_svg import map_svg
from hocket.draw.palette import LINE_COLORS, agent_colors, choose_styles
from hocket.draw.scene import Moment, Scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError, InfeasibleError, SettingsError, cut_names, printable
from hocket.files import MEGABYTE
from hocket.machine.assignment import EFFORT_FOR_A_HINT, Assignment, repair
from hocket.machine.composition import SEPARATOR, Composition
from hocket.machine.decomposition import Control, Decomposition, Knows, decompose, enumerate_states
from hocket.machine.formats import files_in
from hocket.machine.formats.schema import LANGUAGES, Design, design_from
from hocket.machine.parts import PARTS
from hocket.machine.reward_machine import RewardMachine
from hocket.studio.pictures import Data, picture_of, team_picture
from hocket.studio.sections import line_of, parse
from hocket.task.conditions import write_conditions
from hocket.task.files import has_world, task_from
from hocket.task.repair import repair_task
from hocket.task.task import Task
from hocket.task.teamwork.check import Stall, TeamCheck
from hocket.task.verdict import CheckResult, Verdict, check_machine, check_task, with_delays

COLOR_NUMBERS = {color: number for number, color in enumerate(LINE_COLORS.values())}  # as in the style sheet
MOST_REPAIRS, MOST_SEARCHES = 6, 24
MOST_STALL_STEPS = 300  # of the end of an episode that stalls
LARGEST_LOG = 2 * MEGABYTE
LOG_SECONDS = 8.0  # to explain a log, while the page waits
ForbiddenPairs = frozenset[tuple[str, str]]  # (agent, event)
TOO_NESTED = "is nested too deeply to be a task"


def describe_text(text: str, folder: Path | None = None, *, wait_for_pictures: bool = False) -> Data:
    """Describe the task or machine of a text and whether it is decomposable; or the error in the text and its line."""
    try:
        document = parse(text)
        description = _describe(_subject_from(document, folder), wait_for_pictures)
    except RecursionError:
        return {"error": {"message": TOO_NESTED, "line": None}}
    except HocketError as error:
        return {"error": {"message": printable(str(error), 1_000), "line": line_of(error, text)}}
    return description | {"written": describe_notation(document), "error": None}


def parse_subject(text: str, folder: Path | None = None) -> Task | Design:
    """Read the task of a text, or its machine if there is no map."""
    return _subject_from(parse(text), folder)


def read_subject(request: Mapping[str, object]) -> Task | Design:
    """Read the task or machine of a request."""
    return parse_subject(str(request["text"]), read_folder(request))


def read_task(request: Mapping[str, object], purpose: str) -> Task:
    """Read the task of a request; refuse a machine without a map."""
    subject = read_subject(request)
    if isinstance(subject, Task):
        return subject
    raise SettingsError(f"this text is a machine; to {purpose}, it has to be a task with a map, agents and events")


def read_number(request: Mapping[str, object], key: str, minimum: int, maximum: int) -> int:
    """Read a whole number of a request."""
    value = request.get(key)
    if type(value) is not int or not minimum <= value <= maximum:
        raise SettingsError(f"{key} must be a whole number from {minimum} to {maximum:,}, got {value!r:.60}")
    return value


def read_folder(request: Mapping[str, object]) -> Path | None:
    """Read the folder of a request's file; None if it has no file."""
    return Path(str(request["folder"])) if request.get("folder") else None


def _subject_from(document: Document, folder: Path | None) -> Task | Design:
    return task_from(document, "task", folder) if has_world(document) else design_from(document, files_in(folder))


def describe_notation(document: Document) -> Data:
    """Describe the notation of the machine and the agents, which decides what can be edited in the drawings."""
    table = document["machine"] if isinstance(document.get("machine"), dict) else document
    assert isinstance(table, dict)
    notation = next((key for key in (*LANGUAGES, "parts", "file", "calls", *PARTS) if key in table), "transitions")
    value = table[notation] if notation in LANGUAGES else ""
    sentence = "; ".join(value) if isinstance(value, list) else str(value)
    return {"machine": notation, "sentence": sentence, "team": "team" in document}


def _describe(subject: Task | Design, wait_for_pictures: bool) -> Data:
    """Describe a task, or a machine without a map."""
    if isinstance(subject, Task):
        scene, decomposition, knows = scene_of(subject), subject.decomposition, subject.knows
        events: dict[str, Any] = {event: write_conditions(conditions) for event, conditions in subject.events.items()}
        styles = choose_styles((*scene.styles, *events))  # first those that drawings and reports have
        numbers, colors, must_know = scene.numbers, scene.colors, subject.needs
        header: Data = {"name": subject.name, "description": subject.description, "map": _map(subject, scene)}
        start_cells = {name: {"start": agent.starts[0]} for name, agent in subject.agents.items()}
    else:
        decomposition = _decompose_design(subject)
        knows, events, must_know = decomposition.knows, dict.fromkeys(subject.machine.events), decomposition.control
        styles, colors, start_cells = choose_styles(events), agent_colors(knows), {}
        numbers = {name: number for number, name in enumerate(knows, start=1)}
        header = {"name": "machine", "description": "", "map": None}
    agents = [
        {"name": name, "number": str(numbers[name])[-3:], "color": colors[name], "knows": [*known]}
        | start_cells.get(name, {})
        for name, known in knows.items()
    ]
    rows = [
        {"name": event, "color": COLOR_NUMBERS[styles[event][0]], "line": styles[event][1], "sentence": sentence}
        | {"needs": [*must_know.get(event, ())]}
        for event, sentence in events.items()
    ]
    return header | {"agents": agents, "events": rows, **_describe_machines(decomposition, wait_for_pictures)}


def _describe_machines(decomposition: Decomposition, wait_for_pictures: bool) -> Data:
    """Describe the machines, whether the task is decomposable, and each step of a counterexample in all machines."""
    machine, example = decomposition.machine, decomposition.counterexample
    described, interesting = None, list[str]()
    if example is not None:
        team = _states(machine, example.trace)
        interesting = [*dict.fromkeys([*team, *(confusion.merged_with for confusion in example.confusions)])]
        described = {
            **example.as_json(),
            "message": example.sentences[0],
            "team": team,
            "agents": {agent: _states(local, example.trace) for agent, local in decomposition.machines.items()},
            "merged": list(example.merging),
        }
    pictures = {agent: picture_of(local, wait=wait_for_pictures) for agent, local in decomposition.machines.items()}
    return {
        "machines": {"team": team_picture(machine, interesting, wait=wait_for_pictures), "agents": pictures},
        "decomposable": decomposition.ok,
        "message": cut_names(decomposition.explain().splitlines()[0]),
        "counterexample": described,
    }


def _decompose_design(design: Design) -> Decomposition:
    return decompose(design.machine, design.knows or {"all": tuple(design.machine.events)}, design.control)


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
                    {"place": place, "agent": agent, "when": str(gate)}
                    | {"open": next(iter(gate.opens), ""), "close": next(iter(gate.closes), "")}
                    for agent, gates in task.gates.items()
                    for place, gate in ((place, gates[place]) for place in area.names if place in gates)
                ],
            }
            for area in scene.painted
        ],
    }


def describe_verdict(subject: Task | Design) -> Data:
    """Describe the checks that take longer than decomposability: played episodes, delays, warnings and notes."""
    verdict = _check(subject)
    assert verdict.decomposition is not None
    example = verdict.decomposition.counterexample
    shown = () if example is None else example.sentences
    stall = next((result.details.stall for result in verdict.results if isinstance(result.details, TeamCheck)), None)
    # The result of "delays" also has an answer, which may be no for a task that passes.
    answers = [(each, each.ok and getattr(each.details, "tolerant", True)) for each in verdict.results if each.answer]
    return {
        "ok": verdict.ok,
        "answers": [{"ok": ok, "required": each.name != "delays", "message": each.answer} for each, ok in answers],
        "problems": [problem for problem in verdict.problems if problem not in shown],
        "warnings": list(verdict.warnings),
        "notes": list(verdict.notes),
        "stall": None if stall is None or isinstance(subject, Design) else _describe_stall(subject, stall),
    }


def _check(subject: Task | Design) -> Verdict:
    """Check a machine or a task; an error about gates becomes a problem of the verdict."""
    if isinstance(subject, Design):
        return check_machine(subject.machine, _decompose_design(subject).knows, subject.control)
    try:
        verdict = check_task(subject)
    except HocketError as error:
        verdict = check_machine(subject.machine, subject.knows, subject.controllers)
        return verdict.with_result(CheckResult("gates", ok=False, problems=(printable(str(error), 1_000),)))
    with suppress(HocketError):  # the team is too large for this check
        return with_delays(verdict, is_required=False, effort=EFFORT_FOR_A_HINT)
    return verdict


def _describe_stall(task: Task, stall: Stall) -> Data:
    """Describe the last steps of an episode that stalls: cells, machine states, events and closed areas."""
    scene, agents, steps = scene_of(task), tuple(task.agents), []
    for cells, states, events in stall.steps[-MOST_STALL_STEPS:]:
        moment = Moment(dict(zip(agents, cells, strict=True)), dict(zip(agents, states, strict=True)))
        closed = closed_areas(scene, moment)
        steps.append({"cells": cells, "states": moment.states, "events": events, "closed": closed})
    waits = [wait.describe(agent) for agent, wait in stall.waiting.items()]
    return {"steps": steps, "first": len(stall.steps) - len(steps), "waits": waits}


def closed_areas(scene: Scene, moment: Moment) -> list[int]:
    """List the numbers of the areas that are closed to some agent."""
    closed = scene.closed(moment)
    return [number for number, area in enumerate(scene.areas) if area in closed]


def _states(machine: RewardMachine | Composition, trace: Sequence[str]) -> list[str]:
    """List the states of a machine before a trace and after each event; events that it does not know change nothing."""
    states: list[Any] = [machine.initial]
    for event in trace:
        states.append(machine.step(states[-1], event) or states[-1])
    return [state if isinstance(state, str) else SEPARATOR.join(state) for state in states]


def cheapest_repairs(subject: Task | Design) -> Data:
    """Find the cheapest repairs; of a task, those with which it passes every check."""
    repairs: list[Assignment] = []
    if isinstance(subject, Task):
        if not subject.decomposition.ok:  # else the team stalls
            cheapest = _cheapest(subject.machine, subject.knows, subject.needs)
            repairs = [added for added in cheapest if _passes(subject, added)]
        repairs = repairs or [repair_task(subject).added]
    elif subject.knows and not decompose(subject.machine, subject.knows, subject.control).ok:
        repairs = list(_cheapest(subject.machine, subject.knows, subject.control))
    described = [
        {"add": {agent: [*events] for agent, events in added.items()}, "cost": added.cost, "exact": added.exact}
        for added in filter(None, repairs)
    ]
    return {"repairs": described}


def _passes(task: Task, added: Assignment) -> bool:
    with suppress(HocketError):
        knows = {agent: (*task.knows[agent], *events) for agent, events in added.items()}
        return check_task(task.with_knows(knows), play=False).ok
    return False


def _cheapest(machine: RewardMachine | Composition, knows: Knows, needs: Control) -> Iterator[Assignment]:
    """Yield the cheapest repairs. Other repairs lack a pair of each repair, so its pairs are forbidden one by one."""
    if isinstance(machine, Composition) and not machine.is_independent:
        machine = enumerate_states(machine)
    listed: set[ForbiddenPairs] = set()
    queue: list[ForbiddenPairs] = [frozenset()]
    lowest_cost: float | None = None
    for searches, forbidden in enumerate(queue):  # grows during the loop
        if len(listed) == MOST_REPAIRS or searches == MOST_SEARCHES:
            return
        try:
            added = repair(machine, knows, needs, forbidden=forbidden, effort=EFFORT_FOR_A_HINT)
        except InfeasibleError:
            if not forbidden:
                raise
            continue
        lowest_cost = added.cost if lowest_cost is None else lowest_cost
        if added.cost > lowest_cost:
            continue
        pairs = frozenset((agent, event) for agent, events in added.items() for event in events)
        if pairs not in listed:
            listed.add(pairs)
            yield added
        queue += [larger for pair in sorted(pairs) if (larger := forbidden | {pair}) not in queue]


def explain_log(request: Mapping[str, object]) -> Data:
    """Explain a log with the local event sets of a text and draw the machines; or say why this is impossible."""
    from hocket.draw.learnt import learnt_drawing  # imported here as few pages need them
    from hocket.inference.infer import UnexplainedError, infer
    from hocket.inference.logs import read_log

    knows = {agent: tuple(events) for agent, events in read_subject(request).knows.items()}
    content, name = str(request.get("log", "")).encode(), Path(str(request.get("log_name", ""))).name
    if len(content) > LARGEST_LOG:
        raise FormatError(f"must be at most {LARGEST_LOG // MEGABYTE} MB here; use `hocket infer`", path=name)
    observed: Any = request.get("observed") or None  # checked by read_log
    log = read_log(name, observed, str(request["outcome"]) if request.get("outcome") else None, content)
    try:
        answer = infer(log, knows, seconds=LOG_SECONDS)
    except UnexplainedError as error:
        return {"explained": False, "message": str(error)}
    picture = base64.b64encode(learnt_drawing(answer).svg().encode()).decode()
    return {
        "explained": True,
        "message": answer.claim,
        "questions": [question.explain() for question in answer.questions],
        "picture": f"data:image/svg+xml;base64,{picture}",
    }
