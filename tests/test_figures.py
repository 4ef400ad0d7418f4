"""What figures show, that nothing in them is cut off or hidden, and that they repeat byte for byte."""

import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

import hocket as hk
from hocket.draw import geometry
from hocket.draw.palette import AGENT_COLORS
from hocket.report import figures
from hocket.report.figures import canvas, curves, maps
from hocket.report.summary import LevelComparison, Section, summarize
from hocket.study import records
from hocket.study.store import Results, keep_records, keep_task, load_results, open_store, sum_up
from hocket.study.study import Level
from hocket.task.grid import ACTIONS, STAY, STEPS
from test_drawing import NASTY, SIGHT, linear
from worlds import corridor, gatehouse

SETTINGS = {"max_episode_steps": 1000}
STEPS_OF_TESTS = np.arange(1_000, 41_000, 1_000)


def curve(reaches: int, level: int = 30) -> np.ndarray:
    """Fail until some training step, and then take as many steps as one can."""
    return np.where(reaches <= STEPS_OF_TESTS, level, 1000)


def record(learner: str, seed: int, values: np.ndarray, task: hk.Task | None = None, **settings: float) -> hk.Record:
    """Make a record by hand, of a task or of something else."""
    tests = records.TestEpisodes(STEPS_OF_TESTS, values + seed * (values < 1000), values < 1000)
    review = None
    if task is not None:
        visits = np.zeros((len(task.agents), task.grid.cells), np.int64)
        for agent in range(len(task.agents)):
            visits[agent, : agent + 2] = [100 ** min(cell, 3) for cell in range(agent + 2)]
        review = hk.TestSummary(10, 5, (5,) * len(task.agents), visits, {})
    name, mark = ("elsewhere", "f" * 64) if task is None else (task.name, task.digest)
    kinds = {"softmax": tests, "greedy": tests._replace(test_steps=np.full(len(values), 500))}
    return hk.Record(name, mark, learner, seed, 40_000, {**SETTINGS, **settings}, kinds, test_summary=review)


def section_of(*own: hk.Record, task: hk.Task | None = None) -> Section:
    tasks = {} if task is None else {task.digest: task}
    (section,) = summarize(Results(Path("study"), {}, own, tasks, (), ())).sections
    return section


@pytest.fixture(scope="module")
def ordinary() -> Section:
    """Have two learners of three runs, of which one learns nothing, and optimal policies."""
    groups = {"dqprm": curve(5_000), "iql": curve(10**9), "optimal": curve(0, 20)}
    return section_of(*(record(name, seed, own) for name, own in groups.items() for seed in range(3)))


@pytest.fixture(scope="module")
def sweep() -> Section:
    """Have six groups with long names, one of which learns nothing, on a task with a long name, too."""
    settings = [(0.05, 1_000), (0.1, 2_000), (0.2, 5_000), (0.4, 12_000), (0.8, 38_000), (1.0, 10**9)]
    records = [
        record("dqprm", seed, curve(reaches), learning_rate=rate, temperature=rate / 7, learning_rate_decay=rate**2)
        for rate, reaches in settings
        for seed in range(2)
    ]
    name = "a task with $a_long$ name: {that} goes on & on and <on>, far beyond one line"
    return section_of(*(replace(own, task=name) for own in [*records, record("optimal", 0, curve(0, 20))]))


def policy_of(task: hk.Task, learner: str = "dqprm", q: np.ndarray | None = None) -> hk.Policy:
    """Make a policy by hand, in which everything is worth the same: nothing."""
    if q is None:
        sizes = [len(own.states) for own in task.machines.values()]
        memories = [1 << len(own.memory) for own in task.agents.values()]
        q = np.zeros((len(sizes), task.grid.cells, len(ACTIONS), max(memories if learner == "iql" else sizes)))
    return hk.Policy(task.name, task.digest, learner, 0, SETTINGS, {"q": q.astype(np.float32)})


def wavy(task: hk.Task, learner: str = "dqprm") -> hk.Policy:
    """Make a policy by hand, in which every cell has a best action."""
    policy = policy_of(task, learner)
    q = np.random.default_rng(1).random(policy.arrays["q"].shape) * 0.9
    return policy_of(task, learner, q)


def drawn(figure: Figure) -> list[Text]:
    """Draw a figure, and list the texts that can be seen in it; numbers beyond the end of an axis are not drawn."""
    found: dict[int, Text] = {}
    draw = Text.draw

    def note(text: Text, *arguments, **options):
        if text.get_visible() and text.get_text().strip():
            found[id(text)] = text
        return draw(text, *arguments, **options)

    figure.set_dpi(canvas.DPI)
    with mock.patch.object(Text, "draw", note):
        FigureCanvasAgg(figure).draw()
    return list(found.values())


def told(figure: Figure) -> str:
    return "\n".join(own.get_text() for own in drawn(figure))


def make(function, *arguments, **options) -> Figure:
    with canvas.style():
        return function(*arguments, **options)


# Files.

KINDS = {
    "curves": lambda section, task: lambda path: canvas.write_figure(path, partial(curves.curves_figure, section)),
    "learning times": lambda section, task: (
        lambda path: canvas.write_figure(path, partial(curves.learning_times_figure, section))
    ),
    "policy": lambda section, task: lambda path: maps.draw_policy(task, wavy(task), path, agent="A1"),
    "visits": lambda section, task: (
        lambda path: canvas.write_figure(
            path, partial(visits, section_of(record("dqprm", 0, curve(0), task), task=task))
        )
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_is_valid_and_says_nothing_of_when_it_was_made(tmp_path, ordinary, kind):
    draw = KINDS[kind](ordinary, gatehouse())
    for form in (".svg", ".png", ".PDF"):
        draw(tmp_path / f"figure{form}")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    width, height = (float(root.get(side).removesuffix("pt")) for side in ("width", "height"))
    data = (tmp_path / "figure.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and b"Software" not in data
    pixels = struct.unpack(">II", data[16:24])
    assert pixels == pytest.approx((width / 72 * 200, height / 72 * 200), abs=1)
    assert b"date" not in (tmp_path / "figure.svg").read_bytes().lower()
    pdf = (tmp_path / "figure.PDF").read_bytes()
    assert pdf.startswith(b"%PDF") and pdf.rstrip().endswith(b"%%EOF") and b"CreationDate" not in pdf
    assert {path.suffix for path in tmp_path.iterdir()} == {".svg", ".png", ".PDF"}  # and nothing half-written


def test_a_figure_for_a_column_is_as_wide_as_one(ordinary):
    assert make(curves.curves_figure, ordinary).get_size_inches().tolist() == [3.5, pytest.approx(3.2, abs=0.15)]


@pytest.mark.parametrize("kind", KINDS)
def test_another_suffix_is_refused_by_naming_those_there_are(tmp_path, ordinary, kind):
    with pytest.raises(hk.errors.FormatError, match=r"figure.jpg: .* one of .svg, .png, .pdf, got '.jpg'"):
        KINDS[kind](ordinary, gatehouse())(tmp_path / "figure.jpg")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path, ordinary):
    with pytest.raises(hk.errors.FormatError, match="cannot be written"):
        canvas.write_figure(tmp_path / "nowhere" / "figure.svg", partial(curves.curves_figure, ordinary))


def keep_study(folder: Path, *tasks: hk.Task, learners: Sequence[str], kinds: Sequence[str] = records.KINDS) -> Path:
    """Keep hand-made runs and policies, as a study would."""
    store = open_store(folder)
    for task in tasks:
        keep_task(store, task)
        for learner, seed in product(learners, range(2)):
            own = record(learner, seed, curve(3_000 * (seed + 1)), task)
            own = replace(own, tests={kind: own.tests[kind] for kind in kinds})
            policy = (
                replace(wavy(task, learner), seed=seed).packed()
                if hk.LEARNERS[learner].policy_input in maps.PICTURED
                else None
            )
            keep_records(store, [(own, policy)])
    sum_up(store, load_results(store).records)
    return store


SCRIPT = """
import sys
import hocket as hk
hk.draw_figures(hk.load_results(sys.argv[1]), sys.argv[2], formats=("svg", "png", "pdf"))
print("matplotlib.pyplot" in sys.modules)
"""


def test_another_process_with_other_settings_writes_the_same_bytes(tmp_path):
    store = keep_study(tmp_path / "study", corridor(4), learners=["dqprm"], kinds=["softmax"])
    before = dict(matplotlib.rcParams)
    made = hk.draw_figures(load_results(store), tmp_path / "here", formats=("svg", "png", "pdf"))
    assert dict(matplotlib.rcParams) == before
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nsavefig.transparent: True\nsvg.fonttype: none\n")
    surroundings = {**os.environ, "PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, store, tmp_path / "there"]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"  # nothing that has state, or opens windows
    assert sorted(path.name for path in made) == sorted(path.name for path in (tmp_path / "there").iterdir())
    for path in made:
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes(), path.name


@pytest.fixture
def unseen(monkeypatch):
    """Write files with nothing in them, where only their names matter."""
    monkeypatch.setattr(figures, "write_figure", lambda path, make: path.touch())


@pytest.mark.usefixtures("unseen")
def test_a_study_gets_a_file_for_all_there_is_to_see(tmp_path):
    learners = ("dqprm", "iql", "hil", "optimal")
    results = load_results(keep_study(tmp_path / "study", gatehouse(), corridor(4), learners=learners))
    names = {path.name for path in figures.draw_figures(results, tmp_path / "figures")}
    assert names == {path.name for path in (tmp_path / "figures").iterdir()}
    agents = {"gatehouse": ["A1", "A2"], "corridor": ["A1"]}
    expected = {"learning-times.svg"}
    for task, own in agents.items():
        parts = ["curves", "curves-greedy", "learning-times", "learning-times-greedy"]
        parts += [f"visits-{learner}" for learner in learners]
        parts += [f"policy-{learner}-{agent}" for learner in ("dqprm", "iql", "optimal") for agent in own]
        expected |= {f"{task}-{part}.svg" for part in parts}
    assert names == expected


@pytest.mark.usefixtures("unseen")
def test_a_summary_is_drawn_without_policies(tmp_path):
    summary = summarize(Results(Path("study"), {}, (record("dqprm", 0, curve(0)),), {}, {}, ()))
    made = figures.draw_figures(summary, tmp_path, formats=("png",))
    assert [path.name for path in made] == [
        f"elsewhere-{name}.png" for name in ("curves", "learning-times", "curves-greedy", "learning-times-greedy")
    ]


@pytest.mark.usefixtures("unseen")
def test_names_that_a_file_system_takes_for_one_are_told_apart(tmp_path):
    records = [replace(record("dqprm", 0, curve(0)), task=name, digest=name) for name in ("a/b", "A:b")]
    summary = summarize(Results(Path("study"), {}, tuple(records), {}, {}, ()))
    names = [path.name.lower() for path in figures.draw_figures(summary, tmp_path)]
    assert len({*names}) == len(names) == 9 and "a_b-curves-2.svg" in names


def test_an_unknown_format_is_refused_before_anything_is_drawn(tmp_path):
    summary = summarize(Results(Path("study"), {}, (record("dqprm", 0, curve(0)),), {}, {}, ()))
    with pytest.raises(hk.errors.FormatError, match="must be one of svg, png, pdf, got 'gif'"):
        figures.draw_figures(summary, tmp_path / "figures", formats=("svg", "gif"))
    assert not (tmp_path / "figures").exists()


# Nothing is cut off, and no text lies on another.


LONG = "a $name_that$ goes on & on, far beyond what there is room for, whatever the size of the letters"


def wordy() -> hk.Task:
    """Make a small task in which everything has a long name."""
    machine = hk.RewardMachine(initial=LONG, transitions={(LONG, LONG): f"not {LONG}"}, final={f"not {LONG}"})
    agents = {LONG: hk.Agent(0, (LONG,))}
    return hk.Task(LONG, hk.Grid(2, 2, places={LONG: {3}}), agents, {LONG: {LONG: hk.Condition(LONG)}}, machine)


def far_apart(section: Section) -> Figure:
    """Draw curves as if some groups took far longer than others."""
    with mock.patch.object(curves, "needs_log_x", return_value=True):
        return curves.curves_figure(section)


def visits(section: Section) -> Figure:
    """Draw the visits of the first group."""
    return maps.visits_figure(section, section.all_groups[0])


def every_figure(ordinary: Section, sweep: Section) -> dict[str, Figure]:
    many, worst = hk.rendezvous(agents=10), wordy()
    small, rooms = gatehouse(), hk.load_task("rooms")
    visited = {task.name: section_of(record("dqprm", 0, curve(0), task), task=task) for task in (many, small, worst)}
    summary = summarize(Results(Path("study"), {}, (record("dqprm", 0, curve(0)),), {}, {}, ()))
    both = replace(summary, title="both", sections=(sweep, ordinary))
    return {
        "curves": make(curves.curves_figure, ordinary),
        "curves, both axes logarithmic": make(far_apart, ordinary),
        "curves of a sweep": make(curves.curves_figure, sweep),
        "bars": make(curves.learning_times_figure, ordinary),
        "bars of a sweep": make(curves.learning_times_figure, sweep),
        "bars of all": make(curves.learning_times_figure, both),
        "policy on one row": make(maps.policy_figure, small, wavy(small), agent="A1"),
        "policy on a wide map": make(maps.policy_figure, rooms, policy_of(rooms), agent="A1"),
        "policy with gates": make(
            maps.policy_figure, hk.load_task("buttons"), wavy(hk.load_task("buttons")), agent="A2"
        ),
        "policy by memory": make(maps.policy_figure, many, wavy(many, "iql"), agent="A1"),
        "policy with long names": make(maps.policy_figure, worst, wavy(worst), agent=LONG),
        "visits with long names": make(visits, visited[worst.name]),
        "visits of ten": make(visits, visited[many.name]),
        "visits on one row": make(visits, visited[small.name]),
    }


def test_no_text_is_cut_off_or_lies_on_another(ordinary, sweep):
    for name, figure in every_figure(ordinary, sweep).items():
        texts = drawn(figure)
        width, height = figure.bbox.size
        tags = {id(own) for axes in figure.axes for own in axes.texts if name.startswith(("policy", "visits"))}
        frames = [(own.get_text(), own.get_window_extent()) for own in texts if id(own) not in tags]
        for text, frame in frames:
            assert frame.x0 >= 0 and frame.y0 >= 0 and frame.x1 <= width and frame.y1 <= height, (name, text)
        for (text, frame), (other, second) in combinations(frames, 2):
            apart = frame.x1 <= second.x0 or second.x1 <= frame.x0 or frame.y1 <= second.y0 or second.y1 <= frame.y0
            assert apart, (name, text, other)


NAMES = [*NASTY, "$x^2$", "_hidden", "a\nb", "日本語", "\U0001f600", "x" * 300]


def test_names_are_drawn_as_they_are_or_marked_as_unknown():
    section = section_of(record("dqprm", 0, curve(0)))
    groups = tuple(replace(section.groups[0], label=name) for name in NAMES)
    figure = make(curves.curves_figure, replace(section, groups=groups))
    (legend,) = figure.legends
    assert drawn(figure)
    for name, shown in zip(NAMES, legend.get_texts(), strict=True):
        assert "".join(shown.get_text().split()) == "".join(canvas.literal(name).split())
        title = make(curves.curves_figure, replace(section, title=name)).texts[0].get_text()
        assert "".join(title.split()) == "".join(shown.get_text().split())


def test_what_the_font_does_not_have_or_a_line_has_no_room_for_is_marked():
    assert canvas.literal("日本語") == "\ufffd" * 3
    assert canvas.literal("x" * 300) == "x" * 159 + "…"
    assert canvas.literal("$x^2$ & <b>\\alpha</b> é") == "$x^2$ & <b>\\alpha</b> é"


# Curves.


def test_lines_are_medians_bands_are_quartiles_and_the_reference_is_dashed(ordinary):
    axes, below = make(curves.curves_figure, ordinary).axes
    group = ordinary.groups[0].curves["softmax"]
    line = next(
        own for own in axes.lines if len(own.get_xdata()) == len(group.step) and own.get_color() == AGENT_COLORS[0]
    )
    assert line.get_xdata().tolist() == group.step.tolist()
    assert line.get_ydata().tolist() == group.quartiles.median.tolist()
    band = next(own for own in axes.collections if isinstance(own, PolyCollection))
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert {
        (step, value) for side in group.quartiles[::2] for step, value in zip(group.step, side, strict=True)
    } <= corners
    (reference,) = [own for own in axes.lines if own.get_color() == canvas.INK]
    assert [*reference.get_ydata()] == [ordinary.level("softmax")] * 2 == [21, 21]
    assert reference.get_linestyle() == "--"
    shares = [own.get_ydata().tolist() for own in below.lines if len(own.get_xdata()) == len(group.step)]
    assert shares == [own.curves["softmax"].success.tolist() for own in ordinary.groups]
    assert "of the median of each run’s last 10 tests" in told(axes.figure).replace("\n", " ")


def test_what_is_published_is_drawn_in_and_told(ordinary):
    level = Level(30.0, 17_000, 0.75)
    section = replace(ordinary, published_levels=(LevelComparison("dqprm", level, level),))
    axes, below = make(curves.curves_figure, section).axes
    hollow = [own for panel in (axes, below) for own in panel.lines if own.get_markerfacecolor() == "white"]
    diamonds = [(*own.get_xdata(), *own.get_ydata()) for own in hollow]
    assert diamonds == [(17_000, 30.0), (40_000, 0.75)]
    assert [17_000, 40_000, 30.0, 30.0] in [[*own.get_xdata(), *own.get_ydata()] for own in axes.lines]
    assert "dotted lines are published" in told(axes.figure).replace("\n", " ")
    assert "published" not in told(make(curves.curves_figure, section, policy="greedy"))


def test_a_published_level_that_was_never_reached_has_no_diamond(ordinary):
    level = Level(1000.0, None, 0.0)
    axes, _ = make(
        curves.curves_figure, replace(ordinary, published_levels=(LevelComparison("iql", level, level),))
    ).axes
    assert not [own for own in axes.lines if own.get_markerfacecolor() == "white"]
    assert [0, 40_000, 1000.0, 1000.0] in [[*own.get_xdata(), *own.get_ydata()] for own in axes.lines]


def test_axes_have_units_and_limits(ordinary):
    axes, below = make(curves.curves_figure, ordinary).axes
    assert (below.get_xlabel(), below.get_ylabel()) == ("training steps", "success")
    assert axes.get_ylabel() == "test steps\n(a failure counts as 1,000)"
    assert axes.get_xlim() == (0, 40_000)
    low, high = axes.get_ylim()
    assert (axes.get_yscale(), 1 <= low < 21, 1000 < high < 1100) == ("log", True, True)
    assert "3 runs: median and quartiles" in told(axes.figure)


def test_training_steps_are_logarithmic_where_learners_are_far_apart(ordinary, sweep):
    scales = {
        name: make(curves.curves_figure, own).axes[0].get_xscale() for name, own in (("o", ordinary), ("s", sweep))
    }
    assert scales == {"o": "linear", "s": "log"}
    axes = make(far_apart, ordinary).axes[0]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlim()) == ("log", "log", (1_000, 40_000))
    assert axes.get_ylim()[0] < 20


def test_the_legend_names_all_groups_and_the_reference(sweep):
    (legend,) = make(curves.curves_figure, sweep).legends
    assert [own.get_text().replace("\n", " ") for own in legend.get_texts()] == [
        *(group.label for group in sweep.groups), "optimal (20)"
    ]  # fmt: skip


def test_a_kind_without_tests_and_one_that_does_not_exist_are_refused(ordinary):
    own = record("dqprm", 0, curve(0))
    section = section_of(replace(own, tests={"softmax": own.tests["softmax"]}))
    assert not curves.groups_with_tests(section, "greedy")
    for figure in (curves.curves_figure, curves.learning_times_figure):
        with pytest.raises(hk.HocketError, match="there must be tests of greedy policies to draw, got none"):
            make(figure, section, policy="greedy")
        with pytest.raises(hk.HocketError, match=r"'gredy' does not exist \(did you mean 'greedy'\?\)"):
            make(figure, ordinary, policy="gredy")


def test_groups_are_told_apart_with_and_without_colours(sweep):
    looks = canvas.strokes(sweep.groups * 5)
    assert len({*looks}) == len(looks) == 30
    assert {own.color for own in looks} == {*AGENT_COLORS}  # which are told apart with any sight: see test_drawing
    assert len({own.marker for own in looks[:8]}) == 8


def test_a_learner_has_the_same_colour_whoever_is_beside_it(ordinary):
    dqprm, iql = ordinary.groups
    stranger = replace(dqprm, learner="mine", label="mine")
    assert canvas.strokes([dqprm, iql])[1] == canvas.strokes([iql])[0] == canvas.strokes([stranger, iql])[1]
    assert len({own.color for own in canvas.strokes([stranger, dqprm, iql])}) == 3


# Bars.


def test_bars_are_as_long_as_it_takes_and_never_is_a_word(ordinary):
    figure = make(curves.learning_times_figure, ordinary)
    (axes,) = figure.axes
    (bar,) = axes.patches
    assert bar.get_width() == ordinary.groups[0].finals["softmax"].learnt_after
    assert "never in 40,000 steps" in told(figure) and f"{bar.get_width():,}" in told(figure)
    assert (axes.get_xlabel(), axes.get_xscale()) == ("training steps", "linear")
    assert [own.get_text() for own in axes.get_yticklabels()] == ["dqprm", "iql"]


def test_bars_that_are_far_apart_have_a_logarithmic_axis(sweep):
    finals = [replace(group.finals["softmax"], learnt_after=2 * 10**place) for place, group in enumerate(sweep.groups)]
    groups = [replace(own, finals={"softmax": final}) for own, final in zip(sweep.groups, finals, strict=True)]
    for few, scale in ((2, "linear"), (3, "log"), (6, "log")):
        (axes,) = make(curves.learning_times_figure, replace(sweep, groups=tuple(groups[:few]))).axes
        lengths = [own.get_width() for own in axes.patches]
        assert lengths == [2 * 10**place for place in range(few)] and axes.get_xscale() == scale
        assert axes.get_xlim()[0] < lengths[0] and axes.get_xlim()[1] > lengths[-1]


def test_a_summary_has_a_panel_for_each_task_that_was_tested(ordinary, sweep):
    nothing = replace(ordinary, title="nothing", groups=())
    summary = replace(summarize(Results(Path("study"), {}, (), {}, {}, ())), sections=(ordinary, nothing, sweep))
    assert len(make(curves.learning_times_figure, summary).axes) == 2
    with pytest.raises(hk.HocketError, match="study: there must be tests"):
        make(curves.learning_times_figure, replace(summary, sections=(nothing,)))


# Policies.


def shapes(axes) -> list[np.ndarray]:
    """List the arrows and dots on a map."""
    (found,) = [own for own in axes.collections if isinstance(own, PolyCollection)]
    return [path.vertices[:-1] for path in found.get_paths()]


def colored(axes) -> np.ma.MaskedArray:
    (mesh,) = [own for own in axes.collections if isinstance(own, QuadMesh)]
    return mesh.get_array()


def test_there_is_a_map_for_each_state_that_is_not_final_and_a_scale(ordinary):
    task = hk.load_task("buttons")
    figure = make(maps.policy_figure, task, wavy(task), agent="A2")
    *own, scale = figure.axes
    machine = task.machines["A2"]
    assert [axes.get_title() for axes in own] == [state for state in machine.states if state not in machine.final]
    assert scale.get_ylabel() == "value of the best action\n(discounted reward)"
    assert "N: green button" in told(figure).replace("\n", " ")


def test_of_many_states_the_first_are_shown_and_it_is_said(monkeypatch):
    monkeypatch.setattr(maps, "MOST_VIEWS", 1)
    figure = make(maps.policy_figure, gatehouse(), wavy(gatehouse()), agent="A1")
    assert len(figure.axes) == 2 and "the first 1 of 2 states" in told(figure)


def test_arrows_point_where_the_best_action_leads():
    task = hk.load_task("buttons")
    policy = wavy(task)
    figure = make(maps.policy_figure, task, policy, agent="A1")
    closed = task.closed_cells("A1")
    for state, axes in enumerate(figure.axes[:-1]):
        found = {}
        for shape in shapes(axes):
            middle = shape.mean(axis=0)
            tip = shape[np.abs(shape - middle).max(axis=1).argmax()] - middle
            cell = task.grid.cell(int(middle[1]), int(middle[0]))
            is_dot = len(shape) == 16
            found[cell] = STAY if is_dot else STEPS.index(tuple(np.sign(np.round(tip[::-1], 3)).astype(int)))
        best = policy.arrays["q"][0, :, :, state].argmax(axis=1)
        seen = {*np.flatnonzero(task.grid.floor).tolist()} - closed[state]
        assert found == {cell: best[cell] for cell in seen}


def test_ties_have_several_arrows_from_the_middle_and_what_is_all_the_same_none():
    task = corridor(4)
    q = policy_of(task).arrays["q"].copy()
    q[0, 0, [1, STAY], 0] = 0.5
    q[0, 1, :, 0] = 0.25
    q[0, 2, 3, 0] = 1
    figure = make(maps.policy_figure, task, policy_of(task, q=q), agent="A1")
    right, dot, left = shapes(figure.axes[0])
    assert right[:, 0].min() == 0.5 and right[:, 0].max() > 0.9 and len(dot) == 16
    assert left[:, 0].min() < 2.2 and left[:, 0].max() > 2.8
    assert colored(figure.axes[0]).ravel().tolist() == [0.5, 0.25, 1, None]  # nothing is worth anything in the last
    assert figure.axes[-1].get_ylim() == (0, 1)


def test_agents_of_one_policy_share_a_scale():
    task = gatehouse()
    q = policy_of(task).arrays["q"].copy()
    q[1, 0, 0, 0] = 0.7
    for agent in task.agents:
        figure = make(maps.policy_figure, task, policy_of(task, q=q), agent=agent)
        assert figure.axes[-1].get_ylim() == (0, pytest.approx(0.7))


def hatched(axes) -> set[int]:
    """List the columns, of a map with one row, that are hatched."""
    found = [own for own in axes.patches if isinstance(own, Rectangle) and own.get_hatch()]
    return {int(own.get_x()) + step for own in found for step in range(int(own.get_width()))}


def test_gates_are_hatched_while_they_are_closed_and_nobody_goes_there():
    figure = make(maps.policy_figure, gatehouse(), wavy(gatehouse()), agent="A1")
    closed, opened, _ = figure.axes
    assert (hatched(closed), hatched(opened)) == ({2}, set())
    assert (len(shapes(closed)), len(shapes(opened))) == (4, 5)
    assert "hatched: closed" in told(figure).replace("\n", " ")
    other = make(maps.policy_figure, gatehouse(), wavy(gatehouse()), agent="A2")
    assert not hatched(other.axes[0]) and "hatched" not in told(other)


def test_independent_learners_have_a_map_for_each_memory():
    figure = make(maps.policy_figure, gatehouse(), wavy(gatehouse(), "iql"), agent="A1")
    first, second, _ = figure.axes
    assert [first.get_title(), second.get_title()] == ["at the start", "after press"]
    assert (hatched(first), hatched(second)) == ({2}, set())


def test_what_cannot_be_drawn_is_refused():
    task = gatehouse()
    policy = policy_of(task)
    nan = policy_of(task, q=np.full(policy.arrays["q"].shape, np.nan))
    for wrong, agent, words in (
        (replace(policy, learner="hil"), "A1", "exist for dqprm, iql, optimal, sweep only, got one of hil"),
        (policy, "A3", r"agent 'A3' does not exist \(did you mean"),
        (replace(policy, digest="other"), "A1", "belongs to another task"),
        (replace(policy, arrays={}), "A1", "not what dqprm learns on this task"),
        (replace(policy, arrays={"q": policy.arrays["q"][:, 1:]}), "A1", "not what dqprm learns on this task"),
        (nan, "A1", "not what dqprm learns on this task"),
    ):
        with pytest.raises(hk.HocketError, match=words):
            make(maps.policy_figure, task, wrong, agent=agent)


# Visits.


def test_visits_are_counted_per_episode_and_nobody_there_is_pale():
    task = gatehouse()
    figure = make(visits, section_of(record("dqprm", 0, curve(0), task), task=task))
    first, second, scale = figure.axes
    assert colored(first).ravel().tolist() == [0.1, 10, None, None, None]  # 1 and 100 in ten episodes
    assert colored(second).ravel().tolist() == [0.1, 10, 1000, None, None]
    assert [first.get_title(), second.get_title(), scale.get_ylabel()] == ["A1", "A2", "visits per episode"]
    assert scale.get_yscale() == "log" and scale.get_ylim() == pytest.approx((0.1, 1000))
    assert "10 episodes of 1 run" in told(figure)


def test_of_many_agents_the_first_are_shown_and_it_is_said():
    task = hk.rendezvous(agents=14)
    figure = make(visits, section_of(record("dqprm", 0, curve(0), task), task=task))
    assert [axes.get_title() for axes in figure.axes[:-1]] == [f"A{number}" for number in range(1, 13)]
    assert "the first 12 of 14 agents" in told(figure)


def test_visits_are_shown_of_groups_whose_runs_keep_them():
    task = gatehouse()
    records = [record("hil", 0, curve(0)), *(record(name, 0, curve(0), task) for name in ("dqprm", "optimal"))]
    section = section_of(*(replace(own, digest=task.digest) for own in records), task=task)
    shown = {group.label: group for group in section.all_groups if maps.can_show_visits(section, group)}
    assert [*shown] == ["dqprm", "optimal"]
    for label, group in shown.items():
        assert f"visits, {label}" in told(make(maps.visits_figure, section, group))
    assert not any(maps.can_show_visits(replace(section, scene=None), group) for group in section.all_groups)


def test_visits_that_do_not_fit_the_map_are_not_drawn():
    task = gatehouse()
    section = section_of(record("dqprm", 0, curve(0), task), task=task)
    (group,) = section.groups
    assert maps.can_show_visits(section, group)
    assert not maps.can_show_visits(section, replace(group, visits=group.visits[:, 1:]))
    assert not maps.can_show_visits(replace(section, scene=replace(section.scene, has_cells=False)), group)
    upside_down = replace(section.scene, width=-5, height=-1)
    assert not maps.can_show_visits(replace(section, scene=upside_down), group)


def test_walls_and_outlines_are_where_they_are_in_the_world():
    task = hk.load_task("buttons")
    section = section_of(record("dqprm", 0, curve(0), task), task=task)
    axes = make(visits, section).axes[0]
    walls = np.zeros((task.grid.rows, task.grid.columns), np.int64)
    for own in axes.patches:
        x, y, width, height = (round(side) for side in (own.get_x(), own.get_y(), own.get_width(), own.get_height()))
        walls[y : y + height, x : x + width] += 1
    assert (walls.ravel() == ~task.grid.floor).all()
    lines = [own for own in axes.collections if isinstance(own, LineCollection)]
    edges = {tuple(map(tuple, edge.tolist())) for edge in lines[-1].get_segments()}
    row, column = task.grid.row_column(min(task.grid.places["goal"]))
    assert ((column, row), (column, row + 1)) in edges and axes.get_ylim() == (task.grid.rows, 0)


def test_an_outline_goes_round_cells_that_hang_together_only():
    cells = np.array([[True, False], [True, True]])
    assert {*geometry.outline(cells)} == {
        ((0, 0), (0, 2)), ((1, 0), (1, 1)), ((2, 1), (2, 2)), ((0, 0), (1, 0)), ((1, 1), (2, 1)), ((0, 2), (2, 2))
    }  # fmt: skip


def test_a_disc_covers_the_cells_whose_middles_are_in_it():
    assert geometry.covered([geometry.Shape(0, 0, 3, 3, is_disc=True)], 3, 3).tolist() == [[True] * 3] * 3
    assert geometry.covered([geometry.Shape(0.1, 0.1, 2.8, 2.8, is_disc=True)], 3, 3).sum() == 5


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", [maps.VALUES, maps.VISITS])
def test_colours_of_a_scale_grow_lighter_or_darker_throughout(name, sight):
    colors = [matplotlib.colors.to_hex(own) for own in matplotlib.colormaps[name](np.linspace(0, 1, 40))]
    luminance = [np.array(SIGHT[sight]) @ linear(own) @ [0.2126, 0.7152, 0.0722] for own in colors]
    assert (np.diff(luminance) > 0).all() or (np.diff(luminance) < 0).all()
