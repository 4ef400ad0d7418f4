"""export: a trained team's Markov chain in a model checker's format."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import Flag, MaybeNumber, MaybeText, Words, flat, option
from hocket.cli.terminal import make_console, print_json
from hocket.errors import SettingsError


@dataclass(frozen=True)
class ExportTeam:
    """Write a trained team's Markov chain for a model checker: Storm (.drn) or PRISM (.tra, .lab, .sta)."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name or a file."""
    runs: Annotated[Positional[Path], option("FOLDER")]
    """The folder that `hocket train --out` wrote."""
    output: Annotated[Path, option("FILE", "-o")]
    """The file to write. Of .tra, .lab and .sta all three are written."""
    learner: Annotated[MaybeText, option("NAME")] = None
    """The learner whose policy is exported (default: the first)."""
    seed: MaybeNumber = None
    """The seed whose policy is exported (default: the first)."""
    softmax: Flag = False
    """Sample from the softmax policy instead of taking the greedy action."""
    event: Annotated[Words, option("EVENT")] = ()
    """Events that are labels of states (default: all)."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.evaluation.export import export_team  # loads scipy
        from hocket.study.policies import load_policies
        from hocket.task.catalogue import load_task

        task = load_task(self.target)
        policies = [
            policy
            for policy in load_policies(self.runs, task)
            if self.learner in (None, policy.learner) and self.seed in (None, policy.seed)
        ]
        if not policies:
            raise SettingsError(f"{self.runs} has no policy of this learner and seed")
        policy, events = policies[0], flat(self.event)
        console = make_console(stderr=True)
        with console.status("") as line:
            written = export_team(
                task, policy, self.output, greedy=not self.softmax, events=events or None, progress=line.update
            )
        kind = "softmax" if self.softmax else "greedy"
        if self.json:
            about = {"learner": policy.learner, "seed": policy.seed, "policy": kind}
            print_json({"task": task.name, **about, **asdict(written), "files": [str(file) for file in written.files]})
            return 0
        files = ", ".join(str(file) for file in written.files)
        size = f"{written.states:,} states, {written.transitions:,} transitions"
        console = make_console()
        console.print(f"Wrote {files}: {size}; the {kind} policy of {policy.learner}, seed {policy.seed}.")
        console.print(f"Labels: {', '.join(written.labels.values())}", style="dim")
        if written.never:
            console.print(f"In no state, so without a label: {', '.join(written.never)}", style="dim")
        return 0
