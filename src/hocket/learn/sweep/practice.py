"""Practice: if a team relies on moves that no agent has tried, its agents train together for some episodes.

An agent that trains with simulated teammates may never reach cells that it visits in the team: the simulated teammates
are ready sooner, or its own task is complete from the start. So all agents of a team take training steps together. Each
acts by its optimistic values and updates its model as in training alone, but events need the actual teammates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hocket.learn.sweep import kernel
from hocket.learn.sweep.planning import Sweeper
from hocket.random import start_draw
from hocket.task.bodies import hold_all_apart
from hocket.task.tables import Tables, settle
from hocket.task.teamwork.play import patience_of

EPISODES = 4  # in a bout, at most
SHARE_PRACTISED = 16  # a bout takes at most one step in so many of those so far; then the team is reviewed again


class Practice:
    """A bout: a few team episodes of one seed, which can be interrupted after every step."""

    def __init__(
        self, tables: Tables, parameters: kernel.SweepParameters, team: Sequence[Sweeper], bout: int, most_steps: int
    ) -> None:
        self.tables, self.parameters, self.team = tables, parameters, team
        self.bout, self.steps_left = bout, most_steps
        self.patience, self.quiet = patience_of(tables), 0  # steps without an event: the limit, and so far
        self.episodes_left = EPISODES
        self.has_begun = False

    @property
    def is_over(self) -> bool:
        """Whether all steps were taken, or all episodes played."""
        return not (self.steps_left and self.episodes_left)

    def train(self, begin: int, stop: int) -> int:
        """Take steps of training until one is reached or the bout is over; return the step that comes next."""
        if not self.has_begun:
            self.has_begun = True
            self._restart(begin - 1)
        while begin < stop and not self.is_over:
            self._step(begin)
            begin += 1
        if self.is_over:
            self._restart(begin - 1)
        return begin

    def _step(self, time: int) -> None:
        """Let everyone act once."""
        tables, team = self.tables, self.team
        before, state = (np.array([[agent.lane.now[part] for agent in team]]) for part in range(2))
        arrival = [kernel.act_lane(agent.lane, agent.view.world, self.parameters, time) for agent in team]
        cell = np.array([arrival], np.int64) % tables.cells
        if len(tables.body):
            cell = hold_all_apart(tables.body_rule, tables.body, before, cell)
        settled = settle(tables, tables.kinds(before, cell), state)
        for place, agent in enumerate(team):
            agent.lane.now[:2] = cell[0, place], settled.state[0, place]
        self.steps_left, self.quiet = self.steps_left - 1, 0 if settled.rounds else self.quiet + 1
        if tables.is_final[np.arange(len(team)), settled.state[0]].all() or self.quiet >= self.patience:
            self.episodes_left -= 1
            self._restart(time)

    def _restart(self, time: int) -> None:
        """Begin everyone's next episode after a step."""
        self.quiet = 0
        for agent in self.team:
            lane = agent.lane
            place = start_draw(int(lane.key), time + 1, len(lane.starts))
            lane.now[:] = lane.starts[place], lane.initial, 0
