"""Nothing from outside crashes hocket, fills its memory or writes on its terminal: numbers, policies, pipes, names."""

import io
import json
import math
import os
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as any_array
from pettingzoo import ParallelEnv

import hocket as hk
from hocket.cli.terminal import harmless
from hocket.errors import printable
from hocket.learn.catalogue import LEARNERS
from hocket.learn.policies import Policy, load_policy
from hocket.learn.testing import recording
from hocket.learn.training import check_seeds, check_tests, train_batch
from hocket.machine.formats import toml
from hocket.study.policies import load_policies
from hocket.task.tables import compile_task
from worlds import at, line, meeting

pytestmark = pytest.mark.xdist_group("kernels")

# Rewards.


def paying(reward: float) -> hk.Task:
    """Reward an agent for every arrival at the end of a corridor, with a given amount."""
    machine = hk.RewardMachine(
        initial="away",
        transitions={("away", "arrive"): "there", ("there", "leave"): "away"},
        rewards={("away", "arrive"): reward},
    )
    conditions = {"arrive": at(A1="end"), "leave": {"A1": hk.Condition("end", inside=False)}}
    agent = hk.Agent(0, ("arrive", "leave"))
    return hk.Task("paying", line(3, end=2), {"A1": agent}, conditions, machine)


@pytest.mark.parametrize("reward", [1.1e9, -3.5e38, 1e300])
def test_a_task_refuses_a_reward_out_of_range(reward):
    with pytest.raises(hk.errors.TaskError, match=r"machine.rewards.away.arrive: a reward must be between"):
        paying(reward)


def test_the_largest_rewards_are_learnt_without_leaving_the_numbers():
    (run,) = hk.train(paying(1e9), "dqprm", 1, 20_000, settings={"discount": 1.0, "temperature": 1e-6})
    q = run.policy.arrays["q"]
    assert np.isfinite(q).all() and q.max() > 1e9


def test_rewards_that_cannot_be_added_are_refused():
    parts = [
        hk.RewardMachine(initial="a", transitions={("a", "go"): "a"}, rewards={("a", "go"): 1.7e308}) for _ in range(2)
    ]
    with pytest.raises(hk.errors.MachineError, match="too large to be added"):
        hk.compose(*parts)


# Numbers in tables that nothing has checked.

ODD = st.sampled_from([math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-40, 0.0, -0.0, 1.0])


@pytest.mark.parametrize("learner", LEARNERS)
@given(data=st.data(), temperature=st.sampled_from([1e-6, 0.02, 1e6]))
def test_kernels_choose_valid_actions_for_any_values(learner, data, temperature):
    task = meeting(slip=0.1)
    tables, agents = compile_task(task), 2
    shapes = LEARNERS[learner].shapes(tables)
    q = {name: data.draw(any_array(np.float32, shape, elements=ODD.map(np.float32))) for name, shape in shapes.items()}
    player, record = LEARNERS[learner].player(tables, temperature, 50), recording(50, agents)
    for greedy in (False, True):
        taken = player.play(q, 1, 0, greedy, record)
        length = 50 if taken < 0 else taken
        assert ((record.action[:length] >= 0) & (record.action[:length] < 5)).all()
        assert ((record.cell[:length] >= 0) & (record.cell[:length] < tables.cells)).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
@pytest.mark.parametrize("learner", [name for name in LEARNERS if name != "optimal"])
def test_training_continues_from_any_values(learner, value):
    task = meeting(slip=0.1)
    tables, kind = compile_task(task), LEARNERS[learner]
    block = kind.block(tables, kind.settings(), range(20), 1)
    for index in range(20):
        for array in block.arrays(index).values():
            array[...] = np.float32(value)
    block.train(0, 300)
    (run,) = train_batch(batch_of(task, learner), tables)
    assert run.steps == 10


def batch_of(task: hk.Task, learner: str):
    from hocket.learn.batches import Batch

    return Batch(task, learner, LEARNERS[learner].settings(), [0], 10)


# Policies.


@pytest.fixture(scope="module")
def policy() -> Policy:
    (run,) = hk.train(meeting(), "dqprm", 1, 300)
    return run.policy


def in_folder(policy: Policy, folder: Path) -> Path:
    (folder / "policies").mkdir(parents=True)
    policy.save(folder / "policies" / "one.npz")
    return folder


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_policy_whose_values_are_no_numbers_is_refused(policy, value, tmp_path):
    q = policy.arrays["q"].copy()
    q[0, 0, 0, 0] = value
    wrong = replace(policy, arrays={"q": q})
    wrong.save(tmp_path / "policy.npz")
    with pytest.raises(hk.HocketError, match=r"policy.npz: a policy's values must be finite numbers"):
        load_policy(tmp_path / "policy.npz")
    for use in (hk.evaluate, hk.evaluate_exact):
        with pytest.raises(hk.HocketError, match="a policy's values must be finite numbers"):
            use(meeting(), wrong)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": math.nan}, "a policy's temperature must be a number between"),
        ({"temperature": 0}, "a policy's temperature must be"),
        ({"temperature": 1e-300}, "a policy's temperature must be"),
        ({"max_episode_steps": 10**15}, "a policy's max_episode_steps must be an integer between 1 and 1,000,000"),
        ({"max_episode_steps": 10**400}, "a policy's max_episode_steps must be"),
        ({"max_episode_steps": 0.5}, "a policy's max_episode_steps must be"),
        ({"discount": 2}, "a policy's discount must be"),
        ({"fun": 2}, "does not say how it was trained"),
    ],
)
def test_a_policy_whose_settings_are_out_of_range_is_refused(policy, changes, message, tmp_path):
    wrong = replace(policy, settings={**policy.settings, **changes})
    folder = in_folder(wrong, tmp_path / "runs")
    with pytest.raises(hk.HocketError, match=f"one.npz: .*{message}"):
        load_policies(folder, meeting())
    for use in (hk.evaluate, hk.evaluate_exact):
        with pytest.raises(hk.HocketError, match=message):
            use(meeting(), wrong)
    with pytest.raises(hk.HocketError, match=message):
        hk.save_runs(meeting(), [run_of(wrong)], tmp_path / "saved")


def run_of(policy: Policy):
    from hocket.learn.policies import Run

    return Run((), policy, LEARNERS["dqprm"].settings(), 10, 0.0)


def npy(array: np.ndarray, shape: tuple[int, ...] | None = None) -> bytes:
    buffer = io.BytesIO()
    about = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape if shape is None else shape}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue() + array.tobytes()


def archive_of(policy: Policy, path: Path, **entries: bytes) -> Path:
    about = {key: getattr(policy, key) for key in ("task", "digest", "learner", "seed")}
    text = json.dumps({**about, "settings": dict(policy.settings)}).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("about.npy", npy(np.frombuffer(text, np.uint8)))
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_a_policy_that_unpacks_to_more_than_its_task_needs_is_refused_unread(policy, tmp_path, monkeypatch):
    """A file of 40 kB would unpack to 40 MB; of the arrays nothing but a header is read."""
    (tmp_path / "policies").mkdir()
    path = archive_of(policy, tmp_path / "policies" / "bomb.npz", q=npy(np.zeros(10**7, np.float32)))
    assert path.stat().st_size < 100_000
    read = zipfile.ZipExtFile.read

    def guarded(file: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        data = read(file, n)
        assert len(data) < 100_000
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", guarded)
    with pytest.raises(hk.HocketError, match=r"bomb.npz: is not a policy"):
        load_policies(tmp_path, meeting())


@pytest.mark.parametrize(
    "entries",
    [
        {"q": npy(np.zeros(4, np.float32), (2, 3))},
        {"q": npy(np.zeros(4, np.float32), (2, 1))},
        {"q": npy(np.zeros(4, np.float32), (10**12,))},
        {"q": npy(np.zeros(4, np.float32), (-4,))},
        {"q": npy(np.zeros(4, np.float32)), "r": npy(np.zeros(4, np.float32))},
        {"q": npy(np.zeros(4, np.float32)).replace(b"(4,)", b"((4,")},
        {},
    ],
)
def test_arrays_whose_sizes_do_not_fit_their_file_or_task_are_refused(policy, entries, tmp_path):
    (tmp_path / "policies").mkdir()
    archive_of(policy, tmp_path / "policies" / "odd.npz", **entries)
    with pytest.raises(hk.HocketError, match=r"odd.npz: is not a policy"):
        load_policies(tmp_path, meeting())


def test_policies_of_other_tasks_are_not_unpacked(policy, tmp_path):
    folder = in_folder(policy, tmp_path / "runs")
    other = replace(policy, task="elsewhere \u202e", digest="0" * 64)
    archive_of(other, folder / "policies" / "other.npz", q=b"not an array")
    assert [own.task for own in load_policies(folder, meeting())] == ["meeting"]
    (folder / "policies" / "one.npz").unlink()
    with pytest.raises(hk.HocketError, match=r"belong to other tasks \(elsewhere \\u202e, or another version of it"):
        load_policies(folder, meeting())


# Pipes and devices.


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("suffix", [".toml", ".json", ".txt", ".dot", ".hoa"])
def test_a_pipe_is_not_waited_for(suffix, tmp_path, hocket):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    code, out, err = hocket("check", tmp_path / f"pipe{suffix}")
    assert (code, out) == (2, "") and "it is a device or a pipe, and not a file" in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_in_a_folder_of_runs_are_named_and_left_out(tmp_path, hocket):
    hk.save_runs(meeting(), hk.train(meeting(), "dqprm", 1, 1_000), tmp_path)
    for place in ("runs/x.json", "tasks/x.toml", "policies/x.npz"):
        os.mkfifo(tmp_path / place)
    assert len(hk.load_results(tmp_path).problems) == 2
    with pytest.raises(hk.HocketError, match=r"x.npz: cannot be read: it is a device or a pipe"):
        load_policies(tmp_path, meeting())


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there are no such devices")
def test_a_device_is_not_read(tmp_path, hocket):
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    for command in ("check", "show", "repair", "train", "study"):
        code, out, err = hocket(command, tmp_path / "endless.toml")
        assert (code, out) == (2, "") and "it is a device or a pipe, and not a file" in err


# What is printed.

OBEYED = "\x1b[31mX\x1b]0;title\x07\u202e\x9b\r"  # a terminal turns red, takes a title, writes backwards


def assert_harmless(*printed: str) -> None:
    for text in printed:
        assert text.replace("\n", "").isprintable()


@pytest.fixture
def hostile(tmp_path) -> Path:
    """Make a folder whose name a terminal would obey."""
    folder = tmp_path / f"a{OBEYED}\nb"
    folder.mkdir()
    return folder


FILES = {
    "list.txt": f"0 # x\n(0, 1, '{OBEYED}', 0)\n",
    "initial.txt": OBEYED,
    "reward.txt": f"0\n(0, 1, 'a', {OBEYED})\n",
    "state.txt": f"0\n(0, '{OBEYED}', 'a', 1)\n",
    "edge.dot": f'digraph {{ "{OBEYED}" -> "b" }}',
    "head.hoa": f"HOA: v1\nStart: {OBEYED}\n",
    "name.hoa": f'HOA: v1\nStates: 1\nAP: 1 "{OBEYED}"\nStart: 0\n--BODY--\n--END--\n',
    "bare.toml": OBEYED,
    "key.toml": '"\\u001b[31m" = 3',
    "format.toml": 'name = "\u202e"\nmap = 3',
    "raw.json": f'{{"{OBEYED}": 3}}',
    "key.json": json.dumps({OBEYED: 3}),
    "half.json": json.dumps({"\ud800": 3, "name": "\ud800"}),
    "long.json": json.dumps({"x" * 10**6: 3}),
    "name.json": json.dumps({"name": "x" * 10**6, "map": "1"}),
    "digits.json": json.dumps({"initial": 10**400, "slip": 10**400}),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["check", "show", "repair", "play", "train", "study", "report", "evaluate"])
def test_what_a_file_says_is_shown_and_never_obeyed(command, name, hostile, hocket):
    (hostile / name).write_text(FILES[name], encoding="utf-8")
    more = [hostile] if command == "evaluate" else []
    code, out, err = hocket(command, hostile / name, *more)
    assert (code, out) == (2, "") and err.startswith("hocket: ") and len(err) < 3_000 and err.count("\n") == 1
    assert_harmless(err)


@pytest.mark.parametrize("command", ["chek", "check", "report", "train", "new"])
def test_words_of_a_command_are_shown_and_never_obeyed(command, hocket):
    for words in ([OBEYED], [OBEYED, "--set", OBEYED], [f"--{OBEYED}"], ["x" * 5_000], ["a\0b"]):
        code, out, err = hocket(command, *words)
        assert (code, out) == (2, "") and err
        assert_harmless(err)


def test_folders_with_hostile_names_are_named_harmlessly(hostile, hocket):
    task, folder = hostile / "task.toml", hostile / "runs"
    hk.save_task(replace(meeting(), name="m\u202em"), task)
    for words in (
        ("check", task),
        ("show", task),
        ("show", task, "-o", hostile / "task.svg"),
        ("train", task, "--steps", 2_000, "--seeds", 1, "--out", folder),
        ("report", folder, "--figures", hostile / "figures"),
        ("evaluate", task, folder, "--episodes", 5),
        ("play", task, "--steps", 3),
        ("new", hostile / "new.toml"),
        ("repair", task, "-o", hostile / "repaired.toml"),
    ):
        code, out, err = hocket(*words)
        assert code in (0, 1)
        assert_harmless(out, err)


def stain(document: object, at: list[str], value: object) -> object:
    """Replace what is somewhere in a document."""
    if not at:
        return value
    key = int(at[0]) if isinstance(document, list) else at[0]
    document[key] = stain(document[key], at[1:], value)  # type: ignore[index]
    return document


PLACES = [
    "task", "digest", "learner", "seed", "steps", "settings discount", "settings", "seconds", "made python",
    "tests softmax step 0", "tests softmax test_steps 0", "review episodes", "review successes",
    "review own_successes 0", "review visits 0", "review policy", "review replays softmax states 0 0 1",
    "review replays softmax states 0 0 0", "review replays softmax events 0 1", "review replays softmax events 0 0",
    "review replays softmax x 0 0",
]  # fmt: skip
STAINS = [OBEYED, "\ud800", 10**400, -1, 2**63, 1e308, None, {OBEYED: 3}]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stains")
    hk.save_runs(meeting(), hk.train(meeting(), "dqprm", 2, 2_000), folder)
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_a_record_with_anything_odd_in_it_is_left_out_or_read(place, runs, tmp_path, hocket):
    path, _ = sorted(runs.glob("runs/*.json"))
    whole = path.read_text(encoding="utf-8")
    try:
        for value in STAINS:
            path.write_text(json.dumps(stain(json.loads(whole), place.split(), value)), encoding="utf-8")
            code, out, err = hocket("report", runs, "-o", tmp_path / "report.html")
            assert code == 0 and ("left out" in err or err == ""), (place, value)
            assert_harmless(out, err)
    finally:
        path.write_text(whole, encoding="utf-8")


def test_what_is_printed_keeps_letters_of_all_scripts():
    for name in ("Größe", "名前\u3000一", "می\u200cخواهم", "👩\u200d🚀", "a\u00a0b"):
        assert printable(name) == name == harmless(name)


def test_a_message_is_one_line_of_bounded_length():
    error = hk.HocketError("a\nb" + OBEYED + "x" * 10**6)
    assert str(error).isprintable() and len(str(error)) < 2_100


# Huge numbers, before any memory is taken or any training done.

HUGE = [
    ("--seeds", "1000000000", "seeds must be at most 10,000,000, got 1000000000"),
    ("--seeds", str(10**23), "seeds must be at most 10,000,000"),
    ("--seeds", "0", "seeds must be at least one integer"),
    ("--steps", str(10**23), "steps must be at most 1,000,000,000,000"),
    ("--steps", "0", "steps must be at least 1"),
    ("--set", "max_episode_steps=1000000000000000", "max_episode_steps must be an integer between 1 and 1,000,000"),
    ("--set", f"max_episode_steps={10**400}", "max_episode_steps must be"),
    ("--set", "temperature=1e23", "temperature must be a number between"),
    ("--set", "test_every=0", "test_every must be an integer between"),
    (
        "--steps",
        "1000000000000",
        "a run keeps at most 10,000,000 tests, got 2,000,000,000; test_every makes them fewer",
    ),
    ("--set", "test_episodes=1000000", "a run keeps at most 10,000,000 tests, got "),
]


@pytest.mark.parametrize(("option", "value", "message"), HUGE)
def test_a_number_that_is_too_large_is_one_sentence(option, value, message, hocket, tmp_path):
    code, out, err = hocket("train", "buttons", option, value, "--out", tmp_path / "runs")
    assert (code, out) == (2, "") and err.startswith(f"hocket: {message}") and err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_as_many_seeds_as_a_cluster_of_processors_takes_are_a_study():
    assert len(hk.Study([meeting()], ["dqprm"], 20_000, 1_000).groups()[0].seeds) == 20_000
    assert len(check_seeds(range(100_000))) == 100_000


def test_a_run_keeps_as_many_tests_as_memory_holds_and_no_more():
    task, every = meeting(), LEARNERS["dqprm"].settings(test_every=1)
    check_tests(task, 5_000_000, every)
    for refuse in (check_tests, lambda *work: hk.train(task, "dqprm", 1, work[1], every)):
        with pytest.raises(hk.HocketError, match="a run keeps at most 10,000,000 tests, got 10,000,002"):
            refuse(task, 5_000_001, every)


def test_agents_and_events_count_among_what_tests_keep():
    many, every = hk.rendezvous(1_000), LEARNERS["dqprm"].settings(test_every=1)
    numbers = 2 * (1 + len(many.agents) + len(many.events))
    check_tests(many, 500_000_000 // numbers, every)
    with pytest.raises(hk.HocketError, match=r"at most 500,000,000 numbers, got .* tests of 1,000 agents and"):
        check_tests(many, 500_000_000 // numbers + 1, every)


def test_a_sweep_is_refused_where_one_of_its_settings_asks_for_too_many_tests():
    with pytest.raises(hk.HocketError, match="a run keeps at most 10,000,000 tests, got 20,000,000"):
        hk.Study([meeting()], ["dqprm"], 2, 10_000_000, {"test_every": [1_000, 1]})


def test_more_episodes_than_memory_holds_are_refused(policy):
    for episodes in (0, 10**9, 10**400):
        with pytest.raises(hk.HocketError, match="episodes must be at least 1 and at most 10,000,000"):
            hk.evaluate(meeting(), policy, episodes)


# Deep keys of TOML.

DEEP = "a" + ".A" * 50
SHALLOW = [
    f'map = "1{DEEP}"', f"map = '1{DEEP}'", f"# {DEEP}\nx = 1", f'x = """\n{DEEP}\n"""', f'x = 1 # "{DEEP}',
    f'x = """a"""" # {DEEP}', f"x = \'\'\'a\'\'\'\' # {DEEP}", f'x = "a\\"{DEEP}"', f'x = "#"\ny = "{DEEP}"',
]  # fmt: skip
TOO_DEEP = [
    f"{DEEP} = 1", f"[{DEEP}]", f"x = {{ {DEEP} = 1 }}", f'"#" = 1\n{DEEP} = 2', f'x = """a""""\n{DEEP} = 1',
    '"a"' + '."a"' * 50 + " = 1", f'x = {{ a = """t"""", {DEEP} = 1 }}', f'"a\\"".{DEEP} = 1',
]  # fmt: skip


@pytest.mark.parametrize("content", SHALLOW)
def test_what_only_looks_like_a_deep_key_is_read(content):
    assert toml.parse(content) == tomllib.loads(content)


@pytest.mark.parametrize("content", TOO_DEEP)
def test_a_deep_key_is_refused_wherever_it_is(content):
    with pytest.raises(hk.errors.FormatError, match="a key has more than 32 parts"):
        toml.parse(content)


def test_a_task_whose_map_looks_like_a_deep_key_is_read_as_it_was_written(tmp_path):
    grid = hk.Grid(1, 101, frozenset(), {"A": frozenset(range(1, 101, 2)), "end": frozenset({100})})
    task = replace(meeting(), grid=replace(grid, places={**grid.places, "center": frozenset({2})}))
    for suffix in (".toml", ".json"):
        hk.save_task(task, tmp_path / f"task{suffix}")
        assert hk.load_task(tmp_path / f"task{suffix}") == task


# Chances of no synchronisation, and files that nobody would read.


def test_teammates_that_are_never_ready_are_refused_everywhere():
    machine = hk.RewardMachine(initial="a", transitions={("a", "go"): "b"}, final={"b"})
    for use in (
        lambda: hk.IndividualEpisode(meeting(), "A1", sync_probability=0),
        lambda: hk.gym.individual_env(meeting(), "A1", sync_probability=0),
        lambda: hk.gym.IndividualView(gymnasium.make("CartPole-v1"), machine=machine, label=set, chances={"go": 0}),
        lambda: hk.train(meeting(), "dqprm", 1, 1, settings={"sync_probability": 0}),
    ):
        with pytest.raises(hk.HocketError, match=r"above 0 and .*at most 1, got 0"):
            use()


def test_a_policy_is_not_written_under_a_name_by_which_nobody_finds_it(policy, tmp_path):
    with pytest.raises(hk.HocketError, match=r"policy.txt: a policy's file ends in .npz"):
        policy.save(tmp_path / "policy.txt")
    assert not list(tmp_path.iterdir())


# Others' worlds.


class Forgetful(ParallelEnv):
    """Two agents in a world that leaves one of them out of a part of each step."""

    def __init__(self, part: int) -> None:
        self.part, self.agents, self.possible_agents = part, [], ["A1", "A2"]
        self.metadata = {"name": "forgetful"}

    def __str__(self) -> str:
        return "forgetful"

    def observation_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = ["A1", "A2"]
        return {"A1": 0, "A2": 0}, {"A1": {}, "A2": {}}

    def step(self, actions):
        if self.part < 0:
            raise KeyError("A3")
        whole = [{"A1": own, "A2": own} for own in (0, 0.0, False, False, {})]
        whole[self.part].pop("A2")
        return tuple(whole)


def team_of(world: Forgetful):
    machine = hk.RewardMachine(initial="a", transitions={("a", "go"): "b"}, final={"b"})
    return hk.gym.wrap(world, machine=machine, knows={"A1": {"go"}, "A2": {"go"}}, label=lambda step: {})


def wrapped(part: int):
    env = team_of(Forgetful(part))
    env.reset(seed=0)
    return env


def test_a_world_that_raises_is_told_by_name():
    with pytest.raises(hk.HocketError, match="forgetful raised KeyError in step 1: 'A3'") as told:
        wrapped(-1).step({"A1": 0, "A2": 0})
    assert isinstance(told.value.__cause__, KeyError)


@pytest.mark.parametrize("part", range(5))
def test_a_world_that_leaves_an_agent_out_is_told_by_name(part):
    env = wrapped(part)
    with pytest.raises(
        hk.HocketError, match=r"forgetful gives no (obs|rew|term|trunc|info)\w* of agent 'A2' in step 1"
    ):
        env.step({"A1": 0, "A2": 0})


@pytest.mark.parametrize(
    ("infos", "problem"),
    [
        ({"A1": {}, "A2": None}, r"^an info must be a mapping, got None from forgetful of agent 'A2' in reset$"),
        ({"A1": [], "A2": {}}, r"^an info must be a mapping, got \[\] from forgetful of agent 'A1' in reset$"),
        (None, "^an info must be a mapping, got None from forgetful in reset$"),
    ],
)
def test_an_info_of_an_agent_of_a_team_that_is_no_mapping_is_told_by_name(infos, problem, monkeypatch):
    monkeypatch.setattr(Forgetful, "reset", lambda self, seed=None, options=None: ({"A1": 0, "A2": 0}, infos))
    world = Forgetful(0)
    world.agents = ["A1", "A2"]
    with pytest.raises(hk.HocketError, match=problem):
        team_of(world).reset(seed=0)


class Alone(Forgetful):
    """One agent in a world that leaves it out, raises or gives no mapping for its info."""

    def __init__(self, part: int = 0) -> None:
        super().__init__(part)
        self.possible_agents = ["A2"]

    def reset(self, seed=None, options=None):
        self.agents = ["A2"]
        return ({}, {"A2": {}}) if options else ({"A2": 0}, {"A2": {}})

    def step(self, actions):
        if self.part == 5:
            return {"A2": 0}, {"A2": 0.0}, {"A2": False}, {"A2": False}, {"A2": None}
        return super().step(actions)


def alone(world, options=None):
    machine = hk.RewardMachine(initial="a", transitions={("a", "go"): "b"}, final={"b"})
    env = hk.gym.IndividualView(world, machine=machine, label=lambda step: None)
    env.reset(seed=0, options=options)
    return env


@pytest.mark.parametrize("part", range(5))
def test_a_world_that_leaves_its_only_agent_out_is_told_by_name(part):
    env = alone(Alone(part))
    with pytest.raises(
        hk.HocketError, match=r"^forgetful gives no (obs|rew|term|trunc|info)\w* of agent 'A2' in step 1"
    ):
        env.step(0)


def test_a_world_that_begins_without_its_only_agent_is_told_by_name():
    with pytest.raises(hk.HocketError, match=r"^forgetful gives no observation of agent 'A2' in reset"):
        alone(Alone(), {"empty": True})


def test_a_world_for_one_agent_that_raises_is_told_by_name():
    with pytest.raises(hk.HocketError, match=r"^forgetful raised KeyError in step 1: 'A3'"):
        alone(Alone(-1)).step(0)


class Uninformed(gymnasium.Env):
    """A world of Gymnasium that gives None for an info in a step."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __str__(self) -> str:
        return "forgetful"

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, None


@pytest.mark.parametrize("world", [Alone(5), Uninformed()])
def test_an_info_that_is_no_mapping_is_told_by_the_worlds_name(world):
    with pytest.raises(
        hk.HocketError, match=r"^an info must be a mapping, got None from forgetful (of agent 'A2' )?in step 1"
    ):
        alone(world).step(0)
