"""A game: somebody walks some agents, and the others act at random, by optimal policies, or as they have learnt.

A game is what was pressed: the same task, seed, teammates and moves give the same moment. So the page keeps the moves,
and neither a restart of the server nor going back a step loses anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from hocket.draw.scene import Moment
from hocket.draw.task_scene import scene_of
from hocket.errors import SettingsError, known_names
from hocket.learn.catalogue import LEARNERS, references
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import reference_teammates, trained_teammates
from hocket.learn.settings import DEFAULT_LEARNER, describe_settings
from hocket.studio.pictures import Data
from hocket.studio.understanding import closed_areas, number_in, task_in
from hocket.study.policies import load_policies
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.grid import ACTIONS
from hocket.task.settling import check_labelling
from hocket.task.task import Task

ME, RANDOM, TRAINED = "me", "random", "trained"
MOST_STEPS = 1_000  # of a game
MOST_SEEDS = 1_000_000

Moves = Sequence[Mapping[str, str]]  # in each step, the actions of those who are walked


class StudioGame:
    """An episode in progress, and what it was asked for."""

    def __init__(self, task: Task, mates: Mapping[str, str], seed: int, policies: Path | None) -> None:
        self.task, self.mates = task, mates
        self.is_sound = check_labelling(task).ok and task.decomposition.ok
        self.episode = TeamEpisode(task, seed, strict=self.is_sound)
        self.scene = scene_of(task)
        self.moves: list[Mapping[str, str]] = []
        self.events: list[tuple[int, str]] = []  # after which step, counted from 1, and what
        self.kinds = {kind: _teammates(task, kind, policies) for kind in {*mates.values()} - {ME}}

    def step(self, move: Mapping[str, str]) -> None:
        """Let everyone act."""
        chosen = {kind: choose(self.episode) for kind, choose in self.kinds.items()}
        actions = {
            name: move.get(name, ACTIONS[-1]) if kind == ME else chosen[kind][name] for name, kind in self.mates.items()
        }
        done = self.episode.step(actions)
        self.events += [(self.episode.time, event) for event in done.events]
        self.moves.append(move)

    @property
    def outcome(self) -> str | None:
        """How it has ended, if it has."""
        if self.episode.done:
            return "completed" if self.episode.completed else "disagreed"
        return "ran out" if self.episode.time >= MOST_STEPS else None

    def state(self) -> Data:
        """Tell the page where everybody is, in which states, who waits for whom, and what has happened."""
        episode = self.episode
        return {
            "time": episode.time,
            "cells": [episode.cells[name] for name in self.task.agents],
            "states": dict(episode.states),
            "finished": episode.finished,
            "team": episode.team_state_name,
            "waiting": {name: [event, *others] for name, (event, others) in episode.waiting.items()},
            "closed": closed_areas(self.scene, Moment(episode.cells, episode.states)),
            "events": [list(event) for event in self.events],
            "outcome": self.outcome,
            "sound": self.is_sound,
        }


_last: dict[str, StudioGame] = {}  # the game that was played last, by what was asked for; more are not kept


def play(job: Mapping[str, object]) -> Data:
    """Play a game up to where it is: from where it was, if it only has gone on."""
    task = task_in(job, "play")
    given, moves, seed = job.get("mates"), _moves(job, task), number_in({"seed": 0, **job}, "seed", 0, MOST_SEEDS)
    kinds = (ME, RANDOM, TRAINED, *references())
    mates = {name: str(given.get(name, RANDOM) if isinstance(given, dict) else RANDOM) for name in task.agents}
    for kind in mates.values():
        if kind not in kinds:
            raise SettingsError(f"an agent cannot be {kind!r:.40} ({known_names(kind, kinds)})")
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
        if not isinstance(move, dict) or any(
            agent not in task.agents or action not in ACTIONS for agent, action in move.items()
        ):
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
    """Tell which learners there are, with their settings, and who can be a teammate."""
    return {
        "learners": [
            {
                "name": learner.name,
                "summary": learner.summary,
                "plays": learner.policy_input is PolicyInput.MACHINE,
                "settings": [setting._asdict() for setting in describe_settings(learner.settings)],
            }
            for learner in LEARNERS.values()
        ],
        "default": DEFAULT_LEARNER,
        "steps": LEARNERS[DEFAULT_LEARNER].steps,
    }
