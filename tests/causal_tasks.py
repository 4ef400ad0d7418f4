"""Small tasks made for causal trouble: relays, choices behind late messages, joint events that compete."""

import hocket as hk
from hocket.machine.decomposition import Decomposition


def made(moves: str, knows: str, control: str, final: str = "done") -> Decomposition:
    """Make a task of words: moves `state event state, ...`, local event sets `A: a b; ...`, control `a: A; ...`."""
    table = {(source, event): target for source, event, target in (row.split() for row in moves.split(","))}
    known = {agent.strip(): events.split() for agent, events in (row.split(":") for row in knows.split(";"))}
    controllers = {event.strip(): agents.split() for event, agents in (row.split(":") for row in control.split(";"))}
    return hk.decompose(hk.RewardMachine(initial="0", transitions=table, final={final}), known, controllers)


CAUSAL = {
    "relay": made("0 a 1, 1 b 2, 2 c done", "A: a c; B: a b; C: a b c", "a: A; b: B; c: C"),
    "a choice behind a late message": made(  # b means one thing to C after a, and another without it
        "0 a 1, 0 m 2, 1 m 3, 2 b 4, 3 b 5, 4 e done, 5 f done",
        "A: a m; B: m b; C: a b e f", "a: A; m: A; b: B; e: C; f: C",
    ),
    "at the last moment": made(
        "0 f 2, 0 x 1, 2 x 3, 1 g done, 3 h done", "A: f x g h; B: f x g h", "f: B; x: A B; g: A; h: B"
    ),
    "long relay": made(
        "0 a 1, 1 b 2, 2 c 3, 3 d done", "A: a d; B: a b d; C: a b c; D: a b c d", "a: A; b: B; c: C; d: D"
    ),
    "choice": made(
        "0 a 1, 1 b 2, 1 c 3, 2 d done, 3 e done",
        "A: a b c d e; B: a b c; C: a b c d e", "a: A; b: B; c: B; d: C; e: C"
    ),
    "choice of two": made(
        "0 a 1, 1 b 2, 1 c 3, 2 d done, 3 d done", "A: a b c d; B: a b c; C: b c d", "a: A; b: A B; c: A B; d: C"
    ),
    "round of pairs": made("0 x 1, 1 y 2, 2 z done", "A: x z y; B: x y; C: y z", "x: A B; y: B C; z: A C"),
    "three at once": made("0 a 1, 1 x 2, 2 b done", "A: a x; B: x; C: x b", "a: A; x: A B C; b: C"),
    "three and one": made(
        "0 a 1, 1 x 2, 1 b 3, 3 x 4, 2 b 4, 4 y done", "A: a x y; B: a x b y; C: x b y", "a: A; b: B; x: A B C; y: B C"
    ),
    "either door": made("0 x 1, 0 y 2, 1 c done, 2 d done", "A: x y c d; B: x c; C: y d", "x: A B; y: A C; c: B; d: C"),
    "contest": made("0 x 1, 0 y 2, 1 y done, 2 x done", "A: x; B: y; C: x y", "x: A C; y: B C"),
    "one wins": made("0 x 1, 0 y 2, 1 e done, 2 e done", "A: x y e; B: x y e; C: x y e", "x: A C; y: B C; e: A B C"),
    "undo": made("0 a 1, 1 u 0, 1 b 2, 2 x done", "A: a u b x; B: a u b x", "a: A; u: A; b: A B; x: A B"),
    "ping pong": made("0 a 1, 1 b 2, 2 a 3, 3 b 4, 4 a 5, 5 b done", "A: a b; B: a b", "a: A; b: B"),
    "two tell one": made(
        "0 a 1, 0 b 2, 1 b 3, 2 a 3, 3 c 4, 4 x done", "A: a c x; B: b c x; C: a b c", "a: A; b: B; c: C; x: A B"
    ),
    "heard by the next": made("0 x 1, 1 c 2, 2 y done", "A: x c; B: x c y; C: x c y", "x: A B; c: C; y: B C"),
    "call and answers": made(
        "0 a 1, 1 b 2, 1 c 3, 2 c 4, 3 b 4, 4 x done",
        "A: a b c x; B: a b x; C: a c x; D: x", "a: A; b: B; c: C; x: A B C D"
    ),
}  # fmt: skip
