"""How values show themselves in a notebook.

This is the only import of a later package: the module that draws a value needs the value, so it is loaded when a
notebook asks for it, and not before.
"""

from __future__ import annotations

from importlib import import_module


def shown(value: object, form: str) -> str | None:
    """Show a value as `svg` or `html`; None where there is too much to show, and notebooks take its text."""
    text: str | None = import_module("hocket.report.notebook").show(value, form)
    return text
