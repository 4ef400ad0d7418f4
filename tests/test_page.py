"""What a report says without scripts, what it gives them, and that nothing can break it or make it ask the network."""

import html
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.cli.study import write_pages
from hocket.draw.geometry import Shape
from hocket.draw.map_svg import map_svg, number_of
from hocket.draw.markup import data_block, tag
from hocket.draw.scene import Area, Scene, read_scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError
from hocket.report.page import report_html, write_report
from hocket.report.page.encoding import (
    FINEST,
    MOST_POINTS,
    Numbering,
    choose_episodes,
    curves_data,
    replay_data,
)
from hocket.report.page.standings import comparisons, number
from hocket.report.summary import GroupComparison, summarize
from hocket.statistics import Comparison, Interval
from hocket.study.records import Replay, TestSummary
from hocket.study.running import run_study
from hocket.study.store import load_results
from studies import (
    HOSTILE,
    QUOTED,
    drift_review,
    drift_scene,
    hostile_study,
    meeting_review,
    record,
    small_study,
    states_after,
    write_study,
)


class Reader(HTMLParser):
    """Collect the elements, the text and the scripts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.blocks, self.inside = [], [], {}, []
        self.feed(page)

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name in ("script", "style", "title"):
            self.inside.append((name, dict(attributes)))

    def handle_endtag(self, name):
        if self.inside and self.inside[-1][0] == name:
            self.inside.pop()

    def handle_data(self, data):
        if not self.inside:
            self.text.append(data)
        elif self.inside[-1][1].get("type") == "application/json":
            self.blocks[self.inside[-1][1]["id"]] = json.loads(data)

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return small_study(tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(scope="module")
def page(folder) -> str:
    return report_html(summarize(load_results(folder)))


@pytest.fixture(scope="module")
def reader(page) -> Reader:
    return Reader(page)


def page_of(folder: Path) -> str:
    return report_html(summarize(load_results(folder)))


# One page that needs nothing else.


def test_a_report_is_written_from_a_folder_or_from_what_was_read_of_it(folder, tmp_path, page):
    assert write_report(folder, tmp_path / "a.html") == tmp_path / "a.html"
    write_report(load_results(folder), tmp_path / "b.html")
    written, again = ((tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html"))
    assert written == again
    assert len(written) > len(page)  # which has no place, and so no links to the runs' files


def test_a_title_may_be_given(folder, tmp_path):
    write_report(folder, tmp_path / "a.html", title="Meeting <here>")
    assert "<title>Meeting &lt;here&gt;</title>" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_folder_that_is_none_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FormatError, match="nowhere: is not a folder of runs"):
        write_report(tmp_path / "nowhere", tmp_path / "a.html")


def test_the_same_folder_gives_the_same_bytes_for_any_order_of_sets(folder):
    code = (
        "import hashlib, sys\nfrom hocket.report.page import report_html\nfrom hocket.report.summary import summarize\n"
        "from hocket.study.store import load_results\n"
        "print(hashlib.sha256(report_html(summarize(load_results(sys.argv[1]))).encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_pages_and_figures_made_twice_from_a_folder_have_the_same_bytes(tmp_path):
    study = small_study(tmp_path / "runs")
    written = []
    for _ in range(2):
        paths = write_pages(summarize(load_results(study)), study)
        assert len(paths) > 2
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]


def test_nothing_refers_to_anything_outside_of_the_page(page, reader):
    assert set(re.findall(r"\w+://[^\s\"'<)]*", page)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"url\(([^)]*)\)", page)) == {"#hatching"}
    assert "@import" not in page and "fetch(" not in page
    targets = {own.get(key) for _, own in reader.elements for key in ("src", "href", "data", "action") if key in own}
    ids = {f"#{own['id']}" for _, own in reader.elements if "id" in own}
    assert targets - ids == {"data:,"}


def test_the_page_forbids_network_access(reader):
    (policy,) = [own["content"] for name, own in reader.elements if name == "meta" and "http-equiv" in own]
    assert policy.startswith("default-src 'none'")


def test_ids_are_unique(reader):
    ids = [own["id"] for _, own in reader.elements if "id" in own]
    assert len(ids) == len(set(ids))


# What it says.


def test_the_opening_counts_what_was_run(reader):
    words = "14 runs of 5 learners on rendezvous-2, buttons and drift, 1 to 3 seeds each; 2,000 to 6,000 training steps"
    assert f"{words} per run." in reader.words


def test_a_report_begins_with_its_answer_and_ends_with_versions(reader):
    assert reader.words.index("3 of 3 runs learnt; 81 steps greedy") < reader.words.index("14 runs of 5 learners")
    assert reader.words.index("How to read this Machines") < reader.words.index("Run with hocket")


def test_the_optimum_is_told_where_a_bound_proves_it(tmp_path):
    task = hk.load_task("rendezvous-2")
    runs = [record(task.name, task.digest, "dqprm", seed, [30, 18, 18, 18]) for seed in range(5)]
    words = Reader(page_of(write_study(tmp_path / "good", runs, [task]))).words
    assert "5 of 5 runs learnt; 16 steps greedy, the optimum is 16. 5 runs of dqprm on rendezvous-2;" in words
    slow = [record(task.name, task.digest, "dqprm", seed, [30, 22, 22, 22]) for seed in range(5)]
    words = Reader(page_of(write_study(tmp_path / "slow", slow, [task]))).words
    assert "20 steps greedy, at least 16 are needed." in words


def test_every_part_of_a_task_can_be_linked_to(reader):
    places = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    links = [attributes["href"][1:] for name, attributes in reader.elements if name == "a" and "href" in attributes]
    assert "task-1-Learning_curves" in links and {*links} <= places


def test_curves_of_several_tasks_stand_beside_each_other(page, tmp_path):
    assert page.count('class="curves small"') == 3
    one = page_of(write_study(tmp_path / "one", [record("x", "1" * 64, "dqprm", 0, [20, 20])]))
    assert "curves small" not in one


def test_verdicts_machines_and_known_events_need_no_script(page, reader):
    assert (
        "Decomposable: the team machine is bisimilar to the parallel composition of the 3 local reward machines."
        in reader.words
    )
    assert "local event set: Y, R, Goal" in reader.words
    assert page.count('class="machine"') == 4 + 3 + 3  # teams of three, two and two, and their own machines
    assert page.count("✓") == 3


def test_the_table_has_the_numbers_of_the_summary(folder, page):
    section = next(own for own in summarize(load_results(folder)).sections if own.title == "rendezvous-2")
    (dqprm,) = [group for group in section.groups if group.learner == "dqprm"]
    low, middle, high = dqprm.finals["softmax"].quartiles
    assert f'data-value="{middle:g}"' in page
    assert f"({number(low)} to {number(high)})" in page
    assert "never" in page  # iql


def test_bounds_are_told_in_numbers(reader):
    assert "0.900 ≤ V = 0.900 ≤ 0.900" in reader.words
    assert "A1 0.900 · A2 1.000" in reader.words


def test_the_successes_of_many_agents_are_told_as_a_range(tmp_path):
    review = TestSummary(10, 1, (*range(1, 11), 5, 6, 7), np.zeros((13, 0), np.int64), {})
    words = Reader(page_of(write_study(tmp_path / "many", [record("x", "2" * 64, "dqprm", 0, [9], review)]))).words
    assert "13 agents, 0.100 to 1.000" in words


def test_every_two_learners_are_compared(reader):
    assert "hil against dqprm 0.000, p = 0.333" in reader.words


def test_an_empty_study_says_so(tmp_path):
    reader = Reader(page_of(write_study(tmp_path / "none", [])))
    assert "There are no runs in this folder yet." in reader.words
    assert reader.blocks == {"curves": []}


def test_what_is_missing_and_what_could_not_be_read_is_named(folder):
    results = load_results(folder)
    problems = ("runs/broken.json: is not JSON", "tasks/x.toml: is not UTF-8")
    found = summarize(replace(results, about={**results.about, "missing": 2}, problems=problems))
    words = Reader(report_html(found)).words
    assert "2 runs of this study are not finished yet." in words
    assert "2 files could not be read; skipped: runs/broken.json: is not JSON" in words


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 0.4, "second"), (0.1, 0.5, "even"), (0.5, 0.9, "even"), (0.6, 0.9, "first")]
)
def test_a_comparison_is_even_where_its_interval_has_the_middle(low, high, verdict):
    pair = GroupComparison("one", "other", Comparison(Interval((low + high) / 2, low, high), 0.04), "greedy")
    assert f'class="row {verdict}"' in str(comparisons(SimpleNamespace(comparisons=[pair], has_returns=False)))


def test_runs_without_reviews_have_neither_bounds_nor_episodes(tmp_path):
    task = hk.load_task("buttons")
    page = page_of(write_study(tmp_path / "bare", [record("buttons", task.digest, "dqprm", 0, [30, 20])], [task]))
    assert "Theorem 3</h3>" not in page and 'class="replay"' not in page and "Watch" not in page
    assert 'class="curves"' in page and "Decomposable" in page


def test_runs_whose_task_is_not_there_still_have_their_curves(tmp_path):
    scene = scene_of(hk.load_task("rendezvous-2"))
    page = page_of(write_study(tmp_path / "lost", [record("gone", "0" * 64, "dqprm", 0, [30], meeting_review(scene))]))
    assert "its map and machines cannot be shown" in page
    assert 'class="curves"' in page and 'class="replay"' not in page
    assert "agent 1 0.900" in Reader(page).words


def test_a_verdict_of_no_has_a_cross(tmp_path):
    scene = replace(drift_scene(), verdict="Not decomposable.", notes=("After buoy all is lost.",), decomposable=False)
    words = Reader(page_of(write_study(tmp_path / "no", [record("d", scene.digest, "x", 0, [3])], (), [scene]))).words
    assert "✗ Not decomposable. After buoy all is lost." in words


def test_of_many_agents_a_few_machines_are_seen_and_others_folded_away(tmp_path):
    task = hk.load_task("rendezvous-30")
    own = record(task.name, task.digest, "dqprm", 0, [30])
    reader = Reader(page_of(write_study(tmp_path / "many", [own], [task])))
    assert "21 more agents; 6 others are not drawn" in reader.words
    assert sum("data-agent" in own for _, own in reader.elements) == 24


def test_a_machine_that_nobody_could_read_is_not_drawn(tmp_path):
    long = hk.RewardMachine(initial="0", transitions={(str(n), "on"): str(n + 1) for n in range(60)}, final={"60"})
    scene = replace(drift_scene(), machines={"Ann": long, "Bo": long}, knows={"Ann": ("on",), "Bo": ("on",)}, team=long)
    page = page_of(write_study(tmp_path / "long", [record("d", scene.digest, "x", 0, [3])], (), [scene]))
    assert page.count("61 states and 60 transitions, too many to draw") == 3


def test_a_scene_given_in_whole_numbers_has_the_fingerprint_of_what_is_read_back(tmp_path):
    scene = replace(drift_scene(), width=6, height=3, areas=(Area((Shape(0, 1, 2, 1),), "#df6823"),))
    (tmp_path / "scene.json").write_text(scene.text, encoding="utf-8")
    assert read_scene(tmp_path / "scene.json").digest == scene.digest


# What it must survive.


@pytest.mark.parametrize("name", [HOSTILE, QUOTED])
def test_no_name_becomes_markup_or_code(tmp_path, name):
    page = page_of(hostile_study(tmp_path / "hostile", name))
    reader = Reader(page)
    assert not any(own == "img" for own, _ in reader.elements)
    assert not any(key.startswith("on") for _, own in reader.elements for key in own)
    assert [own.get("type") for element, own in reader.elements if element == "script"] == [
        "application/json", "application/json", "module",
    ]  # fmt: skip
    assert page.count("<script") == page.count("</script>") == 3
    for part in ("place", "d", "v", "n", "A", "e"):
        assert f"{name}{part}" in reader.words
    assert f"{name}s" in reader.blocks["episodes-0"]["names"]
    assert {own["label"] for own in reader.blocks["curves"][0]["groups"]} == {f"{name}l, depth=0", f"{name}l, depth=1"}


def test_characters_that_html_does_not_allow_are_replaced():
    assert tag("p", "a\x00b\ud800c\x1bd\ne") == "<p>a\ufffdb\ufffdc\ufffdd\ne</p>"


@given(st.text())
def test_an_embedded_text_is_read_back_and_cannot_end_its_element(text):
    block = data_block("x", [text])
    inside = re.fullmatch(r'<script type="application/json" id="x">(.*)</script>', block)[1]
    assert "<" not in inside and json.loads(inside) == [text]
    block.encode()


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["A1", "A2"], ["1", "2"]),
        (["left 10", "right 10"], ["1", "2"]),
        (["Ann", "Bo"], ["1", "2"]),
        (["A1", "Bo"], ["1", "2"]),
        (["x7", "x3"], ["7", "3"]),
    ],
)
def test_agents_have_the_numbers_of_their_names_or_those_of_their_order(names, numbers):
    machine = hk.RewardMachine(initial="u", transitions={})
    scene = Scene("t", 1, 1, tuple(names), dict.fromkeys(names, machine), dict.fromkeys(names, ()))
    assert [number_of(scene, name) for name in names] == numbers


# What scripts are given.


def decoded(own) -> np.ndarray:
    """Read places back as the format is described, one agent after another."""
    found = []
    for agent, way in enumerate(own["ways"]):
        if isinstance(way, str):
            pairs = [divmod(ord(letter) - ord("A"), 5) for letter in way]
            moves = [[(0, 0), (0, -1), (1, 0), (0, 1), (-1, 0)][move] for pair in pairs for move in pair]
            deltas = np.array(moves[: own["length"]], float).reshape(-1, 2) * FINEST
        else:
            deltas = np.array(way, float).reshape(-1, 2)
        start = np.array(own["start"][2 * agent : 2 * agent + 2], float)
        found.append(np.concatenate([start[None], deltas]).cumsum(axis=0) / FINEST)
    return np.stack(found, axis=1)


def some_replay(places: np.ndarray) -> Replay:
    states = tuple(("u",) * places.shape[1] for _ in places)
    return Replay(True, places, states, ())


@given(st.integers(0, 9), st.lists(st.tuples(*[st.sampled_from([(0, 0), (0, -1), (1, 0), (0, 1), (-1, 0)])] * 2)))
def test_ways_from_cell_to_cell_are_told_in_letters_and_read_back(start, moves):
    steps = np.array([[(start, 3), (4, 5)], *moves], float)
    places = steps.cumsum(axis=0) + 0.5
    own = replay_data(some_replay(places), Numbering())
    assert all(isinstance(way, str) and len(way) == -(-len(moves) // 2) for way in own["ways"])
    np.testing.assert_array_equal(decoded(own), places)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=1))
def test_other_ways_are_read_back_to_a_hundredth_and_do_not_drift(path):
    places = np.array(path)[:, None, :]
    own = replay_data(some_replay(places), Numbering())
    assert np.abs(decoded(own) - places).max() <= 0.5 / FINEST + 1e-9


def test_states_and_events_are_told_by_number():
    scene = scene_of(hk.load_task("rendezvous-2"))
    names = Numbering()
    own = replay_data(meeting_review(scene).replays["greedy"], names)
    known = list(names)
    changes = [
        [(step, known[number]) for step, number in zip(line[::2], line[1::2], strict=True)] for line in own["states"]
    ]
    assert changes == [[(0, "0"), (7, "1"), (8, "2"), (17, "3")], [(0, "0"), (4, "1"), (8, "2"), (17, "3")]]
    happened = [(step, known[number]) for step, number in zip(own["events"][::2], own["events"][1::2], strict=True)]
    assert happened == [(4, "r2"), (7, "r1"), (8, "r"), (17, "g1"), (17, "g2")]


def test_where_room_is_scarce_every_learner_has_its_first_episodes(folder):
    summary = summarize(load_results(folder))
    everything = choose_episodes(summary)
    assert [own.left_out for own in everything] == [0, 0, 0]
    titles = [section.title for section in summary.sections]
    few = dict(zip(titles, choose_episodes(summary, characters=1_500), strict=True))
    assert few["rendezvous-2"].left_out > 0
    assert all(list(own) == ["0"] for own in few["rendezvous-2"].kept.values())
    assert len(few["rendezvous-2"].kept) == 3 and few["drift"].kept[0]["7"]["softmax"]["length"] == 24


def test_an_episode_with_other_agents_than_the_scene_is_left_out(tmp_path):
    scene = drift_scene()
    alone = Replay(True, np.ones((2, 1, 2)), (("out",), ("home",)), ())
    review = TestSummary(1, 1, (1,), np.zeros((1, 0), np.int64), {"softmax": alone})
    folder = write_study(tmp_path / "odd", [record("d", scene.digest, "x", 0, [3], review)], (), [scene])
    assert Reader(page_of(folder)).blocks["episodes-0"]["groups"] == []


def test_agents_that_start_in_one_place_are_drawn_side_by_side():
    scene = drift_scene()
    discs = re.findall(
        r'translate\((\S+) (\S+)\)"><title>[^<]*</title><circle r="([^"]*)"', map_svg(scene, [(1.0, 1.0), (1.0, 1.0)])
    )
    (left, top, radius), (right, bottom, _) = [tuple(map(float, disc)) for disc in discs]
    unit = 400 / 6
    assert (left + right) / 2 == pytest.approx(unit, abs=0.01) and top == bottom == pytest.approx(unit, abs=0.01)
    assert right - left >= 2 * radius - 0.01
    apart = re.findall(r'<circle r="([^"]*)"', map_svg(scene, [(1.0, 1.0), (2.0, 1.0)]))
    assert min(map(float, apart)) > radius


def test_curves_are_told_as_the_summary_has_them(folder, reader):
    for section, told in zip(summarize(load_results(folder)).sections, reader.blocks["curves"], strict=True):
        assert [own["label"] for own in told["groups"]] == [group.label for group in section.groups]
        for group, own in zip(section.groups, told["groups"], strict=True):
            for kind, curve in group.curves.items():
                found = own["curves"][kind]
                assert told["steps"][found["steps"]] == curve.step.tolist()
                np.testing.assert_allclose(found["quartiles"], curve.quartiles, atol=0.005)
                np.testing.assert_allclose(found["success"], curve.success, atol=0.0005)


def test_the_page_has_all_settings_of_every_run_and_leads_to_its_data(folder, tmp_path):
    summary = summarize(load_results(folder))
    for out, way in ((folder / "report.html", ""), (tmp_path / "a b" / "report.html", None)):
        out.parent.mkdir(exist_ok=True)
        page = write_report(summary, out).read_text(encoding="utf-8")
        assert page.count("All settings, and links to the data") == len(summary.sections)
        links = [html.unescape(own) for own in re.findall(r'href="([^"#]+)"', page) if not own.startswith("data:")]
        records = [own for own in links if own.endswith(".json") and not own.endswith("study.json")]
        assert len(records) == len(load_results(folder).records)
        assert all((out.parent / unquote(own)).is_file() for own in links if not own.endswith("curves.csv"))
        assert way is None or all(own.split("/")[0] in ("runs", "curves.csv", "study.json") for own in links)
    for section in summary.sections:
        for name in {name for group in section.groups for name in group.settings}:
            assert f">{name}</th>" in page


def test_a_page_on_more_runs_is_hardly_larger(tmp_path):
    def page(runs: int) -> str:
        folder = write_study(
            tmp_path / f"{runs}", [record("x", "1" * 64, "dqprm", seed, [20, 20]) for seed in range(runs)]
        )
        for place in range(runs):
            (folder / "runs" / f"odd-{place}.json").write_text("{}")
        return write_report(folder, folder / "report.html").read_text(encoding="utf-8")

    few, many = page(100), page(130)
    assert 'title="The record of seed 99"' in many and 'title="The record of seed 100"' not in many
    assert '<a href="runs/" title="The records of all runs">and 30 more</a>' in many and "more</a>" not in few
    assert many.count("is not a record of a run") == 100 and "<li>and 30 more</li>" in many
    assert "130 files could not be read" in many and len(many) - len(few) < 1_000


def test_settings_that_are_not_the_default_are_set_apart(tmp_path):
    records = [record("x", "1" * 64, "dqprm", 0, [20, 20], temperature=0.5, sync_literal=False)]
    page = report_html(summarize(load_results(write_study(tmp_path / "x", records))))
    row = re.search(r"<tr><th[^>]*>temperature</th>.*?</tr>", page)[0]
    assert "<b>0.5</b>" in row and "reward" in row
    assert "<td>no</td>" in re.search(r"<tr><th[^>]*>sync_literal</th>.*?</tr>", page)[0]
    assert 'href="runs/' not in page and "links to the data" not in page


def test_runs_that_nobody_kept_have_settings_and_no_links():
    runs = hk.train(hk.rendezvous(agents=2, rows=3, columns=3), seeds=1, steps=1_000)
    summary = summarize(runs)
    assert summary.folder is None and summary.sections[0].groups[0].policies == frozenset()
    assert "All settings<" in report_html(summary)


def test_policies_are_linked_where_they_were_kept(tmp_path):
    run_study(hk.Study([hk.rendezvous(agents=2, rows=3, columns=3)], seeds=2, steps=1_000), tmp_path)
    page = write_report(tmp_path, tmp_path / "report.html").read_text(encoding="utf-8")
    found = re.findall(r'href="(policies/[^"]+)"', page)
    assert len(found) == 2 and all((tmp_path / unquote(own)).is_file() for own in found)


def test_a_curve_of_very_many_tests_is_thinned(tmp_path):
    folder = write_study(tmp_path / "long", [record("x", "1" * 64, "dqprm", 0, [*range(10, 2511)])])
    (section,) = summarize(load_results(folder)).sections
    told = curves_data(section)
    assert len(told["steps"][0]) == 834 <= MOST_POINTS and told["steps"][0][:2] == [2000, 5000]
    assert told["groups"][0]["curves"]["softmax"]["quartiles"][1][:2] == [10.5, 12]  # of 10, 11; of 10 to 14


def test_a_study_of_long_episodes_stays_below_five_megabytes(tmp_path):
    """Ten agents that never stop for 1,000 steps, twenty episodes a learner: more than the paper's study has."""
    task = hk.load_task("rendezvous-10")
    scene, random = scene_of(task), np.random.default_rng(0)
    records = []
    for learner in ("dqprm", "hil", "iql"):
        for seed in range(10):
            moves = np.array([(0, 0), (0, -1), (1, 0), (0, 1), (-1, 0)])[random.integers(0, 5, (1001, 10))]
            places = moves.cumsum(axis=0) + 0.5
            events = tuple((step, f"{'rl'[step % 2]}{1 + step % 10}") for step in range(1, 1001))
            own = Replay(False, places, states_after(scene, 1001, events), events)
            review = TestSummary(1, 0, (0,) * 10, np.zeros((10, 0), np.int64), {"softmax": own, "greedy": own})
            records.append(record(task.name, task.digest, learner, seed, [1000] * 700, review))
    page = page_of(write_study(tmp_path / "large", records, [task]))
    assert len(page.encode()) < 5_000_000
    assert Reader(page).blocks["episodes-0"]["left_out"] == 0


def test_a_real_study_of_trained_teams_has_its_report(tmp_path):
    from hocket.study.running import run_study
    from hocket.study.study import Study

    task = hk.load_task("rendezvous-2")
    run_study(Study([task], ["dqprm", "optimal"], 2, 3_000), tmp_path / "real")
    reader = Reader(page_of(tmp_path / "real"))
    assert "4 runs of dqprm and optimal on rendezvous-2, 2 seeds each; 3,000 training steps per run" in reader.words
    groups = reader.blocks["episodes-0"]["groups"]
    assert [own["label"] for own in groups] == ["dqprm", "optimal"]
    assert all({*own["seeds"]} == {"0", "1"} for own in groups)
    greedy = groups[1]["seeds"]["0"]["greedy"]
    assert greedy["success"] and all(isinstance(way, str) for way in greedy["ways"])


def test_the_drifting_world_is_told_in_hundredths(reader):
    places = drift_review(drift_scene()).replays["softmax"].points
    titles = [own["groups"][0]["label"] for own in reader.blocks["curves"]]
    told = reader.blocks[f"episodes-{titles.index('boatswain')}"]["groups"][0]["seeds"]["7"]["softmax"]
    assert np.abs(decoded(told) - places).max() <= 0.5 / FINEST + 1e-9
