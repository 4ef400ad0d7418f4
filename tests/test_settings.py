"""Settings as they are told: by the commands, in the help, and on a page, all from what the dataclasses declare."""

import hashlib
import json
import re
from dataclasses import MISSING, asdict, fields
from pathlib import Path

import pytest

import hocket as hk
from hocket.cli.main import run
from hocket.cli.train import as_written, describe_settings, parse_sweeps, settings_page, shared_settings
from hocket.learn.catalogue import LEARNERS, default_learner, named_settings
from hocket.learn.settings import DEFAULT_LEARNER, DEVICES, NAMED_SETTINGS, declared, rename_settings
from hocket.study.records import keep_different, run_keys
from hocket.task.tables import compile_task

pytestmark = pytest.mark.xdist_group("kernels")

ALL = [(learner, own) for learner in LEARNERS.values() for own in describe_settings(learner.settings)]
NAMES = [f"{learner.name}.{own.name}" for learner, own in ALL]

REVIEWS = {"practice": 0, "final_review": False}  # what sweep did when these settings were added


@pytest.mark.parametrize(("learner", "own"), ALL, ids=NAMES)
def test_a_setting_says_what_it_means(learner, own):
    assert own.meaning and not own.meaning.endswith(".") and "|" not in own.meaning


@pytest.mark.parametrize(("learner", "own"), ALL, ids=NAMES)
def test_a_default_is_that_of_settings_made_without_arguments_and_is_written_as_the_command_takes_it(learner, own):
    value = getattr(learner.settings(), own.name)
    assert (value, type(value)) == (own.default, type(own.default))
    assert parse_sweeps(((f"{own.name}={as_written(own.default)}",),), [learner.name]) == {own.name: (own.default,)}


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=list(LEARNERS))
def test_every_setting_that_a_learner_uses_is_described_once(learner):
    names = [own.name for own in fields(learner.settings) if own.name not in learner.settings.unused]
    assert [own.name for own in describe_settings(learner.settings)] == names
    assert all(own.default is not MISSING for own in fields(learner.settings))


OF_TESTS = {
    "temperature",
    "max_episode_steps",
    "test_every",
    "test_episodes",
    "world",
}  # training itself looks at these


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=list(LEARNERS))
def test_a_learner_looks_at_all_settings_that_it_lists_and_at_no_other(learner):
    looked_at = set()

    class Watched(learner.settings):
        def __getattribute__(self, name):
            looked_at.add(name)
            return super().__getattribute__(name)

    settings, tables = Watched(), compile_task(hk.rendezvous(agents=2, rows=4, columns=4))
    looked_at.clear()  # what the checks of values have looked at
    learner.check(tables, settings)
    learner.block(tables, settings, [0], 1).train(0, 10)
    listed = {own.name for own in describe_settings(learner.settings)}
    assert listed <= looked_at | OF_TESTS
    assert not looked_at & learner.settings.unused


@pytest.mark.parametrize("learner", ["sweep", "optimal"])
def test_a_setting_that_a_learner_does_not_use_is_refused_with_those_that_use_it(learner, hocket):
    task, refusal = (
        hk.rendezvous(agents=1),
        f"{learner} has no setting 'learning_rate' (it is one of dqprm, hil, iql, cqrm)",
    )
    with pytest.raises(hk.HocketError, match=re.escape(refusal)):
        hk.train(task, learner, settings={"learning_rate": 0.5})
    with pytest.raises(hk.HocketError, match=re.escape(refusal)):
        hk.Study([task], [learner], settings={"learning_rate": 0.5})
    assert refusal in hocket("train", "rendezvous-1", "--learner", learner, "--set", "learning_rate=0.5")[2]
    with pytest.raises(hk.HocketError, match=r"learning_rate is not used by this learner and stays 0\.8, got 0\.5"):
        LEARNERS[learner].settings(learning_rate=0.5)


def test_of_several_learners_those_that_do_not_use_a_setting_run_once():
    study = hk.Study([hk.rendezvous(agents=1)], ["sweep", "dqprm"], settings={"learning_rate": [0.5, 0.8]})
    assert [(group.learner, group.settings.learning_rate) for group in study.groups()] == [
        ("sweep", 0.8),
        ("dqprm", 0.5),
        ("dqprm", 0.8),
    ]


def test_settings_that_are_not_used_are_part_of_what_a_run_is_known_by():
    (group,) = hk.Study([hk.rendezvous(agents=1)], ["optimal"], seeds=1, steps=1000).groups()
    assert asdict(group.settings)["learning_rate"] == 0.8  # so that runs of other versions are found again


def test_a_run_with_a_setting_that_was_added_later_keeps_its_key_as_long_as_the_setting_has_its_default():
    (group,) = hk.Study([hk.rendezvous(agents=1)], ["sweep"], seeds=1, steps=1000).groups()
    settings = asdict(group.settings)
    before = {name: value for name, value in settings.items() if name != "prior"}
    keys = [run_keys("digest", "sweep", [0], 1000, own) for own in (before, settings, {**settings, "prior": "flat"})]
    assert keys[0] == keys[1] != keys[2]
    for learner in LEARNERS.values():
        added = {name: value for name, value in learner.settings.added.items() if name not in REVIEWS}
        assert all(getattr(learner.settings(), name) == value for name, value in added.items())
    assert keep_different([{"steps": 1, **before}, {"steps": 2, **settings}]) == [{"steps": 1}, {"steps": 2}]


@pytest.mark.parametrize("name", REVIEWS)
def test_runs_of_sweep_from_before_teams_practised_or_were_reviewed_last_are_not_taken_for_those_of_today(name):
    settings = asdict(LEARNERS["sweep"].settings())
    before = {other: value for other, value in settings.items() if other != name}
    then = REVIEWS[name]
    keys = [run_keys("digest", "sweep", [0], 1000, each) for each in (before, settings | {name: then}, settings)]
    assert keys[0] == keys[1] != keys[2]
    assert keep_different([before, settings]) == [{name: then}, {name: settings[name]}]


@pytest.mark.parametrize(
    ("learner", "before", "word"),
    [("sweep", {"team_review": True}, "imagined"), ("sweep", {"team_review": False}, "off"), ("dqprm", {}, "off")],
)
def test_a_word_in_place_of_true_or_false_or_of_no_setting_keeps_the_key_of_a_run(learner, before, word):
    settings = asdict(LEARNERS[learner].settings(team_review=word))
    settings |= REVIEWS if learner == "sweep" else {}
    later = {"team_review", "prior", "share_world", "world", *REVIEWS}
    first = {name: value for name, value in settings.items() if name not in later} | before
    first["episode_steps"] = first.pop("max_episode_steps")
    first |= {"least_change": first.pop("priority_threshold")} if learner == "sweep" else {}
    listed = json.dumps(["digest", learner, 0, 1000, dict(sorted(first.items()))])
    key = hashlib.sha256(listed.encode()).hexdigest()
    assert run_keys("digest", learner, [0], 1000, settings) == {0: key}
    assert rename_settings(before).get("team_review", "off") == word
    assert run_keys("digest", learner, [0], 1000, settings | {"team_review": "world"})[0] != key


def test_true_and_false_are_still_taken_for_a_setting_that_is_a_word_now(hocket):
    groups = hk.Study(["buttons"], ["sweep"], settings={"team_review": [True, False, "world"]}).groups()
    assert [group.settings.team_review for group in groups] == ["imagined", "off", "world"]
    (group,) = hk.Study(["buttons"], ["sweep"], settings=parse_sweeps((("team_review=false",),), ["sweep"])).groups()
    assert group.settings.team_review == "off"
    with pytest.raises(hk.HocketError, match="team_review must be off or world, got 'imagined'"):
        hk.Study(["buttons"], ["dqprm"], settings={"team_review": "imagined"})


@pytest.mark.parametrize("value", ["steep", "", 1, True, None])
def test_a_setting_that_is_a_word_is_one_of_its_choices(value):
    with pytest.raises(hk.HocketError, match="prior must be distance or flat, got"):
        hk.Study(["buttons"], ["sweep"], settings={"prior": value})


def test_runs_that_differ_in_a_word_are_stored_named_and_found_again(tmp_path, hocket):
    assert hocket("train", "rendezvous-1", "--set", "prior=distance,flat", "--steps", "500", "--seeds", "1",
                  "--set", "test_every=500", "--out", tmp_path)[0] == 0  # fmt: skip
    assert {record.settings["prior"] for record in hk.load_results(tmp_path).records} == {"distance", "flat"}
    assert [policy.settings["prior"] for policy in hk.load_policies(tmp_path, "rendezvous-1")] == ["distance", "flat"]
    rows = json.loads(hocket("evaluate", "rendezvous-1", tmp_path, "--episodes", "10", "--json")[1])["runs"]
    assert [row["label"] for row in rows] == ["sweep, prior=distance", "sweep, prior=flat"]
    assert "prior=flat" in hk.summarize(tmp_path).sections[0].groups[1].label


def test_settings_that_learners_share_are_listed_once_with_their_learners():
    listed = [(own.name, name) for own, names in shared_settings(LEARNERS.values()) for name in names]
    assert sorted(listed) == sorted((own.name, learner.name) for learner, own in ALL)


def test_the_page_is_the_one_that_the_command_writes(hocket):
    page = Path("docs/settings.md").read_text(encoding="utf-8")
    assert hocket("learners", "--markdown") == (0, page, "")
    assert page == settings_page([*LEARNERS.values()])


def test_the_help_of_train_lists_every_setting_with_unit_default_and_meaning(hocket):
    code, out, err = hocket("train", "--help")
    said = " ".join(out.split())
    assert (code, err) == (0, "")
    for _, own in ALL:
        assert f"{own.name}={as_written(own.default)}{f' ({own.unit}' if own.unit else ''}" in said
        assert f"{own.meaning}; {own.rule}" in said


def test_the_help_of_other_commands_has_no_settings(hocket):
    assert "sync_probability" not in hocket("check", "--help")[1]


def test_learners_are_listed_with_a_sentence_each(hocket):
    code, out, err = hocket("learners")
    said = " ".join(out.split())
    assert (code, err) == (0, "")
    assert all(f"{own.name} {own.summary}" in said for own in hk.LEARNERS.values())
    assert said.count("; the default ") == said.count("; also on cuda, and the default there ") == 1
    assert said.count("; also on cuda") == 3


def test_a_learner_that_is_named_is_listed_with_its_settings(hocket):
    _, out, _ = hocket("learners", "hil")
    assert "bootstrap_past_end=true" in out and "sync_probability" not in out
    code, out, err = hocket("learners", "hill")
    assert code == 2 and "'hill' does not exist" in err and "hil" in err


def test_learners_as_json_have_all_settings(hocket):
    found = json.loads(hocket("learners", "--json")[1])
    assert [*found] == [*LEARNERS]
    assert {name: len(own["settings"]) for name, own in found.items()} == {
        name: len(declared(own.settings)) for name, own in LEARNERS.items()
    }
    assert {name for name, own in found.items() if own["default"]} == {DEFAULT_LEARNER}
    assert {device: [name for name, own in found.items() if device in own["default_on"]] for device in DEVICES} == {
        device: [default_learner(device)] for device in DEVICES
    }
    assert found["dqprm"]["settings"][0] == describe_settings(LEARNERS["dqprm"].settings)[0]._asdict()


# Settings by name.


@pytest.mark.parametrize("name", NAMED_SETTINGS)
def test_settings_by_name_are_all_some_learners(name):
    known = {own.name for learner in LEARNERS.values() for own in describe_settings(learner.settings)}
    assert NAMED_SETTINGS[name].keys() <= known


def test_the_papers_settings_are_the_defaults_of_its_learners_but_for_waiting():
    for learner in ("dqprm", "hil", "iql", "cqrm", "optimal"):
        usual, named = LEARNERS[learner].settings(), named_settings("paper", [learner])
        assert {name: value for name, value in named.items() if getattr(usual, name) != value} == (
            {"wait_for_team": True} if learner == "dqprm" else {}
        )


def test_settings_without_such_a_name_are_refused_with_the_nearest():
    with pytest.raises(hk.HocketError, match=r"settings 'papers' do not exist .*paper"):
        named_settings("papers", ["dqprm"])


def test_single_settings_change_those_that_have_a_name(capsys):
    words = ["train", "rendezvous-1", "--learner", "dqprm", "--seeds", "1", "--steps", "1000", "--settings", "paper"]
    assert run([*words, "--set", "discount=0.8", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["learners"]
    assert row["learner"] == "dqprm" and row["steps"] == 1000


def test_a_study_takes_settings_by_name(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('tasks = "rendezvous-1"\nlearners = ["dqprm", "iql"]\nsettings = "paper"\n', encoding="utf-8")
    one, other = hk.load_study(path).groups()
    assert one.settings.wait_for_team and other.steps == 250_000
    path.write_text('tasks = "rendezvous-1"\nsettings = "peper"\n', encoding="utf-8")
    with pytest.raises(hk.HocketError, match="settings 'peper' do not exist"):
        hk.load_study(path)
