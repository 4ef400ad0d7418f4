"""When a page has come to rest, so that what is measured on it stays true."""

from itertools import count
from typing import NamedTuple

from playwright.sync_api import Page

# Nothing is awaited but what a test keeps back, and everything is where it was in the frame before.
AT_REST = """turn => {
  const awaited = Number(document.documentElement.dataset.awaited ?? 0) - (window.keptBack ?? 0);
  const place = ({ x, y, width, height }) => [x, y, width, height].join(" ");
  const all = [...document.querySelectorAll("body *")];
  const places = [turn, ...all.map((each) => place(each.getBoundingClientRect()))].join();
  const isStill = places === window.places;
  window.places = places;
  return awaited === 0 && isStill;
}"""
BOXES = """all => all.map((selector) => {
  const { x, y, width, height } = document.querySelector(selector).getBoundingClientRect();
  return [x, y, width, height];
})"""
QUIET = "() => Number(document.documentElement.dataset.awaited ?? 0) === (window.keptBack ?? 0)"
turns = count()


def settle(page: Page) -> None:
    """Wait until a page has all its answers and no longer moves; it is looked at in every frame."""
    page.wait_for_function(AT_REST, arg=next(turns))


class Box(NamedTuple):
    """Where something is on a page, in pixels."""

    x: float
    y: float
    width: float
    height: float


def boxes(page: Page, *selectors: str) -> list[Box]:
    """Measure where the first elements of selectors are, all at one moment, when the page has come to rest."""
    settle(page)
    return [Box(*box) for box in page.evaluate(BOXES, selectors)]


def quieten(page: Page) -> None:
    """Wait until a page has all its answers: a server would end the process whose work nobody waits for any more."""
    page.wait_for_function(QUIET)
