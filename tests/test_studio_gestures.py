"""Gestures of the studio: what they write into a text, and what they leave alone."""

import tomllib
from importlib import resources
from itertools import cycle, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.errors import HocketError
from hocket.studio.gestures import apply_gesture
from hocket.studio.sections import SMALL, keys_of, parse, split
from hocket.studio.understanding import describe_text, parse_subject
from hocket.studio.worker import start_names, start_text
from searches import examples

BUTTONS = (resources.files("hocket.task.builtin") / "buttons.toml").read_text(encoding="utf-8")
ROOMS = (resources.files("hocket.task.builtin") / "rooms.toml").read_text(encoding="utf-8")
MACHINE = start_text("a machine alone")
FORMULA = start_text("from a formula")


def changed(before: str, after: str) -> list[str]:
    """List the lines of a text that are not in another."""
    return [line for line in after.split("\n") if line not in before.split("\n")]


def edit(text: str, kind: str, **more) -> str:
    return apply_gesture(text, {"kind": kind, **more})


# Local event sets.


def test_an_event_is_taken_away_from_an_agent_and_only_its_line_changes():
    after = edit(BUTTONS, "know", agent="A1", event="R", known=False)
    assert changed(BUTTONS, after) == [
        'A1 = { start = "1", knows = ["Y", "Goal"], options = ["A1\'s corner", "yellow button", "goal after R"] }'
    ]
    assert edit(after, "know", agent="A1", event="R", known=True) == BUTTONS


def test_a_local_event_set_that_went_without_saying_is_written_down_first():
    after = edit(ROOMS, "know", agent="A1", event="out", known=False)
    assert tomllib.loads(after)["agents"]["A1"]["knows"] == ["west", "unlock"]
    assert len(changed(ROOMS, after)) == 1


def test_a_machine_alone_has_its_local_event_sets_in_a_table():
    after = edit(MACHINE, "repair", add={"A2": ["a"]})
    assert changed(MACHINE, after) == ['A2 = ["a", "b", "c"]']
    assert describe_text(after)["decomposable"]


def test_like_agents_are_changed_as_text():
    crew = start_text("crew")
    with pytest.raises(HocketError, match="no row for agent 'A1'; change teams of identical agents as text"):
        edit(crew, "know", agent="A1", event="end", known=False)


# Events.


def test_an_event_gets_another_name_wherever_it_stands():
    after = edit(BUTTONS, "rename event", event="R", name="red down")
    document = tomllib.loads(after)
    assert "red down" in document["events"] and document["gates"]["red region"] == {"A1": "red down"}
    assert document["agents"]["A1"]["options"][-1] == "goal after red down"
    assert document["memory"] == ["Y", "G", "red down"]
    assert "[events]  # the agents in a condition control the event" in after
    assert describe_text(after)["decomposable"]


def test_an_event_is_removed_with_its_transitions_and_its_condition():
    after = edit(BUTTONS, "remove event", event="A2off")
    assert "A2off" not in after and describe_text(after)["error"] is None


def test_a_condition_is_changed():
    after = edit(BUTTONS, "condition", event="Y", sentence=" A1 at goal ")
    assert changed(BUTTONS, after) == ['Y = "A1 at goal"']


def test_an_agent_is_added_where_there_is_floor():
    after = edit(BUTTONS, "agent", agent="A4")
    assert changed(BUTTONS, after) == ["A4 = { start = [0, 0], knows = [] }"]
    with pytest.raises(HocketError, match="add both in the text"):
        edit(ROOMS, "agent", agent="A6")


# The machine.


def test_a_transition_to_a_new_state_on_a_new_event_is_a_task_at_once():
    after = edit(BUTTONS, "transition", part="", state="u0", event="bell", target="u9")
    assert 'u0 = { Y = "u1", bell = "u9" }' in after and 'bell = "A1 at yellow button"' in after
    assert describe_text(after)["error"] is None
    assert "bell" in parse_subject(after).knows["A1"]


def test_a_transition_in_a_part_belongs_to_its_agent():
    after = edit(ROOMS, "transition", part="A3", state="apart", event="rest", target="waiting")
    assert tomllib.loads(after)["events"]["rest"].startswith("A3 at ")
    assert describe_text(after)["error"] is None


def test_cutting_the_last_transition_of_an_event_keeps_the_event():
    after = edit(BUTTONS, "cut", part="", state="u0", event="Y")
    assert "u0 = {}" in after and describe_text(after)["error"] is None
    again = edit(after, "transition", part="", state="u0", event="Y", target="u1")
    assert describe_text(again)["decomposable"]


def test_a_state_is_removed_with_all_that_leads_to_it():
    after = edit(BUTTONS, "remove state", part="", state="u3")
    assert '"u3"' not in after and describe_text(after)["error"] is None
    with pytest.raises(HocketError, match="is the initial state"):
        edit(BUTTONS, "remove state", part="", state="u0")


def test_a_state_gets_another_name_in_its_place():
    after = edit(BUTTONS, "rename state", part="", state="u2", name="both in")
    assert 'u1 = { G = "both in" }\n"both in" = { A2on = "u3", A3on = "u4" }\n' in after
    assert len(changed(BUTTONS, after)) == 4
    with pytest.raises(HocketError, match="there is a state 'u3' already"):
        edit(BUTTONS, "rename state", part="", state="u2", name="u3")


def test_final_and_initial_states_are_chosen():
    assert 'final = ["u7", "u6"]' in edit(BUTTONS, "final", part="", state="u6", final=True)
    assert "final = []" in edit(BUTTONS, "final", part="", state="u7", final=False)
    assert 'initial = "u1"' in edit(BUTTONS, "initial", part="", state="u1")


def test_a_sentence_is_changed_and_its_machine_is_not():
    after = edit(FORMULA, "sentence", sentence="F home")
    assert changed(FORMULA, after) == ['formula = "F home"']
    with pytest.raises(HocketError, match="made from a sentence"):
        edit(FORMULA, "transition", part="", state="a", event="b", target="c")


# The map.


def test_walls_floor_and_places_are_painted():
    after = edit(BUTTONS, "paint", brush="wall", cells=[[1, 1], [1, 2]])
    assert changed(BUTTONS, after) == [".###...#.."]
    assert edit(after, "paint", brush="floor", cells=[[1, 1], [1, 2]]) == BUTTONS
    again = edit(BUTTONS, "paint", brush="place", place="lamp", cells=[[1, 0], [1, 1]])
    assert changed(BUTTONS, again) == ["ll.#...#..", 'l = "lamp"']


def test_a_wall_is_not_built_over_a_start_nor_over_the_last_cell_of_a_place():
    with pytest.raises(HocketError, match="A1 starts there"):
        edit(BUTTONS, "paint", brush="wall", cells=[[0, 0]])
    with pytest.raises(HocketError, match="the last cell of goal"):
        edit(BUTTONS, "paint", brush="floor", cells=[[8, 9]])


def test_the_letter_of_a_start_moves_and_over_a_place_it_becomes_coordinates():
    moved = edit(BUTTONS, "start", agent="A1", cells=[[1, 0]])
    assert changed(BUTTONS, moved) == ["..Y#.2.#3.", "1..#...#.."]
    over = edit(BUTTONS, "start", agent="A1", cells=[[0, 2]])
    assert tomllib.loads(over)["agents"]["A1"]["start"] == [0, 2]
    with pytest.raises(HocketError, match="cannot start in a wall"):
        edit(BUTTONS, "start", agent="A1", cells=[[0, 3]])


def test_comments_after_the_last_gate_stay_when_it_is_opened_for_good():
    text = BUTTONS
    for place, agent in (("red region", "A1"), ("yellow region", "A2"), ("green region", "A3")):
        text = edit(text, "gate", place=place, agent=agent, open=None)
    assert tomllib.loads(text)["gates"] == {}
    assert [line for line in BUTTONS.split("\n") if line.startswith("#")] == [
        line for line in text.split("\n") if line.startswith("#")
    ]
    assert describe_text(text)["error"] is None


def test_a_start_needs_a_cell():
    with pytest.raises(HocketError, match="A1 needs a cell to start in"):
        edit(BUTTONS, "start", agent="A1", cells=[])


def test_a_gate_is_built_with_its_place_and_opened_again():
    after = edit(BUTTONS, "gate", place="door", agent="A3", open="G", cells=[[4, 8]])
    assert 'door = { A3 = "G" }' in after and describe_text(after)["error"] is None
    gone = edit(BUTTONS, "gate", place="red region", agent="A1", open=None)
    assert "red region" not in tomllib.loads(gone)["gates"]


@pytest.mark.parametrize("corner", ["lower right", "upper left", "upper right", "lower left"])
@pytest.mark.parametrize("name", ["buttons", "rendezvous-2", "drawbridge"])
def test_a_map_grows_at_any_corner_and_the_world_in_it_stays_as_it_is(name, corner):
    text = start_text(name)
    before = parse_subject(text)
    after = edit(text, "resize", rows=before.grid.rows + 2, columns=before.grid.columns + 3, corner=corner)
    found = parse_subject(after)
    down, right = 2 * corner.startswith("upper"), 3 * corner.endswith("left")

    def moved(cell: int) -> int:
        row, column = before.grid.row_column(cell)
        return found.grid.cell(row + down, column + right)

    assert found.grid.walls == {moved(cell) for cell in before.grid.walls}
    assert found.grid.places == {
        name: frozenset(moved(cell) for cell in cells) for name, cells in before.grid.places.items()
    }
    assert [agent.start for agent in found.agents.values()] == [moved(own.start) for own in before.agents.values()]
    assert edit(after, "resize", rows=before.grid.rows, columns=before.grid.columns, corner=corner) == text


def test_a_corner_is_one_of_four():
    with pytest.raises(HocketError, match="a map grows at its lower right or upper left"):
        edit(BUTTONS, "resize", rows=11, columns=10, corner="middle")


def test_a_map_is_resized_at_its_lower_right():
    after = edit(BUTTONS, "resize", rows=12, columns=11)
    grid = parse_subject(after).grid
    assert (grid.rows, grid.columns) == (12, 11)
    assert edit(after, "resize", rows=10, columns=10) == BUTTONS
    with pytest.raises(HocketError, match="the last cell of red button"):
        edit(BUTTONS, "resize", rows=10, columns=9)


def test_a_wall_leaves_places_by_coordinates_as_they_were_written():
    before = start_text("rendezvous-2").replace('"goal 1" = [[9, 7]]', '"goal 1" = [9, 7]')
    assert '"goal 1" = [9, 7]' in before
    assert changed(before, edit(before, "paint", brush="wall", cells=[[5, 5]])) == [".....#...."]


def test_places_by_coordinates_grow_and_shrink():
    text = start_text("rendezvous-2")
    after = edit(text, "paint", brush="place", place="goal 1", cells=[[5, 5]])
    assert tomllib.loads(after)["places"]["goal 1"] == [[9, 7], [5, 5]]
    assert tomllib.loads(edit(after, "paint", brush="floor", cells=[[9, 7]]))["places"]["goal 1"] == [[5, 5]]


def test_a_state_under_a_heading_of_its_own_is_renamed():
    text = 'final = ["t"]\n[transitions.s] # first\na = "t"\n[rewards.s]\na = 2\n'
    assert edit(text, "rename state", part="", state="s", name="x y") == (
        'final = ["t"]\n[transitions."x y"] # first\na = "t"\n[rewards."x y"]\na = 2\n'
    )


def test_keys_that_stand_apart_from_each_other_are_changed_as_text():
    text = (
        SCATTERED.replace("[agents]\nA1", "agents.A1")
        .replace("\nA2 = {", "\n[agents.A2]\n#")
        .replace('#start = "a mat", knows = ["e", "g"] }', 'start = "a mat"\nknows = ["e", "g"]')
    )
    with pytest.raises(HocketError, match="change the text instead"):
        edit(text, "rename agent", agent="A1", name="Ann")


# Names.

SCATTERED = """
map = "1.Bf."
legend = { B = ["bell", "room"], f = "room" }
places = { "a mat" = [0, 1] }
gates = { bell = { A1 = "e" } }
[agents]
A1 = { start = "1", knows = ["e", "g"], memory = ["e"], options = ["bell", "a mat after e"] }
A2 = { start = "a mat", knows = ["e", "g"] }
[events]
e = "A1 at a mat and A2 not at bell or not in room"  # both
g = { A1 = "at bell or a mat", A2 = ["anywhere"] }
[machine]
final = ["t"]
transitions = { s = { e = "u" }, u = { g = "t" } }
"""


def test_a_place_is_renamed_wherever_it_stands():
    after = edit(SCATTERED, "rename place", place="bell", name="big bell")
    assert changed(SCATTERED, after) == [
        'legend = { B = ["big bell", "room"], f = "room" }',
        'gates = { "big bell" = { A1 = "e" } }',
        'A1 = { start = "1", knows = ["e", "g"], memory = ["e"], options = ["big bell", "a mat after e"] }',
        'e = "A1 at a mat and A2 not at big bell or not in room"  # both',
        'g = { A1 = "at big bell or a mat", A2 = ["anywhere"] }',
    ]
    mat = tomllib.loads(edit(SCATTERED, "rename place", place="a mat", name="rug"))
    assert (mat["places"], mat["agents"]["A2"]["start"]) == ({"rug": [0, 1]}, "rug")
    assert mat["agents"]["A1"]["options"] == ["bell", "rug after e"]


def test_an_agent_is_renamed_wherever_it_stands():
    after = edit(SCATTERED, "rename agent", agent="A2", name="Bo")
    assert changed(SCATTERED, after) == [
        'Bo = { start = "a mat", knows = ["e", "g"] }',
        'e = "A1 at a mat and Bo not at bell or not in room"  # both',
        'g = { A1 = "at bell or a mat", Bo = ["anywhere"] }',
    ]
    assert tomllib.loads(edit(MACHINE, "rename agent", agent="A1", name="Ann"))["knows"].keys() == {"Ann", "A2"}


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("rename place", {"place": "bell", "name": "room"}, "there is a place 'room' already"),
        ("rename place", {"place": "bel", "name": "x"}, "the text has no place 'bel'"),
        ("rename place", {"place": "bell", "name": " "}, "must not be empty"),
        ("rename agent", {"agent": "A1", "name": "A2"}, "there is an agent 'A2' already"),
        ("rename agent", {"agent": "A9", "name": "x"}, "the text has no row for agent 'A9'"),
        ("rename place", {"place": "room", "name": "bell or a mat"}, "would be misread in 'A1 at bell or a mat'"),
        ("rename place", {"place": "a mat", "name": "at"}, "would be misread in 'A1 at bell or at'"),
    ],
)
def test_a_name_that_is_taken_or_misread_is_refused(kind, more, said):
    with pytest.raises(HocketError, match=said):
        edit(SCATTERED, kind, **more)


ODD = ("x y", "and", "A{1}", "<b>", 'a "b" \\')


@pytest.mark.parametrize(("name", "new"), [*product([""], ODD), *zip(start_names(), cycle(ODD))])
def test_what_is_renamed_means_the_same_and_back_again_it_is_the_same_text(name, new):
    text = start_text(name) if name else SCATTERED
    subject = parse_subject(text)
    document = tomllib.loads(text)
    if "team" in document:
        return
    agents = list(subject.agents) if "machine" in document else list(subject.knows)
    places = list(subject.grid.places) if "machine" in document else []
    for kind, key, olds in (("rename agent", "agent", agents), ("rename place", "place", places)):
        for old in olds:
            after = edit(text, kind, **{key: old}, name=new)
            assert describe_text(after)["error"] is None
            assert edit(after, kind, **{key: new}, name=old) == text
            found = parse_subject(after)
            if key == "agent" and "machine" in document:
                assert found.events == {
                    event: {new if own == old else own: where for own, where in said.items()}
                    for event, said in subject.events.items()
                }
            assert {len(own) for own in found.knows.values()} == {len(own) for own in subject.knows.values()}


# Laws.

NAMES = (
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)


@examples(15)
@given(NAMES)
def test_renaming_a_state_there_and_back_changes_nothing(name):
    if name in parse_subject(BUTTONS).machine.states:
        return
    there = edit(BUTTONS, "rename state", part="", state="u3", name=name)
    assert name in parse_subject(there).machine.states
    assert edit(there, "rename state", part="", state=name, name="u3") == BUTTONS


@examples(15)
@given(
    st.sets(st.sampled_from([(a, e) for a in ("A1", "A2", "A3") for e in ("Y", "G", "R", "Goal", "A2on")]), max_size=6)
)
def test_check_marks_are_what_the_text_says(pairs):
    text = BUTTONS
    for agent, event in sorted(pairs):
        known = event in parse_subject(text).knows[agent]
        text = edit(text, "know", agent=agent, event=event, known=not known)
    before, after = parse_subject(BUTTONS).knows, parse_subject(text).knows
    for agent, own in after.items():
        assert {*own} ^ {*before[agent]} == {event for who, event in pairs if who == agent}


@pytest.mark.parametrize(
    "gesture",
    [
        None,
        {},
        {"kind": "know"},
        {"kind": "dance"},
        {"kind": "paint", "brush": "wall", "cells": [[99, 0]]},
        {"kind": "paint", "brush": "wall", "cells": "all"},
        {"kind": "paint", "brush": "lava", "cells": []},
        {"kind": "resize", "rows": -1, "columns": 2},
        {"kind": "resize", "rows": 9000, "columns": 9000},
        {"kind": "rename state", "part": "", "state": "u1", "name": "a\nb"},
        {"kind": "repair", "add": [1]},
        {"kind": "transition", "part": "A9", "state": "u", "event": "e", "target": "v"},
        {"kind": "cut", "part": "", "state": "u0", "event": "nothing"},
    ],
)
def test_a_gesture_that_makes_no_sense_is_refused_in_a_sentence(gesture):
    with pytest.raises(HocketError):
        apply_gesture(BUTTONS, gesture)


@pytest.mark.parametrize("name", start_names())
def test_every_start_means_something_and_survives_being_read_for_editing(name):
    text = start_text(name)
    assert describe_text(text)["error"] is None
    assert "name" not in keys_of(text) or keys_of(text)["name"] > 0


# Nothing is lost, and what is new stands where it belongs.


def test_what_is_new_stands_after_the_last_key_and_before_the_comment_of_the_next_section():
    text = BUTTONS.replace("\n[gates]", "\n# Gates.\n[gates]").replace("\n[machine.tr", "\n# Rows.\n[machine.tr")
    after = edit(text, "agent", agent="A4")
    assert "A4 = { start = [0, 0], knows = [] }\n\n# Gates.\n[gates]" in after
    again = edit(text, "transition", part="", state="u0", event="bell", target="u9")
    assert 'Goal = "A1 at goal"\nbell = "A1 at yellow button"\n\n[machine]' in again
    first = edit(text, "initial", part="", state="u1").replace('initial = "u1"', 'initial = "u0"')
    assert first == text
    assert 'final = ["u7"]\nevents = [' in edit(text, "cut", part="", state="u6", event="Goal")


def test_a_state_is_removed_though_others_cannot_be_reached_without_it():
    after = edit(BUTTONS, "remove state", part="", state="u6")
    assert describe_text(after)["error"] is None and "u7 = {}" in after
    assert {*parse_subject(BUTTONS).machine.states} - {*parse_subject(after).machine.states} == {"u6"}


DRAWBRIDGE = start_text("drawbridge")


def test_a_door_that_is_held_open_is_drawn_and_painting_over_it_loses_nothing():
    held = {"place": "bridge", "agent": "A1", "open": "over", "close": "lift", "cells": [[2, 5]]}
    assert edit(DRAWBRIDGE, "gate", **held) == DRAWBRIDGE
    wider = edit(DRAWBRIDGE, "gate", **held | {"cells": [[1, 5]]})
    assert changed(DRAWBRIDGE, wider) == [".....bffff"]
    after = edit(BUTTONS, "gate", place="door", agent="A3", open="A3on", close="A3off", cells=[[4, 8]])
    assert 'door = { A3 = {open = "A3on", close = "A3off" } }' in after.replace("{ open", "{open")
    assert parse_subject(after).gates["A3"]["door"] == hk.Gate("A3on", "A3off")
    longer = DRAWBRIDGE.replace('open = "over"', 'open = ["over", "down"], starts_open = true')
    assert edit(longer, "gate", **held) == longer
    simple = edit(DRAWBRIDGE, "gate", **held | {"close": ""})
    assert parse_subject(simple).gates["A1"]["bridge"] == hk.Gate("over")


def test_an_agent_is_removed_with_its_gates_and_what_it_alone_controls():
    after = parse_subject(edit(BUTTONS, "remove agent", agent="A3"))
    assert [*after.agents] == ["A1", "A2"] and "green region" not in after.gates["A2"]
    assert [*after.events] == ["Y", "G", "A2on", "A2off", "R", "Goal"]
    assert [*after.controllers["R"]] == ["A2"] and describe_text(edit(BUTTONS, "remove agent", agent="A3"))[
        "error"
    ] is None
    assert [*parse_subject(edit(MACHINE, "remove agent", agent="A1")).knows] == ["A2"]
    with pytest.raises(HocketError, match="is the only agent"):
        edit(edit(MACHINE, "remove agent", agent="A1"), "remove agent", agent="A2")


@pytest.mark.parametrize("name", start_names())
def test_every_event_and_agent_can_be_removed(name):
    text = start_text(name)
    subject, document = parse_subject(text), tomllib.loads(text)
    if "team" in document or {"formula", "regex"} & {*document.get("machine", document)}:
        return
    names = [*subject.knows] if len(subject.knows) > 1 else []
    for kind, key, olds in (("remove agent", "agent", names), ("remove event", "event", [*subject.machine.events])):
        for old in olds:
            after = edit(text, kind, **{key: old})
            error = describe_text(after)["error"]
            assert error is None, (kind, old, error)
            assert old not in (parse_subject(after).knows if key == "agent" else parse_subject(after).machine.events)


@examples(30)
@given(st.data())
def test_a_long_text_is_read_by_sections_as_it_is_read_as_a_whole(data):
    names = [name for name in start_names() if name != "rooms"]
    text = start_text(data.draw(st.sampled_from(names)))
    at, more = data.draw(st.integers(0, len(text))), data.draw(st.sampled_from(['"""', "[x]\n", "'", "#", "\n", "a.b"]))
    odd = text[:at] + more + text[at:] + "#" * SMALL
    try:
        whole = tomllib.loads(odd)
    except ValueError:
        with pytest.raises(HocketError, match="is not TOML"):
            parse(odd)
    else:
        assert parse(odd) == whole and [*parse(odd)] == [*whole]
    assert "".join(section.text for section in split(odd)) == odd


def test_cells_of_a_map_with_thin_walls_are_painted_and_its_walls_stay():
    office = (resources.files("hocket.task.builtin") / "office.toml").read_text(encoding="utf-8")
    after = edit(office, "paint", brush="wall", cells=[[0, 3], [8, 11]])
    assert changed(office, after) == ["|. . .|# . .|. . .|. . .|", "|. . .|. . .|. . .|. . #|"]
    assert edit(after, "paint", brush="floor", cells=[[0, 3], [8, 11]]) == office
    moved = edit(office, "start", agent="A1", cells=[[0, 0]])
    assert changed(office, moved)[0].startswith("|1 . .|")
    with pytest.raises(HocketError, match="made larger or smaller in its text"):
        edit(office, "resize", rows=10, columns=12)
