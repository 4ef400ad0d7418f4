"""The letters of traces in which one event happens at a time, and sets of them as the bits of a number."""

from __future__ import annotations

END_MARK = "alive"  # Spot's proposition that a finite trace goes on


class Letters:
    """The letters over some propositions; with `alive` among them, also the one after the end of a trace.

    Bit j is the letter in which proposition j alone is true, the next bit the silent letter, and the one after it, if
    there is one, the end. Before the end `alive` is true beside them, and it is no event.
    """

    def __init__(self, propositions: tuple[str, ...]) -> None:
        self.propositions = propositions
        self.alive = propositions.index(END_MARK) if END_MARK in propositions else None
        self.events = sum(1 << j for j in range(len(propositions)) if j != self.alive)
        self.silence = 1 << len(propositions)
        self.end = 0 if self.alive is None else self.silence << 1
        self.every = self.events | self.silence | self.end

    def where(self, proposition: int) -> int:
        """The letters in which a proposition is true."""
        return self.every & ~self.end if proposition == self.alive else 1 << proposition

    def numbered(self, index: int) -> int:
        """The letter, if it is one of ours, in which just the propositions in the bits of `index` are true."""
        if self.alive is None:
            return (index or self.silence) if index.bit_count() <= 1 else 0
        if not index:
            return self.end
        others = index & ~(1 << self.alive)
        if others == index or others.bit_count() > 1:
            return 0
        return others or self.silence
