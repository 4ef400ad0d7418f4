"""The studio and a report in Firefox, too: what is tested in Chromium is not drawn by one browser alone."""

import pytest

from conftest import PATIENCE
from firefox import Firefox, find_firefox
from hocket.report.page import write_report
from studies import small_study
from test_studio_browser import BUTTONS, Server

pytestmark = pytest.mark.browser

VERDICT = 'document.querySelector("#verdict")?.dataset.kind'
TEXT = 'document.querySelector("#editor textarea").value'


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    program = find_firefox()
    if program is None:
        pytest.skip("there is no Firefox here; on Debian: apt-get install firefox-esr")
    started = Firefox(program, tmp_path_factory.mktemp("profile"), PATIENCE / 1000)
    yield started
    started.close()


def test_the_studio_checks_and_repairs_in_firefox(firefox, tmp_path):
    file = tmp_path / "task.toml"
    file.write_text(BUTTONS, encoding="utf-8")
    (tmp_path / "state").mkdir()
    server = Server(file, tmp_path / "state")
    try:
        firefox.open(server.address)
        firefox.wait(f'{VERDICT} === "yes"')
        firefox.click('[data-key="know A1 R"]')
        firefox.wait(f'{VERDICT} === "no"')
        assert 'knows = ["Y", "Goal"]' in firefox.ask(TEXT)
        firefox.click(".repair")
        firefox.wait(f'{VERDICT} === "yes"')
        assert firefox.ask(TEXT) == BUTTONS
        assert firefox.ask('document.querySelectorAll("#team .node").length') == 8
    finally:
        server.stop()


def test_a_report_is_drawn_and_replayed_in_firefox(firefox, tmp_path):
    folder = small_study(tmp_path / "small")
    firefox.open(write_report(folder, folder / "report.html").resolve().as_uri())
    chart = '.task .curves[data-section="0"]'
    firefox.wait(f"document.querySelectorAll('{chart} .series').length === 2")
    firefox.click(f"{chart} .toggles button")
    firefox.wait(f"document.querySelectorAll('{chart} .series').length === 1")
    player = '.replay[data-section="0"]'
    key = "new KeyboardEvent('keydown', { key: 'End', bubbles: true })"
    firefox.ask(f"document.querySelector('{player}').dispatchEvent({key})")
    firefox.wait(f"document.querySelector('{player}').dataset.step === '17'")
