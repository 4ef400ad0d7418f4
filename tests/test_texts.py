"""The form of a text: a byte order mark and line ends, of any kind and mixed, outlive changes of its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.files import MARK, in_form_of, plain

LINES = st.lists(st.sampled_from(["", "a", "b", "c", 'key = "value"']), max_size=12)
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def texts(draw):
    """Draw a text of any form: its mark, its lines, and the end of each but the last."""
    lines = ["", *draw(LINES)]
    ends = draw(st.lists(ENDS, min_size=len(lines) - 1, max_size=len(lines) - 1))
    return draw(st.sampled_from(["", MARK])), lines, ends


def joined(mark: str, lines: list[str], ends: list[str]) -> str:
    return mark + "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True))


@given(texts())
def test_a_text_that_nobody_touches_is_the_same_byte_for_byte(text):
    before = joined(*text)
    assert plain(before) == "\n".join(text[1])
    assert in_form_of(plain(before), before) == before


@given(texts(), texts())
def test_whatever_is_written_says_what_it_said(text, other):
    new = "\n".join(other[1])
    after = in_form_of(new, joined(*text))
    assert plain(after) == new
    assert after.startswith(MARK) == (text[0] == MARK)


@given(texts(), st.data())
def test_lines_around_a_change_keep_their_ends(text, data):
    mark, lines, ends = text
    place = data.draw(st.integers(0, len(lines) - 1))
    changed = [*lines[:place], "changed", *lines[place + 1 :]]
    after = in_form_of("\n".join(changed), joined(*text))
    begin, rest = lines[:place], lines[place + 1 :]
    assert after.startswith(joined(mark, [*begin, "changed"], ends[:place]))
    assert after.endswith(joined("", rest, ends[place + 1 :]) if rest else "changed")


@pytest.mark.parametrize("most", [4_000_000, 0])  # lines of long texts are told apart by where they stand
def test_changes_in_several_places_leave_what_lies_between(monkeypatch, most):
    monkeypatch.setattr("hocket.files.MOST_COMPARED", most)
    assert in_form_of("1\nb\nc\nd\n2\n", "a\nb\r\nc\nd\r\ne\n") == "1\nb\r\nc\nd\r\n2\n"


def test_new_lines_end_as_most_do():
    assert in_form_of("a\nnew\nb\nc\n", "a\r\nb\nc\r\n") == "a\r\nnew\r\nb\nc\r\n"
    assert in_form_of("new\n", "") == "new\n"
