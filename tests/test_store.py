"""Folders of runs: what is written is read back, and what is damaged or foreign is named and left out."""

import csv
import hashlib
import io
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.draw.scene import Area, Scene, read_scene
from hocket.draw.task_scene import scene_of
from hocket.learn.catalogue import shapes_on
from hocket.report.summary import MOST_COMPARED, summarize
from hocket.study.curves import COLUMNS, curves_csv
from hocket.study.records import (
    Record,
    Replay,
    TestEpisodes,
    TestSummary,
    parse_record,
    slug,
    varied_settings,
    write_record,
)
from hocket.study.store import (
    Results,
    keep_records,
    keep_task,
    load_results,
    open_store,
    sum_up,
)
from strategies import quick
from worlds import corridor, meeting

TASK = meeting()


def trials(*taken: int, most: int = 100) -> TestEpisodes:
    """Tests at steps 10, 20, ... that took so many steps."""
    steps = np.arange(1, len(taken) + 1) * 10
    return TestEpisodes(steps, np.array(taken, np.int64), np.array([own < most for own in taken], np.bool_))


def replay(steps: int = 2) -> Replay:
    places = np.stack([np.full((steps + 1, 2), 0.5), np.arange(2 * (steps + 1)).reshape(-1, 2) + 0.5], axis=2)
    states = (*[("apart", "apart")] * steps, ("together", "together"))
    return Replay(True, places, states, ((steps, "meet"),))


def record(seed: int = 0, learner: str = "dqprm", **changes) -> Record:
    """A record made by hand."""
    about = {
        "task": TASK.name,
        "digest": TASK.digest,
        "learner": learner,
        "seed": seed,
        "steps": 30,
        "settings": {"discount": 0.9, "max_episode_steps": 100, "counterfactual": True},
        "tests": {"softmax": trials(100, 7, 5), "greedy": trials(100, 5, 4)},
        "seconds": 1.5,
        "test_summary": TestSummary(10, 9, (10, 9), np.arange(12).reshape(2, 6), {"softmax": replay()}),
    }
    return Record(**{**about, **changes})


def same(one: Record, other: Record) -> bool:
    return write_record(one) == write_record(other)


def test_a_record_with_former_names_of_settings_is_the_same_run():
    written = write_record(record()).replace('"max_episode_steps"', '"episode_steps"')
    read = parse_record(written)
    assert read.settings == record().settings and read.key == record().key


@pytest.fixture
def folder(tmp_path):
    """A folder with four runs of two learners."""
    store = open_store(tmp_path / "runs")
    keep_task(store, TASK)
    records = [record(seed, learner) for learner in ("dqprm", "iql") for seed in (0, 1)]
    keep_records(store, [(own, None) for own in records])
    sum_up(store, records, missing=0)
    return store


# Records.


def test_a_record_is_read_as_it_was_written():
    found = parse_record(write_record(record()))
    assert same(found, record())
    assert found.key == record().key
    assert np.array_equal(found.test_summary.visits, record().test_summary.visits)
    assert np.array_equal(found.test_summary.replays["softmax"].points, replay().points)
    assert found.test_summary.replays["softmax"].states == replay().states
    assert found.test_summary.replays["softmax"].events == replay().events


def test_a_record_without_a_review_is_read_as_it_was_written():
    assert parse_record(write_record(record(test_summary=None))).test_summary is None


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"steps": 31}, {"learner": "iql"}, {"digest": "other"}, {"settings": {"discount": 0.8}}],
    ids=str,
)
def test_a_key_tells_apart_all_that_results_depend_on(changes):
    assert record().key != record(**changes).key


def test_a_key_does_not_depend_on_what_results_do_not_depend_on():
    assert record().key == record(seconds=9.0, task="other name", test_summary=None, tests={}).key


def test_names_become_names_that_every_file_system_takes():
    assert slug("../../etc/passwd") == "_.._etc_passwd"
    assert slug("") == slug("...") == "_"
    assert len(slug("x" * 500)) == 40
    assert "/" not in record(task="a/b\\c:").name


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)
)


@given(data=st.data())
def test_a_record_with_anything_changed_is_refused_or_read(data):
    document = json.loads(write_record(record()))
    inner = document
    while True:  # walk to some place in it
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(inner[key], dict | list) or not inner[key] or data.draw(st.booleans()):
            break
        inner = inner[key]
    if data.draw(st.booleans()):
        inner[key] = data.draw(leaves)
    else:
        del inner[key]
    try:
        found = parse_record(json.dumps(document))
    except hk.HocketError:
        return
    assert same(parse_record(write_record(found)), found)


@pytest.mark.parametrize("name", ["step", "test_steps"])
def test_a_record_with_a_number_below_zero_is_refused(name):
    document = json.loads(write_record(record()))
    for tests in document["tests"].values():
        tests[name][0] = -1
    with pytest.raises(hk.HocketError, match="is not a record of a run"):
        parse_record(json.dumps(document))


@given(st.text(max_size=40) | leaves.map(json.dumps))
def test_a_text_that_is_no_record_is_refused(content):
    with pytest.raises(hk.HocketError, match="is not a record of a run"):
        parse_record(content)


@given(st.integers(0, 10_000))
def test_a_record_that_is_cut_off_is_refused(length):
    content = write_record(record())
    with pytest.raises(hk.HocketError, match="is not a record of a run"):
        parse_record(content[: length % (len(content) - 2)])


# Folders.


def test_a_folder_is_read_as_it_was_written(folder):
    results = load_results(folder)
    assert [(own.learner, own.seed) for own in results.records] == [("dqprm", 0), ("dqprm", 1), ("iql", 0), ("iql", 1)]
    assert results.problems == ()
    assert results.tasks[TASK.digest].machine == TASK.machine
    assert summarize(results).sections[0].scene == scene_of(TASK)
    assert results.policy(results.records[0]) is None


def test_damaged_and_foreign_files_are_named_and_left_out(folder):
    (folder / "runs" / "foreign.json").write_text('{"hello": 1}', encoding="utf-8")
    (folder / "runs" / "binary.json").write_bytes(b"\xff\xfe\x00")
    (folder / "runs" / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / "tasks" / "broken.toml").write_text("map = ", encoding="utf-8")
    (folder / "tasks" / "scene.json").write_text("[]", encoding="utf-8")
    (folder / "study.json").write_text("{", encoding="utf-8")
    results = load_results(folder)
    assert len(results.records) == 4
    problems = summarize(results).problems  # a scene is for a report to read
    assert {*results.problems} < {*problems}
    assert sorted(problem.split(": ")[0].rsplit("/", 1)[-1] for problem in problems) == [
        "binary.json",
        "broken.toml",
        "foreign.json",
        "scene.json",
        "study.json",
    ]


def test_a_folder_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(hk.errors.FormatError, match="nothing: is not a folder of runs"):
        load_results(tmp_path / "nothing")


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(hk.errors.FormatError, match="file: cannot be made"):
        open_store(tmp_path / "file")


def test_others_read_a_folder_without_hocket(folder):
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(folder / "curves.csv")
    last = table[(table.policy == "greedy") & (table.step == 30)]
    assert last.groupby("learner").test_steps.median().to_dict() == {"dqprm": 4.0, "iql": 4.0}
    assert table.success.mean() == pytest.approx(2 / 3)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_has_the_rows_and_columns_of_the_curves(library, folder, tmp_path):
    pytest.importorskip(library)
    swept = [
        Record("a", "d", learner, seed, 10, settings, {kind: trials(5 + seed, 100) for kind in kinds})
        for learner, settings, kinds in (
            ("dqprm", {"depth": 1, "greed": True}, ("softmax", "greedy")),
            ("dqprm", {"depth": 2, "greed": False}, ("greedy",)),
            ("iql", {}, ("softmax",)),
        )
        for seed in range(2)
    ]
    for results in (load_results(folder), Results(tmp_path, {}, tuple(swept), {}, (), ())):
        frame = getattr(results, f"to_{library}")()
        rows = list(csv.reader(io.StringIO(b"".join(curves_csv(results.records)).decode())))
        assert list(frame.columns) == rows[0]
        assert {type(value) for value in frame["success"].to_list()} == {bool}
        values = [[*map(int, column)] if name == "success" else column for name, column in lists(frame).items()]
        assert [[as_in_csv(value) for value in row] for row in zip(*values, strict=True)] == rows[1:]
    empty = getattr(Results(tmp_path, {}, (), {}, (), ()), f"to_{library}")()
    assert len(empty) == 0 and list(empty.columns) == list(COLUMNS)


def lists(frame) -> dict[str, list]:
    return {name: frame[name].to_list() for name in frame.columns}


def as_in_csv(value) -> str:
    """Write a value as curves.csv does: nothing where a setting is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def test_a_data_frame_of_a_library_that_is_not_there_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(hk.HocketError, match="a data frame of polars needs polars: pip install polars"):
        load_results(folder).to_polars()


def test_policies_of_a_task_are_found_among_those_of_others(tmp_path):
    settings = {"max_episode_steps": 100, "temperature": 0.02}
    for task in (TASK, corridor(3)):
        store = open_store(tmp_path)
        arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes_on(task)("dqprm").items()}
        policy = hk.Policy(task.name, task.digest, "dqprm", 0, settings, arrays)
        keep_records(store, [(record(task=task.name, digest=task.digest), policy.packed())])
    assert [policy.task for policy in hk.load_policies(tmp_path, TASK)] == ["meeting"]
    with pytest.raises(hk.errors.FormatError, match=r"its policies belong to other tasks .*corridor, meeting"):
        hk.load_policies(tmp_path, hk.load_task("buttons"))


# Tables.


def table(records) -> str:
    return b"".join(curves_csv(records)).decode()


NUMBERS = st.integers(0, 30) | st.integers(9_990, 10_010) | st.integers(0, 2**63 - 1)
TESTS = st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), max_size=8).map(
    lambda rows: (
        TestEpisodes(*(np.array(own, kind) for own, kind in zip(zip(*rows, strict=True), KINDS_OF, strict=True)))
        if rows
        else TestEpisodes(*(np.zeros(0, kind) for kind in KINDS_OF))
    )
)
KINDS_OF = (np.int64, np.int64, np.bool_)


@given(st.lists(TESTS, min_size=2, max_size=3), st.sampled_from(["meeting", 'a "b", c', "ä, ☃"]))
def test_a_table_and_a_record_are_what_pythons_writers_make_of_the_same_numbers(runs, name):
    records = [
        record(
            seed,
            task=name,
            settings={"discount": 1 / (seed + 1)},
            tests={"softmax": own, "greedy": runs[0]},
            test_summary=None,
        )
        for seed, own in enumerate(runs)
    ]
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(["task", "learner", "seed", "step", "policy", "test_steps", "success", "discount"])
    for own in records:
        for kind, tests in own.tests.items():
            for step, taken, success in zip(*(column.tolist() for column in tests[:3]), strict=True):
                rows.writerow([name, "dqprm", own.seed, step, kind, taken, int(success), own.settings["discount"]])
        text = write_record(own)
        assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) + "\n"
        assert json.loads(text)["tests"] == {
            kind: {column: getattr(tests, column).tolist() for column in tests._fields[:3]}
            for kind, tests in own.tests.items()
        }
    assert table(records) == buffer.getvalue()


def test_a_key_is_the_fingerprint_of_all_that_a_run_depends_on():
    own = record(7)
    settings = {"counterfactual": True, "discount": 0.9, "episode_steps": 100}  # sorted, by their first names
    parts = [own.digest, own.learner, 7, own.steps, settings]
    assert own.key == hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def test_what_a_study_says_has_a_line_for_each_run(folder):
    text = (folder / "study.json").read_text()
    about = json.loads(text)
    assert len(about["runs"]) == 4 and all(
        f"  {json.dumps(run)}" in text.replace(",\n", "\n").split("\n") for run in about["runs"]
    )
    assert len(text.splitlines()) < 4 + len(about) + 10


def test_settings_that_set_runs_apart_have_a_column_each():
    low, high = (record(settings={"discount": value, "max_episode_steps": 100}) for value in (0.5, 0.9))
    other = record(learner="iql", settings={"max_episode_steps": 100})
    found = list(csv.DictReader(io.StringIO(table([low, high, other]))))
    assert {(row["learner"], row["discount"]) for row in found} == {("dqprm", "0.5"), ("dqprm", "0.9"), ("iql", "")}
    assert varied_settings([low, high, other])[2] == {}


def test_runs_of_different_lengths_are_told_apart():
    short, long = record(), record(steps=60)
    assert varied_settings([short, long]) == [{"steps": 30}, {"steps": 60}]


def test_lengths_on_different_tasks_set_nothing_apart():
    assert varied_settings([record(), record(steps=60, digest="other")]) == [{}, {}]


def test_two_tasks_of_one_name_are_told_apart_in_the_table():
    content = table([record(), record(digest="f" * 64)])
    assert {row["task"] for row in csv.DictReader(io.StringIO(content))} == {
        f"meeting {TASK.digest[:6]}",
        "meeting ffffff",
    }


# Scenes.


@pytest.mark.parametrize("name", ["buttons", "rendezvous-3", "warehouse", "rooms"])
def test_a_scene_is_read_as_it_was_written(name, tmp_path):
    scene = scene_of(hk.load_task(name))
    (tmp_path / "scene.json").write_text(scene.text, encoding="utf-8")
    assert read_scene(tmp_path / "scene.json") == scene


def test_a_world_that_is_not_hockets_is_kept_by_its_scene(tmp_path):
    machine = hk.RewardMachine(initial="a", transitions={("a", "go"): "b"}, final={"b"})
    disc = Area.disc((1.0, 1.0), 0.5, "#0072b2", "home", "H", gates=[("A1", "go")])
    scene = Scene("plane", 4.0, 3.0, ("A1",), {"A1": machine}, {"A1": ("go",)}, machine, (disc,), verdict="Fine.")
    own = record(task="plane", digest=scene.digest, learner="sac", test_summary=None)
    results = hk.save_records(tmp_path, [own], [scene])
    assert results.records[0].key == load_results(tmp_path).records[0].key == own.key
    assert (tmp_path / "curves.csv").read_text(encoding="utf-8").splitlines()[1] == "plane,sac,0,10,softmax,100,0"
    (path,) = results.scenes
    assert read_scene(path) == scene
    [section] = summarize(results).sections
    assert section.scene == scene and section.groups[0].label == "sac"


@quick
@given(data=st.data())
def test_a_scene_with_anything_changed_is_refused_or_read(data, tmp_path_factory):
    document = json.loads(scene_of(TASK).text)
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = data.draw(leaves)
    path = tmp_path_factory.mktemp("scene") / "scene.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        found = read_scene(path)
    except hk.HocketError:
        return
    path.write_text(found.text, encoding="utf-8")
    assert read_scene(path) == found


# What a report says.


def test_a_summary_says_what_can_be_worked_out_by_hand(folder):
    summary = summarize(load_results(folder))
    [section] = summary.sections
    assert section.most_steps == 100
    assert [group.label for group in section.groups] == ["dqprm", "iql"]
    group = section.groups[0]
    assert group.seeds == (0, 1)
    assert group.curves["softmax"].each.median.tolist() == [100, 7, 5]
    assert group.curves["softmax"].each_success.tolist() == [0, 1, 1]
    assert group.curves["softmax"].quartiles.median.tolist() == [100, 53.5, 7]  # of 100; of 100, 7; of 100, 7, 5
    assert group.curves["softmax"].success.tolist() == [0, 0.5, pytest.approx(2 / 3)]
    assert group.finals["softmax"].quartiles == (7, 7, 7)
    assert group.finals["softmax"].success.value == pytest.approx(2 / 3)
    assert group.bounds.episodes == 20
    assert group.bounds.success.value == 0.9
    assert (group.bounds.lower, group.bounds.upper) == (pytest.approx(0.9), 0.9)
    assert group.visits.tolist() == (2 * np.arange(12).reshape(2, 6)).tolist()
    assert [(*pair[:2], pair.comparison.probability.value, pair.policy) for pair in section.comparisons] == [
        ("dqprm", "iql", 0.5, "greedy"),
        ("dqprm", "iql", 0.5, "softmax"),
    ]


def test_learners_are_compared_under_each_kind_of_policy_that_both_were_tested_with(tmp_path):
    tests = {"softmax": trials(5, 5), "greedy": trials(4, 4)}
    kinds = {"a": ("softmax", "greedy"), "b": ("greedy",), "c": ("softmax", "greedy")}
    runs = [
        Record("t", "d", learner, seed, 10, {}, {kind: tests[kind] for kind in own})
        for learner, own in kinds.items()
        for seed in range(2)
    ]
    [section] = summarize(Results(tmp_path, {}, tuple(runs), {}, (), ())).sections
    assert [(pair.first, pair.second, pair.policy) for pair in section.comparisons] == [
        ("a", "b", "greedy"), ("a", "c", "greedy"), ("b", "c", "greedy"), ("a", "c", "softmax"),
    ]  # fmt: skip


def test_of_many_groups_the_best_is_compared_with_each_of_the_others(tmp_path):
    few, many = MOST_COMPARED, MOST_COMPARED + 1
    for count, pairs in ((few, few * (few - 1) // 2), (many, many - 1)):
        runs = [
            Record("a", "d", "dqprm", seed, 10, {"depth": own}, {"softmax": trials(50 - own, 50 - own + seed)})
            for own in range(count)
            for seed in range(2)
        ]
        [section] = summarize(Results(tmp_path, {}, tuple(runs), {}, (), ())).sections
        assert len(section.comparisons) == pairs
    assert {pair.first for pair in section.comparisons} == {f"dqprm, depth={many - 1}"}
    assert len({pair.second for pair in section.comparisons}) == many - 1


def test_optimal_policies_are_a_level_and_not_a_learner(folder):
    keep_records(folder, [(record(learner="optimal", tests={"softmax": trials(4, 4, 4)}), None)])
    [section] = summarize(load_results(folder)).sections
    assert [group.label for group in section.groups] == ["dqprm", "iql"]
    assert section.level("softmax") == 4
    assert section.level("greedy") is None


def test_runs_that_end_early_are_compared_as_far_as_all_go(folder):
    more = {"softmax": trials(100, 8), "greedy": trials(100, 8)}
    keep_records(folder, [(replace(record(seed=2), tests=more), None)])
    group = summarize(load_results(folder)).sections[0].groups[0]
    assert group.curves["softmax"].step.tolist() == [10, 20]
    assert group.curves["softmax"].each.median.tolist() == [100, 7]


def test_several_tests_at_one_step_are_one_test_of_several_episodes(folder):
    twice = TestEpisodes(np.array([10, 10, 20, 20]), np.array([100, 8, 6, 4]), np.array([False, True, True, True]))
    results = hk.save_records(folder, [record(learner="x", tests={"softmax": twice})])
    group = summarize(results).sections[0].groups[-1]
    assert group.curves["softmax"].step.tolist() == [10, 20]
    assert group.curves["softmax"].each.median.tolist() == [54, 5]
    assert group.curves["softmax"].each_success.tolist() == [0.5, 1]
    assert group.curves["softmax"].quartiles.median.tolist() == [54, 7]  # of 100, 8; of 100, 8, 6, 4
    assert group.curves["softmax"].success.tolist() == [0.5, 0.75]
    assert group.finals["softmax"].learnt_after == 20


def test_the_last_point_of_a_curve_is_what_the_table_says(folder):
    for group in summarize(load_results(folder)).sections[0].groups:
        for kind, curve in group.curves.items():
            final = group.finals[kind]
            assert tuple(float(line[-1]) for line in curve.quartiles) == final.quartiles
            assert curve.success[-1] == pytest.approx(final.success.value)


def test_one_failure_in_ten_tests_moves_the_median_of_a_run_by_a_step_or_so(tmp_path):
    spoilt = [
        record(seed=seed, tests={"softmax": trials(*[20] * 10, *[21] * seed, 100, *[21] * (9 - seed))})
        for seed in range(3)
    ]
    group = summarize(hk.save_records(tmp_path, spoilt)).sections[0].groups[0]
    assert {*group.curves["softmax"].quartiles.median.tolist()} <= {20, 20.5, 21}
    assert group.finals["softmax"].success.value == pytest.approx(0.9)


def test_runs_that_never_learn_are_later_than_all_others(tmp_path):
    learns, fails = trials(*[100] * 5, *[20] * 20), trials(*[100] * 25)
    for number, expected in ((1, (60, "60 (2 of 3 runs)")), (2, (None, "never (1 of 3 runs)")), (3, (None, "never"))):
        runs = [record(seed=seed, tests={"softmax": fails if seed < number else learns}) for seed in range(3)]
        final = summarize(hk.save_records(tmp_path / str(number), runs)).sections[0].groups[0].finals["softmax"]
        assert (final.learnt_after, final.learnt_in_words) == expected
        assert final.learnt == 3 - number


def test_limits_of_success_are_over_runs_and_not_over_tests(tmp_path):
    # Ten runs, of which five always succeed and five never do: pooled tests would give 0.5 with limits of +- 0.1.
    runs = [record(seed=seed, tests={"softmax": trials(*[100 if seed % 2 else 20] * 10)}) for seed in range(10)]
    group = summarize(hk.save_records(tmp_path, runs)).sections[0].groups[0]
    success = group.finals["softmax"].success
    assert success.value == 0.5 and success.limits == pytest.approx((0.187, 0.813), abs=0.001)
