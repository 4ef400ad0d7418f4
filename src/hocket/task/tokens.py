"""The maps of TokenEnv: tokens in rooms behind doors, each of which is open while an agent stands on a button of it.

The rules and the four maps are those of Yalcinkaya, Vazquez-Chanlatte, Shah, Krasowski and Seshia,
"Automata-Conditioned Cooperative Multi-Agent Reinforcement Learning" (ACC-MARL, arXiv 2511.02304), in the packages
dfa-gym and acc-marl. Agents have bodies: where two would collide, both stay. The map wraps around at its edges. A door
is open in a step if an agent was on one of its buttons, or in the door itself, after the previous step. Each agent has
a machine over the tokens that it is on, with one transition in each step that ends on a token.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from itertools import product

from hocket.errors import TaskError, require_known
from hocket.machine.algebra import project
from hocket.machine.composition import Composition
from hocket.machine.parts import rename_events
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import CLOSED, Agent, Gate
from hocket.task.bodies import SYMMETRIC
from hocket.task.conditions import Condition
from hocket.task.grid import read_map
from hocket.task.task import Task

DOORS = {"a": "w", "b": "x", "c": "y", "d": "z"}  # of buttons, as letters on the maps
LAYOUTS = tomllib.loads((resources.files("hocket.task") / "tokens.toml").read_text(encoding="utf-8"))
MAPS: dict[str, str] = {name: layout["map"] for name, layout in LAYOUTS.items()}
OVER = "over"  # an event that no agent knows, so that agents with completed tasks still observe doors

Machines = Mapping[str, RewardMachine]


def token_task(name: str, machines: Machines | None = None, *, starts: Mapping[str, int] | None = None) -> Task:
    """Make a task on one of the four maps, with machines of agents over the tokens 0 to 9 that they come to.

    A machine may also have tokens of others as events, such as "B on 3". An agent without a machine stays in the cell
    in which it starts, as on the map or in `starts`. By default, A goes to a token behind a door while another agent
    helps it, and each of the others goes to a token of its own.
    """
    require_known(name, MAPS, "map of tokens")
    legend = {letter: [letter] for letter in "0123456789" if letter in MAPS[name]}
    for button, door in DOORS.items():
        if button in MAPS[name]:
            legend |= {button: [button], door: [button, f"door {button}"]}
    grid, cells_of = read_map(MAPS[name], legend, "ABCD", torus=True)
    cells = {agent: cells_of[agent][0] for agent in "ABCD" if agent in cells_of}
    machines, starts = _default_machines(name) if machines is None else machines, starts or {}
    for agent in (*machines, *starts):
        require_known(agent, cells, "agent on this map")
    if not machines:
        raise TaskError("there must be a machine for at least one agent, got none", key="agents")
    cells |= starts
    standing = {agent: cell for agent, cell in cells.items() if agent not in machines}
    starts = {agent: cell for agent, cell in cells.items() if agent in machines}
    obstacles = {f"{agent} itself": frozenset({cell}) for agent, cell in standing.items()}
    grid = replace(grid, places={**grid.places, **obstacles})
    is_held = {button: not cells.isdisjoint(standing.values()) for button, cells in grid.places.items()}
    buttons = [button for button in DOORS if not is_held.get(button, True)]  # of doors that are not always open
    parts = dict[str, RewardMachine]()
    for agent, machine in machines.items():
        renamed = rename_events(machine, {event: f"{agent} on {event}" for event in machine.events if event.isdigit()})
        parts[agent] = _with_doors(renamed, agent, buttons, [*starts])
    used = {event for part in parts.values() for event in part.events}
    events = {  # an edge, so that it happens once in a step, whether an agent comes to a token or stays on it
        f"{agent} on {token}": {agent: Condition(token, was=False) | Condition(token, was=True)}
        for agent, token in product(starts, "0123456789")
        if f"{agent} on {token}" in used
    }
    for agent, button in product(starts, buttons):
        events[f"{agent} opens {button}"] = {agent: Condition(button)}
        events[f"{agent} leaves {button}"] = {agent: Condition(button, inside=False)}
    gates = dict[str, Gate]()
    for button in buttons:
        opens, leaves = (tuple(f"{agent} {verb} {button}" for agent in starts) for verb in ("opens", "leaves"))
        gates[f"door {button}"] = Gate(opens, leaves)
    gates |= dict.fromkeys(obstacles, CLOSED)
    agents = {agent: Agent(start, parts[agent].events, gates) for agent, start in starts.items()}
    about = "Tokens in rooms whose doors are open while an agent stands on a button (TokenEnv of ACC-MARL)."
    return Task(name, grid, agents, events, Composition(parts), slip=0.0, description=about, bodies=SYMMETRIC)


def _with_doors(machine: RewardMachine, agent: str, buttons: list[str], agents: list[str]) -> RewardMachine:
    """Add to the states of an agent's machine which doors are open, because of itself (one at most) or of others."""
    moves: dict[tuple[str, str], str] = {}
    every = product(("", "{}", "+{}"), repeat=len(buttons))  # a door is closed, or open because of another, or itself
    possible = {doors for doors in every if doors.count("+{}") <= 1 and doors.count("{}") < len(agents)}
    suffixes = {
        doors: "".join(f" {door.format(button)}" for door, button in zip(doors, buttons, strict=True) if door)
        for doors in sorted(possible)
    }
    for doors, suffix in suffixes.items():
        for (state, event), target in machine.transitions.items():
            moves[state + suffix, event] = target + suffix
        for (number, button), other in product(enumerate(buttons), agents):
            held, verb = ("+{}" if other == agent else "{}"), "leaves" if doors[number] else "opens"
            after = suffixes.get((*doors[:number], "" if doors[number] else held, *doors[number + 1 :]))
            if doors[number] in ("", held) and after is not None:
                for state in machine.states:
                    moves[state + suffix, f"{other} {verb} {button}"] = state + after
        for state in machine.final:
            moves[state + suffix, OVER] = OVER + suffix
    final = {target for (_, event), target in moves.items() if event == OVER}
    whole = RewardMachine(initial=machine.initial, transitions=moves, final=final)
    return project(whole, {event for _, event in moves} - {OVER})


def _default_machines(name: str) -> Machines:
    """Let A go to a token behind a door; a helper holds the door for it, and all others go to tokens of their own."""
    goals, helper = LAYOUTS[name]["goals"], LAYOUTS[name]["helper"]
    moves = {agent: {("go", token): "done"} for agent, token in goals.items()}
    moves[helper] = {("help", f"A on {goals['A']}"): "go", **moves[helper]}
    return {
        agent: RewardMachine(initial="help" if agent == helper else "go", transitions=row, final={"done"})
        for agent, row in moves.items()
    }
