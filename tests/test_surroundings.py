"""Surroundings that fail: no home, no room on the disk, no locks, folders that nobody may use, mistakes of hocket's."""

import errno
import importlib.util
import tempfile
from pathlib import Path
from types import FunctionType

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

import hocket as hk
from hocket.cli.check import Check
from hocket.files import HAS_LOCKS, locked
from hocket.learn.kernels.compiler import is_compiled, kernel
from hocket.learn.warmup import _alone_with
from hocket.study.store import claimed, load_results

LONG = "x" * 300  # no file has such a name


def fail(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


# Compiled kernels, and where they are kept.


@pytest.fixture
def compiled_twice(tmp_path, monkeypatch):
    """Give a way to compile the same function again, as another process would that has the same cache."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "doubling.py"
    source.write_text("def double(x):\n    return x + x\n", encoding="utf-8")

    def compiled():
        spec = importlib.util.spec_from_file_location("doubling", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return kernel(module.double)

    return compiled


def test_a_kernel_is_loaded_from_disk(compiled_twice):
    assert compiled_twice()(2) == 4
    again = compiled_twice()
    assert is_compiled(again)
    assert again(3) == 6 and hits(again) == 1


def test_where_nothing_can_be_kept_a_kernel_is_compiled_all_the_same():
    nowhere = kernel(FunctionType((lambda x: x + x).__code__.replace(co_filename="no such file"), {}))
    assert nowhere(2) == 4 and is_compiled(nowhere), "there is no second process that could do it for this one"


def test_a_full_disk_keeps_nobody_from_compiling(compiled_twice, monkeypatch):
    for write in ("_save_index", "_save_data"):
        with monkeypatch.context() as full:
            full.setattr(IndexDataCacheFile, write, fail)
            assert compiled_twice()(2) == 4
    assert hits(compiled_twice()) == 0
    assert hits(compiled_twice()) == 1


def hits(compiled):
    """Use a kernel, and say how often it was found on disk."""
    compiled(2)
    return sum(compiled.stats.cache_hits.values())


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 40])
def test_a_file_of_the_cache_that_was_cut_off_is_made_again(compiled_twice, tmp_path, ending, left):
    assert compiled_twice()(2) == 4
    (kept,) = tmp_path.glob(f"cache/*/*.{ending}")
    kept.write_bytes(kept.read_bytes()[:left])
    assert is_compiled(compiled_twice()) == (ending == "nbc"), "the index says what there is"
    assert compiled_twice()(2) == 4
    assert hits(compiled_twice()) == 1


def test_without_a_place_for_a_lock_kernels_are_compiled_without(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "nowhere"))
    with _alone_with("doubling"):
        assert not (tmp_path / "nowhere").exists()
    monkeypatch.setattr(tempfile, "gettempdir", fail)
    with _alone_with("doubling"):
        pass


# Folders and files that cannot be used.


@pytest.mark.skipif(not HAS_LOCKS, reason="there are no locks")
def test_a_disk_that_has_no_locks_gives_everybody_one(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    with locked(tmp_path / "lock", wait=False) as is_ours:
        assert is_ours


def test_a_folder_that_cannot_be_claimed_is_named(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(hk.HocketError, match=r"\.lock: cannot be written: "), claimed(tmp_path):
        pass


def test_a_file_that_cannot_be_read_is_not_said_to_be_wrong(tmp_path):
    (tmp_path / "study.json").mkdir()
    (problem,) = load_results(tmp_path).problems
    assert problem.startswith(f"{tmp_path / 'study.json'}: cannot be read: ") and "JSON" not in problem


@pytest.mark.parametrize(
    "words", [("evaluate", "buttons", LONG), ("report", LONG), ("train", "buttons", "--out", LONG)]
)
def test_a_folder_that_cannot_be_is_named_in_a_sentence(words, hocket):
    code, out, err = hocket(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("hocket: xxx") and "write" not in err


# Mistakes of hocket's own.


def test_a_mistake_of_hockets_own_is_told_from_an_answer_and_from_bad_input(hocket, monkeypatch):
    monkeypatch.setattr(Check, "run", lambda _: {}["\x1b[31m"])
    code, out, err = hocket("check", "a b.toml")
    assert (code, out) == (70, "")
    assert err.startswith("Traceback") and "KeyError" in err and "\x1b" not in err
    last = err.splitlines()[-1]
    assert "internal error" in last and hk.__version__ in last and last.endswith("hocket check 'a b.toml'")


def test_too_little_memory_is_a_sentence(hocket, monkeypatch):
    def run(_):
        raise MemoryError

    monkeypatch.setattr(Check, "run", run)
    assert hocket("check", "buttons") == (2, "", "hocket: not enough memory\n")


def test_an_error_of_the_system_names_its_file(hocket, monkeypatch):
    monkeypatch.setattr(Check, "run", lambda _: Path("/nowhere/at all").stat())
    assert hocket("check", "buttons") == (2, "", "hocket: /nowhere/at all: No such file or directory\n")
