"""Machines that were learnt, with what is known of them: evidence, what was never tried, and the next question."""

from __future__ import annotations

from pathlib import Path

from hocket.draw.graphviz import Support, draw_machines, machine_svg
from hocket.inference.infer import Inferred
from hocket.machine.reward_machine import RewardMachine


def _panels(answer: Inferred) -> tuple[dict[str, RewardMachine], dict[str, Support]]:
    """List what to draw, the machines and those that the first question separates from them, and what supports it:
    how many episodes show each transition, and what was never tried.
    """
    panels = dict(answer.machines)
    for question in answer.questions[:1]:
        panels |= {f"{agent}, if {question.surprise}": machine for agent, machine in answer.rivals(question).items()}
    support = {title: Support({}, {}) for title in panels}
    for (agent, state, event), evidence in answer.evidence.items():
        support[agent].episodes[state, event] = len(evidence.accepted)
    for agent, state, event in answer.never_tried:
        support[agent].never_tried.setdefault(state, []).append(event)
    return panels, support


def draw_learnt(answer: Inferred, path: str | Path) -> None:
    """Draw the machines of an answer into a file (.svg, .png, .pdf)."""
    panels, support = _panels(answer)
    draw_machines(panels, path, support=support)


def learnt_svg(answer: Inferred) -> str:
    """Draw the machines of an answer as the text of an SVG."""
    panels, support = _panels(answer)
    return machine_svg(panels, support=support)
