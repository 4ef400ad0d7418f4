"""Machines that were learnt, with what is known of them: evidence, what was never tried, and the next question."""

from __future__ import annotations

from hocket.draw.graphviz import Drawing, Support
from hocket.inference.infer import Inferred


def learnt_drawing(answer: Inferred) -> Drawing:
    """Draw the machines of an answer, and those that the first question separates from them, with what supports them:
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
    return Drawing(panels, support=support)
