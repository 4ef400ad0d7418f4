"""Machines that were learnt, with their evidence, events that were never tried, and the next question."""

from __future__ import annotations

from hocket.draw.graphviz import Drawing, Support
from hocket.inference.infer import Inferred


def learnt_drawing(answer: Inferred) -> Drawing:
    """Draw the machines of an answer, and the rivals that the first question tells from them, with their evidence."""
    panels = dict(answer.machines)
    for question in answer.questions[:1]:
        panels |= {f"{agent}, if {question.surprise}": machine for agent, machine in answer.rivals(question).items()}
    support = {title: Support({}, {}) for title in panels}
    for (agent, state, event), evidence in answer.evidence.items():
        support[agent].episodes[state, event] = len(evidence.accepted)
    for agent, state, event in answer.never_tried:
        support[agent].never_tried.setdefault(state, []).append(event)
    return Drawing(panels, support=support)
