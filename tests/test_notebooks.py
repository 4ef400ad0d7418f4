"""What notebooks show, and that the notebook in examples/ runs and shows what it says."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import hocket as hk
from test_store import record
from worlds import meeting

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "tour.ipynb"


def texts(svg: str) -> list[str]:
    """List the words in a drawing."""
    root = ET.fromstring(svg)
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_machine_shows_its_states_and_events():
    machine = hk.RewardMachine(initial="here", transitions={("here", "walk"): "there"}, final={"there"})
    assert {"here", "there", "walk"} <= set(texts(machine._repr_svg_()))


def test_a_machine_that_is_too_large_to_draw_shows_its_text():
    long = hk.RewardMachine(initial="0", transitions={(str(i), "go"): str(i + 1) for i in range(400)}, final={"400"})
    assert long._repr_svg_() is None


def test_a_task_shows_its_map_and_machines():
    shown = texts(hk.load_task("buttons")._repr_svg_())
    assert {"buttons", "team", "A1", "yellow button"} <= set(shown)


def test_a_decomposition_shows_its_verdict_and_machines():
    fine = hk.load_task("buttons").decomposition._repr_html_()
    assert "composition of the 3 local reward machines." in fine and "<svg" in fine and "<?xml" not in fine
    broken = hk.load_task("buttons").with_knows({"A1": {"Y", "Goal"}}).decomposition._repr_html_()
    assert "Not decomposable." in broken and "The projection of A1 merges u1 and u6" in broken


def test_a_decomposition_into_many_parts_shows_its_verdict_alone():
    shown = hk.rendezvous(50).decomposition._repr_html_()
    assert "composition of the 50 local reward machines." in shown and "<svg" not in shown


def test_hostile_names_stay_names():
    name = "<script>alert(1)</script>"
    machine = hk.RewardMachine(initial=name, transitions={(name, "a & b"): "x"}, final={"x"})
    shown = hk.decompose(machine, {"A1": {"a & b"}})._repr_html_() + machine._repr_svg_()
    assert "<script" not in shown


def test_curves_show_themselves(tmp_path):
    summary = hk.summarize(hk.save_records(tmp_path, [record(seed) for seed in range(3)]))
    [section] = summary.sections
    ET.fromstring(section._repr_svg_())
    shown = summary._repr_html_()
    assert "<svg" in shown and "<table>" in shown and "meeting" in shown
    assert re.search(r"<td>dqprm</td><td>3</td><td>softmax</td>", shown)


@pytest.mark.xdist_group("kernels")
def test_runs_that_training_returned_show_themselves():
    shown = hk.summarize(hk.train(meeting(), "dqprm", 3, 3_000))._repr_html_()
    assert "<svg" in shown and "<td>dqprm</td>" in shown


@pytest.mark.xdist_group("kernels")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::RuntimeWarning")
def test_the_notebook_runs_and_shows_what_it_says():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    stored = nbformat.read(NOTEBOOK, as_version=4)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(fresh, timeout=300, kernel_name="python3").execute()
    assert [said(cell) for cell in fresh.cells] == [said(cell) for cell in stored.cells]
    kinds = {kind for cell in stored.cells for output in cell.get("outputs", ()) for kind in output.get("data", ())}
    assert {"image/svg+xml", "text/html", "text/plain"} <= kinds


def said(cell) -> list[str]:
    """List what a cell printed or returned as text; addresses and drawings differ between machines."""
    found = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", ())]
    return [re.sub(r"0x[0-9a-f]+|/\S*tmp\S*", "", text) for text in found]
