"""One odd record, whatever is odd about it, never stops a report: it is shown as it is, or named and left out."""

import json
import shutil

import pytest

import hocket as hk
from hocket.study.running import run_study
from hocket.study.study import Study
from worlds import meeting

pytestmark = pytest.mark.xdist_group("kernels")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run_study(Study([meeting()], ["iql", "optimal"], 3, 2_000, {"test_every": 500}), folder)
    return folder


def other_steps(own):
    for tests in own["tests"].values():
        tests["step"] = [step + 1 for step in tests["step"]]


def one_test(own):
    for tests in own["tests"].values():
        for name in tests:
            tests[name] = tests[name][-1:]


def no_tests(own):
    for tests in own["tests"].values():
        for name in tests:
            tests[name] = []


def backward_steps(own):
    for tests in own["tests"].values():
        tests["step"] = tests["step"][::-1]


def one_kind_of_tests(own):
    del own["tests"]["greedy"]


def enormous_tests(own):
    for tests in own["tests"].values():
        tests["test_steps"] = [2**63 - 1 for _ in tests["step"]]


def steps_after_the_end(own):
    for tests in own["tests"].values():
        tests["step"] = [2**62 + step for step in tests["step"]]


def another_agent(own):
    review = own["review"]
    review["own_successes"].append(1)
    review["visits"].append(review["visits"][0])
    for replay in review["replays"].values():
        for name in ("x", "y", "states"):
            replay[name].append(replay[name][0])


def fewer_cells(own):
    own["review"]["visits"] = [row[:2] for row in own["review"]["visits"]]


def enormous_visits(own):
    own["review"]["visits"] = [[2**63 - 1 for _ in row] for row in own["review"]["visits"]]


def no_episodes(own):
    own["review"] |= {"episodes": 0, "successes": 0, "own_successes": [0, 0]}


def states_of_another_machine(own):
    for replay in own["review"]["replays"].values():
        replay["states"] = [[[0, "nowhere"]] for _ in replay["states"]]


def events_of_another_task(own):
    for replay in own["review"]["replays"].values():
        replay["events"] = [[1, "unheard of"]]


def outside_of_the_map(own):
    for replay in own["review"]["replays"].values():
        replay["x"] = [[1e300 for _ in row] for row in replay["x"]]


def unknown_settings(own):
    own["settings"] = {"depth": 3}


def endless_episodes(own):
    own["settings"]["max_episode_steps"] = 2**63 - 1


def no_episode_steps(own):
    own["settings"]["max_episode_steps"] = -5


def another_learner(own):
    own["learner"] = "unheard of"


def no_time(own):
    own["seconds"] = -1e308


def no_steps(own):
    own["steps"] = 0


def same_name_other_task(own):
    own["digest"] = "0" * 64


@pytest.mark.parametrize(
    "change",
    [
        other_steps, one_test, no_tests, backward_steps, one_kind_of_tests, enormous_tests, steps_after_the_end,
        another_agent, fewer_cells, enormous_visits, no_episodes, states_of_another_machine, events_of_another_task,
        outside_of_the_map, unknown_settings, endless_episodes, no_episode_steps, another_learner, no_time, no_steps,
        same_name_other_task,
    ],
)  # fmt: skip
def test_one_odd_record_of_a_learner_never_stops_a_report(finished, hocket, tmp_path, change):
    folder = shutil.copytree(finished, tmp_path / "runs", ignore=shutil.ignore_patterns("policies"))
    odd = [sorted(folder.glob(f"runs/meeting-{learner}-*.json"))[1] for learner in ("iql", "optimal")]
    for path in odd:
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))
    code, out, err = hocket("report", folder, "--figures", tmp_path / "figures")
    assert code == 0 and str(folder / "report.html") in out
    assert all(line.startswith(tuple(f"hocket: left out: {path}" for path in odd)) for line in err.splitlines())
    results = hk.load_results(folder)
    assert len(results.records) + len(results.problems) >= 6
