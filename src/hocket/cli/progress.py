"""How far a study is, on a terminal, while it runs."""

from __future__ import annotations

import time

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hocket.cli.terminal import make_console
from hocket.errors import printable
from hocket.study.running import Update

SHOWN_MEDIANS = 12  # groups on the progress display
BAR = 30  # characters


class Progress:
    """Shows how far a study is, on a terminal: jobs, speed, time left, and the medians of the latest tests."""

    def __init__(self) -> None:
        self.update: Update | None = None
        self.begin = time.perf_counter()
        console = make_console(stderr=True)
        console.soft_wrap = False
        self.live = Live(console=console, transient=True, refresh_per_second=8, get_renderable=self._render)
        self.is_shown = console.is_terminal

    def __enter__(self) -> Progress:
        if self.is_shown:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_shown:
            self.live.stop()

    def show(self, update: Update) -> None:
        """Take note of how far it is; drawing happens several times a second."""
        self.update = update

    def _render(self) -> RenderableType:
        update, seconds = self.update, time.perf_counter() - self.begin
        if update is None:
            return Text("compiling")
        share = update.steps / max(update.all_steps, 1)
        left = f"{seconds * (1 - share) / share:.0f} s left" if share else "compiling"
        line = Table.grid(padding=(0, 2))
        speed = f"{update.steps / seconds / 1e6:.1f} M agent-steps/s"
        bar = ProgressBar(total=max(update.all_steps, 1), completed=update.steps, width=BAR)
        line.add_row(f"{update.jobs:,} of {update.all_jobs:,} runs", bar, speed, left)
        medians = Table.grid(padding=(0, 2))
        for label, value in list(update.medians.items())[-SHOWN_MEDIANS:]:
            medians.add_row(Text(printable(label), "dim"), Text(f"{value:,.0f} test steps", "dim"))
        return Stack(line, medians)
