"""Why an agent takes one state for another: the events between them that it does not notice."""

from __future__ import annotations

import numpy as np

from hocket.algebra import View
from hocket.graphs import Flags, hidden_path, hidden_reasons, prove_congruence


def confuse(view: View, state: int, event: int) -> tuple[int, list[int]]:
    """Find a state that the view merges with `state` and in which `event` can happen (-1: which is final).

    Returns it with the hidden events on which the merging rests: as long as all of them stay hidden, the two states
    stay merged, whatever else the agent learns. Prefers a state that hidden events alone lead to, over few steps.
    """
    team = view.team
    goals = _states_with(view, event) & (view.classes == view.classes[state])
    direct = hidden_path(team.graph, team.backward, ~view.visible, state, goals)
    if direct is not None:
        other, labels = direct
        return other, list(dict.fromkeys(labels))
    proof = prove_congruence(team.graph, ~view.visible[team.graph.label])
    other = int(np.flatnonzero(goals)[0])
    return other, hidden_reasons(team.graph, proof, state, other)


def _states_with(view: View, event: int) -> Flags:
    if event < 0:
        return view.team.is_final
    graph = view.team.graph
    flags = np.zeros(len(view.team.states), np.bool_)
    flags[graph.source[graph.label == event]] = True
    return flags
