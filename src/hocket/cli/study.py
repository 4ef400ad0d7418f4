"""study: run a study that is written in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import MaybeNumber, option
from hocket.cli.runs import TrackedOptions


@dataclass(frozen=True)
class RunStudy(TrackedOptions):
    """Run a study file: all combinations of tasks, learners, settings and seeds."""

    study: Annotated[Positional[str], option("STUDY")]
    """A file (.toml), or a built-in name (paper, paper-quick, generality)."""
    seeds: MaybeNumber = None
    """Number of seeds, instead of the study's."""

    def run(self) -> int:
        from hocket.study.study import load_study  # loads the compiler

        return self.execute(load_study(self.study, self.seeds))
