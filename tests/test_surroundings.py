"""Surroundings that fail: no home, no room on the disk, no locks, folders that nobody may use, mistakes of hocket's."""

import errno
import gc
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

import hocket as hk
from hocket.cli.check import Check
from hocket.files import HAS_LOCKS, locked
from hocket.learn.kernels.compiler import is_compiled, kernel
from hocket.learn.warmup import _locked, lock_name
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
        monkeypatch.setitem(sys.modules, "doubling", module)  # where numba looks for it when it loads a kernel
        spec.loader.exec_module(module)
        return kernel(module.double)

    return compiled


def test_a_kernel_is_loaded_from_disk(compiled_twice):
    assert compiled_twice()(2) == 4
    gc.collect()  # as in another process, nothing is left of the first one
    again = compiled_twice()
    assert is_compiled(again)
    assert again(3) == 6 and hits(again) == 1


def test_without_a_writable_cache_a_kernel_is_compiled():
    nowhere = kernel(FunctionType((lambda x: x + x).__code__.replace(co_filename="no such file"), {}))
    assert nowhere(2) == 4 and is_compiled(nowhere), "there is no second process that could do it for this one"


def test_a_kernel_is_compiled_on_a_full_disk(compiled_twice, monkeypatch):
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
def test_a_truncated_file_of_the_cache_is_replaced(compiled_twice, tmp_path, ending, left):
    assert compiled_twice()(2) == 4
    (kept,) = tmp_path.glob(f"cache/*/*.{ending}")
    kept.write_bytes(kept.read_bytes()[:left])
    assert is_compiled(compiled_twice()) == (ending == "nbc"), "the index says what there is"
    assert compiled_twice()(2) == 4
    assert hits(compiled_twice()) == 1


# The lock of those who compile the same.


@pytest.fixture
def compile_lock(tmp_path, monkeypatch):
    """Give the path of the lock of who compiles `doubling`, in a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hocket" / lock_name("doubling")


def is_free(path: Path) -> bool:
    with locked(path) as is_ours:
        return is_ours


@pytest.mark.skipif(not HAS_LOCKS, reason="there are no locks")
def test_a_compiling_process_holds_a_lock_that_only_its_user_can_reach(compile_lock):
    with _locked("doubling"):
        assert compile_lock.parent.stat().st_mode & 0o077 == 0
        assert not is_free(compile_lock)
    assert is_free(compile_lock)


@pytest.mark.skipif(not HAS_LOCKS, reason="there are no locks")
def test_who_compiles_for_another_installation_holds_another_lock(compile_lock, monkeypatch):
    with _locked("doubling"):
        monkeypatch.setattr("hocket.learn.warmup.__file__", "elsewhere/warmup.py")
        assert is_free(compile_lock.with_name(lock_name("doubling")))


def test_a_compiling_process_waits_for_a_lock_for_a_limited_time(compile_lock, monkeypatch):
    monkeypatch.setattr("hocket.learn.warmup.PATIENCE", 0.1)
    with _locked("doubling"):  # as another process would hold it
        begun = []
        with _locked("doubling"):
            begun.append("compiling")
    assert begun


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("obstacle", ["pipe", "link", "link to a pipe", "folder", "of another user"])
def test_anything_in_place_of_the_lock_does_not_prevent_compiling(compile_lock, obstacle, tmp_path, monkeypatch):
    compile_lock.parent.mkdir(parents=True)
    precious = tmp_path / "precious"
    if obstacle == "pipe":
        os.mkfifo(compile_lock)
    elif obstacle == "folder":
        compile_lock.mkdir()
    elif obstacle == "of another user":
        compile_lock.write_text("")
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    else:
        if obstacle == "link to a pipe":
            os.mkfifo(precious)
        compile_lock.symlink_to(precious)
    with _locked("doubling"):
        pass
    assert precious.exists() == (obstacle == "link to a pipe"), "a link is not followed"


def test_without_a_place_for_a_lock_kernels_are_compiled_without(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with _locked("doubling"):
        pass
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", fail)
    with _locked("doubling"):
        pass


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("obstacle", ["pipe", "link"])
def test_a_folder_whose_lock_is_a_link_or_a_pipe_is_refused(tmp_path, obstacle):
    if obstacle == "pipe":
        os.mkfifo(tmp_path / ".lock")
    else:
        (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(hk.HocketError, match=r"\.lock: cannot be written: "), claimed(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


# Folders and files that cannot be used.


@pytest.mark.skipif(not HAS_LOCKS, reason="there are no locks")
def test_a_disk_that_has_no_locks_gives_everybody_one(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    with locked(tmp_path / "lock") as is_ours:
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


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="there is no folder in which nobody may write, root neither"
)
@pytest.mark.parametrize(
    "words",
    [
        ("train", "buttons", "--seeds", "1", "--out", "/proc/runs"),
        ("paper", "--quick", "--seeds", "1", "--out", "/proc/runs"),
        ("new", "/proc/task.toml"),
        ("show", "buttons", "-o", "/proc/buttons.svg"),
    ],
)
def test_a_read_only_folder_is_named_in_a_sentence(words, hocket):
    code, _, err = hocket(*words)
    assert code == 2 and err.startswith("hocket: /proc/") and err.count("\n") == 1


# Mistakes of hocket's own.


def test_an_internal_error_differs_from_an_answer_and_from_bad_input(hocket, monkeypatch):
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


def test_an_unexpected_exception_never_means_no(hocket, monkeypatch):
    for error in (SystemExit(1), RecursionError(), AssertionError(), ImportError("cannot allocate memory")):

        def run(_, error=error):
            raise error

        monkeypatch.setattr(Check, "run", run)
        assert hocket("check", "buttons")[0] == 70


@pytest.mark.parametrize("error", ["MemoryError()", "ImportError('failed to map segment')"])
def test_a_command_line_that_cannot_be_loaded_gives_no_answer(error):
    code = (
        "import sys, runpy\n"
        "class Failing:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'numpy': raise {error}\n"
        "sys.meta_path.insert(0, Failing())\nsys.argv = ['hocket', 'check', 'buttons']\n"
        "runpy.run_module('hocket', run_name='__main__')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 70 and "Traceback" not in ended.stderr
    assert ended.stderr.startswith("hocket: cannot be loaded: ")


@pytest.mark.parametrize(("name", "content"), [("m.toml", "final = {}"), ("m.json", '{{"final": {}}}')])
def test_an_integer_with_too_many_digits_is_refused_without_advice_to_programmers(tmp_path, name, content):
    (tmp_path / name).write_text(content.format("9" * 5_000), encoding="utf-8")
    with pytest.raises(hk.HocketError, match=r"an integer has too many digits$"):
        hk.load_machine(tmp_path / name)


@pytest.mark.parametrize("times", ["{1000000000}", "{1,1000000000}", "{100000}", "{99999999999999999999,}"])
def test_a_number_of_repetitions_that_is_too_large_is_called_so(times):
    with pytest.raises(hk.HocketError, match=r"too (large|long): .*at most 20,000"):
        hk.from_regex(f"b a{times}")


@pytest.mark.parametrize(
    ("words", "rare"),
    [
        ([], "hocket.machine.composition numpy"),
        (["--help"], "hocket.machine.composition numpy typeguard"),
        (
            ["check", "buttons", "--no-play"],
            "hocket.draw hocket.hitting_set hocket.machine.delays "
            "hocket.machine.formats.dot hocket.machine.formats.hoa hocket.machine.formulas hocket.task.editing "
            "hocket.task.teamwork.check hocket.task.tokens secrets tomlkit typeguard unittest",
        ),
    ],
)
def test_the_command_line_loads_nothing_that_only_some_commands_need(words, rare):
    rare += " asyncio numba scipy matplotlib hocket.learn.training hocket.study.store hocket.runtime.recording"
    call = f"sys.stdout = open(os.devnull, 'w'); hocket.cli.main.run({words})" if words else ""
    look = f"print(*sorted({{*{rare.split()}}} & {{*sys.modules}}), file=sys.stderr)"
    code = f"import os, sys, hocket.cli.main\n{call}\n{look}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not ended.stderr.split()
