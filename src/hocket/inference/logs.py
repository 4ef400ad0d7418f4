"""What was observed: episodes of attempted events, each accepted or refused, and whether the task was done."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from hocket.errors import HocketError, shown
from hocket.lazy import explain_kinds
from hocket.machine.names import Names, check_name

Observed = Literal["all", "reward", "effective"]
OBSERVED: tuple[Observed, ...] = get_args(Observed)


class LogError(HocketError):
    """A log that breaks a rule of its format, or that no machines can explain."""


class Attempt(NamedTuple):
    """An event that was attempted in an episode."""

    event: str
    accepted: bool  # whether it happened; in a log that shows rewards only this says nothing
    done: bool = False  # whether the team's task was complete after it


class Episode(NamedTuple):
    """Attempts in their order, from the initial state of the team's task on."""

    name: str
    attempts: tuple[Attempt, ...]

    @property
    def accepted(self) -> tuple[str, ...]:
        """The events that happened: a trace of the team machine."""
        return tuple(attempt.event for attempt in self.attempts if attempt.accepted)


@explain_kinds
@dataclass(frozen=True)
class Log:
    """Episodes, and what they show: `all` (attempts, accepted or refused), `reward` (attempts and completion; a refused
    event is ignored silently), or `effective` (accepted events only).
    """

    episodes: tuple[Episode, ...]
    observed: Observed = "all"

    def __post_init__(self) -> None:
        if self.observed not in OBSERVED:
            raise LogError(f"observed must be one of {', '.join(OBSERVED)}, got {shown(self.observed)}")
        for name, attempts in self.episodes:
            for attempt, following in pairwise(attempts):
                if attempt.done:
                    raise LogError(
                        f"episode {name} goes on with {following.event} after it was done by {attempt.event}"
                    )
            if attempts and attempts[-1].done and not attempts[-1].accepted:
                raise LogError(f"episode {name} is done by {attempts[-1].event}, which was refused")

    @cached_property
    def events(self) -> Names:
        """The events that were attempted, in the order in which they were first seen."""
        distinct = dict.fromkeys(attempt.event for episode in self.episodes for attempt in episode.attempts)
        return Names(check_name(event, "an event") for event in distinct)

    @property
    def attempts(self) -> int:
        return sum(len(episode.attempts) for episode in self.episodes)

    def as_csv(self) -> str:
        """Write the log as `read_log` reads it."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("episode", "event", "accepted", "done"))
        for name, attempts in self.episodes:
            writer.writerows((name, event, int(accepted), int(done)) for event, accepted, done in attempts)
        return text.getvalue()


def make_log(episodes: Iterable[Sequence[Attempt | tuple[str, bool] | tuple[str, bool, bool]]]) -> Log:
    """Make a log from lists of (event, accepted[, done]).

    >>> make_log([[("key", True), ("door", True, True)], [("door", False)]]).attempts
    3
    """
    numbered = enumerate(episodes, start=1)
    return Log(tuple(Episode(str(number), tuple(Attempt(*row) for row in rows)) for number, rows in numbered))
