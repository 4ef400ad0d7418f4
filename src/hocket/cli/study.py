"""study: run a study that is written in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.runs import OnRuns
from hocket.cli.terminal import MaybeNumber, option


@dataclass(frozen=True)
class RunStudy(OnRuns):
    """Run a study that is written down: tasks, learners, settings and seeds in all combinations."""

    study: Annotated[Positional[str], option("STUDY")]
    """A file (.toml), or a built-in name (paper, paper-quick)."""
    seeds: MaybeNumber = None
    """How many runs, in place of what the study says."""

    def run(self) -> int:
        from hocket.study.study import load_study  # loads the compiler

        return self.report(load_study(self.study, self.seeds))
