"""Machines that were learnt, with what is known of them: evidence, what was never tried, and the next question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from hocket.draw.graphviz import Support, draw_machines, machine_svg
from hocket.inference.infer import Inferred
from hocket.machine.reward_machine import RewardMachine


def support_of(answer: Inferred) -> dict[str, Support]:
    """Count the episodes that show each transition, and list what was never tried, by agent."""
    episodes: dict[str, dict[tuple[str, str], int]] = {agent: {} for agent in answer.machines}
    for (agent, state, event), evidence in answer.evidence.items():
        episodes[agent][state, event] = len(evidence.accepted)
    never: dict[str, dict[str, list[str]]] = {agent: defaultdict(list) for agent in answer.machines}
    for agent, state, event in answer.never_tried:
        never[agent][state].append(event)
    known = {agent: Support(episodes[agent], never[agent]) for agent in answer.machines}
    return {title: known.get(title, Support({}, {})) for title in _panels(answer)}


def _panels(answer: Inferred) -> Mapping[str, RewardMachine]:
    """List what to draw: the machines, and those that the first question separates from them."""
    panels = dict(answer.machines)
    for question in answer.questions[:1]:
        panels |= {f"{agent}, if {question.surprise}": machine for agent, machine in answer.rivals(question).items()}
    return panels


def draw_learnt(answer: Inferred, path: str | Path) -> None:
    """Draw the machines of an answer into a file (.svg, .png, .pdf)."""
    draw_machines(_panels(answer), path, support=support_of(answer))


def learnt_svg(answer: Inferred) -> str:
    """Draw the machines of an answer as the text of an SVG."""
    return machine_svg(_panels(answer), support=support_of(answer))
