"""Published levels: read from a study's file, kept in its folder, and shown beside what is measured."""

import csv
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import hocket as hk
from hocket.report.page import report_html
from hocket.report.performance import Curve
from hocket.report.summary import measure_level
from hocket.statistics import Quartiles
from hocket.study.running import run_study
from hocket.study.store import load_results
from hocket.study.study import Level, Published, Study, load_study, published_from
from worlds import meeting

pytestmark = pytest.mark.xdist_group("kernels")

SOURCE = "somebody, somewhere"
LEVELS = {("meeting", "dqprm"): Level(5.0, 1_000, 1.0), ("meeting", "hil"): Level(7.5, None, 0.5)}
PUBLISHED = Published(SOURCE, LEVELS, ("Theirs is <slower>.",))


def curve(medians: list[float], success: list[float] | None = None) -> Curve:
    middle = np.array(medians, float)
    steps = np.arange(1, len(middle) + 1) * 1_000
    shares = np.ones(len(middle)) if success is None else np.array(success)
    return Curve(steps, Quartiles(middle, middle, middle), shares, Quartiles(middle, middle, middle), shares)


def test_a_level_is_the_mean_of_the_last_ten_medians_and_when_the_smoothed_median_comes_near_it():
    # The trailing mean of ten is 1,000 up to test 10, then falls by 98 a test, and is 20 from test 20 on.
    found = measure_level(curve([1_000.0] * 10 + [20.0] * 30), 1_000)
    assert found == Level(20.0, 20_000, 1.0)


def test_a_level_that_is_near_from_the_first_test_on_is_reached_with_it():
    assert measure_level(curve([21.0, 20.0, 20.0, 20.0]), 1_000) == Level(20.25, 1_000, 1.0)


def test_a_curve_of_failures_is_never_reached():
    assert measure_level(curve([1_000.0] * 30, [0.0] * 30), 1_000) == Level(1_000.0, None, 0.0)


def test_success_is_that_of_the_last_fifty_tests():
    assert measure_level(curve([20.0] * 80, [0.0] * 30 + [0.5] * 25 + [1.0] * 25), 1_000).success == 0.75


def test_published_levels_survive_the_way_to_a_file_and_back():
    assert published_from(json.loads(json.dumps(PUBLISHED.document()))) == PUBLISHED


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("published = 3", "published"),
        ("[published]\nsource = 'x'", "published.levels"),
        ("[published]\nsource = 'x'\nlevels = [3]", "published.levels[1]"),
        ("[published]\nlevels = [{ task = 'a', learner = 'b', final = 3, success = 1 }]", "published.source"),
        ("[published]\nsource = 'x'\nlevels = [{ task = 'a', learner = 'b', final = 0, success = 1 }]", "final"),
        ("[published]\nsource = 'x'\nlevels = [{ task = 'a', learner = 'b', final = 3, success = 2 }]", "success"),
        ("[published]\nsource = 'x'\nlevels = [{ task = 'a', learner = 'b', final = 'x', success = 1 }]", "final"),
        ("[published]\nsource = 'x'\nlevels = [{ task = 'a', final = 3, success = 1 }]", "learner"),
        (
            "[published]\nsource = 'x'\nlevels = [{ task = 'a', learner = 'b', final = 3, success = 1, reached = -1 }]",
            "reached",
        ),
        ("[published]\nsource = 'x'\nlevels = [{ task = 'a', learner = 'b', best = 3 }]", "best"),
    ],
)
def test_published_levels_that_make_no_sense_are_refused_by_name(tmp_path, text, key):
    path = tmp_path / "study.toml"
    path.write_text(f'tasks = "buttons"\n{text}', encoding="utf-8")
    with pytest.raises(hk.HocketError) as caught:
        load_study(path)
    assert key in str(caught.value) and str(path) in str(caught.value)


def test_the_papers_study_names_what_its_authors_have_published():
    published = load_study("paper", 1).published
    assert published is not None and len(published.levels) == 9
    assert published.levels["rendezvous-10", "dqprm"] == Level(52.0, 19_000, 0.998)
    assert published.levels["rendezvous-10", "hil"] == Level(1000.0, None, 0.0)
    groups = {(group.task.name, group.learner): group for group in load_study("paper", 1).groups()}
    assert published.levels.keys() <= groups.keys()
    assert all(own.settings.wait_for_team for (_, learner), own in groups.items() if learner == "dqprm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("runs")
    run_study(Study([meeting()], ["dqprm", "hil", "iql"], 3, 12_000, published=PUBLISHED), found)
    return found


def test_a_folder_keeps_what_is_published_and_a_summary_sets_it_beside_what_is_measured(folder):
    summary = hk.summarize(load_results(folder))
    assert summary.published == PUBLISHED
    (section,) = summary.sections
    assert [own.label for own in section.published_levels] == ["dqprm", "hil"]
    assert section.kinds == ("softmax", "greedy")  # as what is published is of softmax tests
    first = section.published_levels[0]
    with (folder / "curves.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["learner"] == "dqprm" and row["policy"] == "softmax"]
    steps = [str(step) for step in range(3_000, 13_000, 1_000)]
    taken = [[int(row["test_steps"]) for row in rows if row["step"] == step] for step in steps]
    medians = [np.median(own) for own in taken]
    assert first.measured.final == np.mean(medians)
    assert first.difference == pytest.approx(first.measured.final / 5 - 1)


def test_what_run_study_returns_is_what_the_folder_holds(tmp_path):
    study = Study([meeting()], ["iql"], 2, 2_000, published=PUBLISHED)
    returned, read = run_study(study, tmp_path), load_results(tmp_path)
    assert [own.key for own in returned.records] == [own.key for own in read.records]
    assert returned.about == read.about and returned.tasks.keys() == read.tasks.keys()
    assert returned.scenes == read.scenes and returned.problems == read.problems
    more = run_study(Study([meeting()], ["iql"], 3, 2_000), tmp_path)
    assert len(more.records) == 3
    for one, other in zip(more.records, load_results(tmp_path).records, strict=True):
        assert one.key == other.key and one.settings == other.settings
        for kind, tests in one.tests.items():
            for part, same in zip(tests, other.tests[kind], strict=True):
                np.testing.assert_array_equal(part, same)


def test_the_page_shows_published_and_measured_side_by_side(folder):
    page = report_html(hk.summarize(load_results(folder)))
    assert "Published results" in page and SOURCE in page
    assert "Theirs is &lt;slower&gt;." in page and "Theirs is <slower>" not in page


def test_a_page_of_a_study_that_names_nothing_published_says_nothing_of_it_and_shows_greedy_tests_first(tmp_path):
    summary = hk.summarize(run_study(Study([meeting()], ["iql"], 1, 1_000), tmp_path))
    page = report_html(summary)
    assert "Published results" not in page and summary.sections[0].kinds == ("greedy", "softmax")
    table = page.partition("Final performance")[2].partition("</table>")[0]
    assert 0 < table.index("greedy") < table.index("softmax")


def test_damaged_published_levels_are_a_problem_and_not_the_end(folder, tmp_path):
    results = load_results(folder)
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**results.about, "published": {"levels": 3}}), encoding="utf-8")
    summary = hk.summarize(type(results)(tmp_path, json.loads(path.read_text("utf-8")), results.records, {}, (), ()))
    assert summary.published is None and "published" in summary.problems[0]


def test_print_and_json_show_published_and_measured(folder, hocket):
    study = folder / "again.toml"
    level = 'task = "rendezvous-2"\nlearner = "dqprm"\nfinal = 20\nreached = 8000\nsuccess = 1\n'
    runs = 'tasks = "rendezvous-2"\nlearners = "dqprm"\nseeds = 1\nsteps = 1000\n'
    study.write_text(f'{runs}[published]\nsource = "{SOURCE}"\n[[published.levels]]\n{level}', encoding="utf-8")
    code, out, err = hocket("study", study)
    assert code == 0, err
    assert f"Published values from {SOURCE}" in out and "8,000" in out
    code, out, _ = hocket("study", study, "--json")
    (row,) = json.loads(out)["learners"]
    assert row["published"] == asdict(Level(20.0, 8_000, 1.0)) and row["measured"]["final"] > 0
