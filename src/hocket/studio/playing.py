"""Games in which the user controls some agents, and the others act at random, by optimal policies, or as trained.

A game follows from its task, seed, teammates and moves, which the page keeps: a restart of the server loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from hocket.draw.scene import Moment
from hocket.draw.task_scene import scene_of
from hocket.errors import SettingsError, require_known
from hocket.learn.catalogue import LEARNERS, references
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import reference_teammates, trained_teammates
from hocket.learn.settings import DEFAULT_LEARNER, describe_settings
from hocket.studio.pictures import Data
from hocket.studio.understanding import closed_areas, read_number, read_task
from hocket.study.policies import load_policies
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.grid import ACTIONS
from hocket.task.settling import check_labelling
from hocket.task.task import Task

ME, RANDOM, TRAINED = "me", "random", "trained"
MOST_STEPS = 1_000  # of a game
MOST_SEEDS = 1_000_000

Moves = Sequence[Mapping[str, str]]  # for each step, the actions of the agents that the user controls


class StudioGame:
    """An episode in progress, with the agents' teammates and the moves so far."""

    def __init__(self, task: Task, mates: Mapping[str, str], seed: int, policies: Path | None) -> None:
        self.task, self.mates = task, mates
        self.is_sound = check_labelling(task).ok and task.decomposition.ok
        self.episode = TeamEpisode(task, seed, strict=self.is_sound)
        self.scene = scene_of(task)
        self.moves: list[Mapping[str, str]] = []
        self.events: list[tuple[int, str]] = []  # the step, counted from 1, and the event
        self.policies = {kind: _teammates(task, kind, policies) for kind in {*mates.values()} - {ME}}

    def step(self, move: Mapping[str, str]) -> None:
        """Let all agents act."""
        chosen = {kind: policy(self.episode) for kind, policy in self.policies.items()}
        chosen[ME] = dict.fromkeys(self.mates, ACTIONS[-1]) | dict(move)
        done = self.episode.step({name: chosen[kind][name] for name, kind in self.mates.items()})
        self.events += [(self.episode.time, event) for event in done.events]
        self.moves.append(move)

    @property
    def outcome(self) -> str | None:
        """How the game has ended; None if it goes on."""
        if self.episode.done:
            return "completed" if self.episode.completed else "disagreed"
        return "ran out" if self.episode.time >= MOST_STEPS else None

    def state(self) -> Data:
        """Return cells, machine states, who waits for whom, and the events so far."""
        episode = self.episode
        return {
            "time": episode.time,
            "cells": [episode.cells[name] for name in self.task.agents],
            "states": dict(episode.states),
            "finished": episode.finished,
            "team": episode.team_state_name,
            "waiting": {name: [event, *others] for name, (event, others) in episode.waiting.items()},
            "closed": closed_areas(self.scene, Moment(episode.cells, episode.states)),
            "events": self.events,
            "outcome": self.outcome,
            "sound": self.is_sound,
        }


_last: dict[str, StudioGame] = {}  # the latest game, by its task, teammates, seed and policies


def play(job: Mapping[str, object]) -> Data:
    """Play a game with all its moves; only the new ones, if it continues the latest game."""
    task = read_task(job, "play")
    given, moves, seed = job.get("mates"), _moves(job, task), read_number({"seed": 0, **job}, "seed", 0, MOST_SEEDS)
    kinds = (ME, RANDOM, TRAINED, *references())
    mates = {name: str(given.get(name, RANDOM) if isinstance(given, dict) else RANDOM) for name in task.agents}
    for kind in mates.values():
        require_known(kind, kinds, "policy")
    policies = Path(str(job["policies"])) if job.get("policies") else None
    key = json.dumps([job["text"], sorted(mates.items()), seed, str(policies)])
    game = _last.get(key)
    if game is None or game.moves != list(moves[: len(game.moves)]):
        _last.clear()
        game = _last[key] = StudioGame(task, mates, seed, policies)
    for move in moves[len(game.moves) :]:
        if game.outcome is None:
            game.step(move)
    return game.state()


def _moves(job: Mapping[str, object], task: Task) -> Moves:
    moves = job.get("moves", [])
    if not isinstance(moves, list) or len(moves) > MOST_STEPS:
        raise SettingsError(f"a game has at most {MOST_STEPS:,} steps")
    for move in moves:
        if not isinstance(move, dict) or {*move} - {*task.agents} or any(each not in ACTIONS for each in move.values()):
            raise SettingsError(f"a move is an action for each agent that is controlled, got {move!r:.60}")
    return moves


def _teammates(task: Task, kind: str, policies: Path | None) -> Teammates:
    if kind == RANDOM:
        return TeamEpisode.random_actions
    if kind != TRAINED:
        return reference_teammates(task, kind)
    if policies is None:
        raise SettingsError("there are no trained policies yet; train first, or choose other teammates")
    return trained_teammates(task, load_policies(policies, task))


def learners(_: object) -> Data:
    """List the learners with their settings, and whether their policies can play in a game."""
    described = [
        {"name": learner.name, "summary": learner.summary, "plays": learner.policy_input is PolicyInput.MACHINE}
        | {"settings": [setting._asdict() for setting in describe_settings(learner.settings)]}
        for learner in LEARNERS.values()
    ]
    return {"learners": described, "default": DEFAULT_LEARNER, "steps": LEARNERS[DEFAULT_LEARNER].steps}
