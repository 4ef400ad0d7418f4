"""What axe-core has to say against a page."""

from functools import cache
from importlib import resources

from playwright.sync_api import Page

# Say of each finding what is wrong, where, and why.
LOOK = """
async (rules) => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
  const told = (id, node) => [id, node.target.join(" "), node.failureSummary].join(" | ");
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => told(id, node)));
}
"""


@cache
def script() -> str:
    """Read axe-core, which comes with a package for playwright."""
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def findings(page: Page, *rules: str) -> list[str]:
    """List what is wrong with a page as it is now, also in its frames; `rules` leave out all others."""
    for frame in page.frames:
        frame.evaluate(script())
    return page.evaluate(LOOK, rules or None)


def rules_of(scheme: str) -> tuple[str, ...]:
    """Say what to look for: a page in dark differs in its colours alone."""
    return ("color-contrast",) if scheme == "dark" else ()
