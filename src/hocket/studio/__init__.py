"""The studio: a page on this machine in which a task is drawn, proved, played and trained; see docs/studio.md."""
