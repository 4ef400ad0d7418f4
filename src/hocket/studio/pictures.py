"""Machines as data for the page: states, transitions and their layout by Graphviz; a large machine as a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hocket.draw.boxes import boxes_of, close_boxes, is_closed_box, label_in
from hocket.draw.graphviz import MAX_TRANSITIONS, place_machine
from hocket.graphs import distances_from
from hocket.machine.composition import Composition
from hocket.machine.decomposition import LARGEST_ENUMERATION
from hocket.machine.parts import INSIDE
from hocket.machine.reward_machine import RewardMachine

MOST_STATES = 200  # of a machine that is drawn in full
AT_ONCE = 60  # states of a machine that the first answer contains with its layout
MOST_AT_ONCE = 1_000  # upper bound on the states of a composition that is enumerated in the first answer
MOST_INTERESTING = 30  # states of a large machine that are drawn next to its summary
MOST_MEMBERS = 24  # team states that are listed for a state of an agent's machine
MOST_KEPT = 256  # layouts in the cache
MOST_COUNTED = 20_000  # states of a composition up to which it is enumerated for a summary
Data = dict[str, object]

place_cached = lru_cache(MOST_KEPT)(place_machine)  # an edit of the text leaves most machines unchanged


def picture_of(machine: RewardMachine, *, wait: bool = False) -> Data:
    """Describe a machine with its layout; a large one without it, unless the page waits; a huge one by a summary."""
    if len(machine.states) > MOST_STATES or len(machine.graph.target) > MAX_TRANSITIONS:
        return summary_of(machine)
    index, edges = machine.states.index, dict[tuple[str, str], list[str]]()
    for (source, event), target in machine.transitions.items():
        edges.setdefault((source, target), []).append(event)
    data: Data = {
        "states": [*machine.states],
        "initial": machine.start,
        "final": np.flatnonzero(machine.is_final).tolist(),
        "members": {name: _few(members) for name, members in machine.members.items() if members != (name,)},
        "edges": [{"from": index(start), "to": index(end), "events": events} for (start, end), events in edges.items()],
    }
    data |= _boxes(machine, wait)
    if not wait and len(machine.states) > AT_ONCE:
        return data | {"later": True}
    return data | {"layout": place_cached(machine)}  # its edges have the same order


def _boxes(machine: RewardMachine, wait: bool) -> Data:
    """List boxes and their states, outer ones first; add the machine with closed boxes, if they can be closed."""
    if not (boxes := boxes_of(machine)):
        return {}
    inner = {state: box for box, states in boxes.items() for state in states}  # the innermost
    data: Data = {
        "labels": [label_in(inner[state], state) if state in inner else state for state in machine.states],
        "boxes": [
            {"name": name, "label": name.split(INSIDE)[-1], "states": [*map(machine.states.index, states)]}
            for name, states in boxes.items()
        ],
    }
    if (closed := close_boxes(machine)) is not None:
        stands_for = {member: state for state, members in closed.members.items() for member in members}
        data["closed"] = picture_of(closed, wait=wait) | {
            "closed_boxes": [number for number, state in enumerate(closed.states) if is_closed_box(closed, state)],
            "stands_for": [closed.states.index(stands_for[members[0]]) for members in machine.members.values()],
        }
    return data


def _few(names: Sequence[str]) -> list[str]:
    return [*names] if len(names) <= MOST_MEMBERS else [*names[:MOST_MEMBERS], f"… {len(names) - MOST_MEMBERS:,} more"]


def excerpt_of(machine: RewardMachine, interesting: Sequence[str]) -> RewardMachine:
    """Keep the interesting states of a machine, up to a limit, and their neighbours."""
    shown = dict.fromkeys([machine.initial, *interesting[:MOST_INTERESTING]])
    ends = [(state, target) for (state, _), target in machine.transitions.items()]
    neighbours = [target if state in shown else state for state, target in ends if state in shown or target in shown]
    shown |= dict.fromkeys([*dict.fromkeys(neighbours)][: MOST_INTERESTING - len(shown)])
    inner = {pair: target for pair, target in machine.transitions.items() if {pair[0], target} <= {*shown}}
    final = [state for state in shown if state in machine.final and all(pair[0] != state for pair in inner)]
    return RewardMachine(initial=machine.initial, transitions=inner, states=[*shown], final=final)


def summary_of(machine: RewardMachine) -> Data:
    """Count the states of a machine, and the final ones, at each distance from the initial state."""
    distance = distances_from([machine.initial], lambda state: machine.moves.get(state, {}).values())
    layers = Counter(distance.values())
    final = Counter(distance[state] for state in machine.final if state in distance)
    counts: Data = {"states": len(machine.states), "transitions": len(machine.transitions), "final": len(machine.final)}
    return {"summary": counts | {"layers": [*layers.values()], "final_layers": [final[layer] for layer in layers]}}


def team_picture(machine: RewardMachine | Composition, interesting: Sequence[str] = (), *, wait: bool = False) -> Data:
    """Describe a team machine: a composition by all its states if they are few, a large machine with an excerpt."""
    if isinstance(machine, RewardMachine):
        picture = picture_of(machine, wait=wait)
        if "summary" in picture and interesting:
            picture["excerpt"] = picture_of(excerpt_of(machine, interesting), wait=True)
        return picture
    if machine.most_states > MOST_AT_ONCE and not wait:
        return {"later": True}
    if machine.most_states <= LARGEST_ENUMERATION and machine.reachable(MOST_COUNTED) is not None:
        return team_picture(machine.machine(), interesting, wait=wait)
    return {"summary": {"parts": len(machine.parts), "most_states": f"{machine.most_states:,}"}}
