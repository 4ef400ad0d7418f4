"""A log that was dropped on the page: whether the local event sets explain it, and the machines that do."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hocket.draw.learnt import learnt_svg
from hocket.errors import FormatError
from hocket.files import MEGABYTE
from hocket.inference.infer import UnexplainedError, infer
from hocket.inference.logs import OBSERVED, Log, read_log
from hocket.studio.pictures import Data
from hocket.studio.understanding import subject_in

LARGEST = 2 * MEGABYTE
SECONDS = 8.0  # for the solver; the page waits


def explain_log(request: Mapping[str, object]) -> Data:
    """Say whether a log can be explained with the local event sets of a text; if so, show the machines."""
    knows = {agent: tuple(events) for agent, events in subject_in(request).knows.items()}
    log = _read(request)
    try:
        answer = infer(log, knows, seconds=SECONDS)
    except UnexplainedError as error:
        return {"explained": False, "said": str(error)}
    picture = base64.b64encode(learnt_svg(answer).encode()).decode()
    return {
        "explained": True,
        "said": answer.claim,
        "questions": [question.explain() for question in answer.questions],
        "picture": f"data:image/svg+xml;base64,{picture}",
    }


def _read(request: Mapping[str, object]) -> Log:
    """Read the log as if it were a file of its name."""
    content, name = str(request.get("log", "")), Path(str(request.get("log_name", ""))).name
    if len(content.encode()) > LARGEST:
        raise FormatError(f"must be at most {LARGEST // MEGABYTE} MB to be shown here; use `hocket infer`", path=name)
    observed = next((known for known in OBSERVED if known == request.get("observed")), None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{Path(name).suffix}"
        path.write_text(content, encoding="utf-8")
        try:
            return read_log(path, observed, str(request["outcome"]) if request.get("outcome") else None)
        except FormatError as error:
            raise FormatError(str(error).replace(str(path), name)) from None
