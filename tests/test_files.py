"""Files are on the disk before they have their names, and nothing half-written stays behind."""

import io
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

import hocket as hk
from hocket import files
from hocket.files import UNFINISHED, GrowingFile, write_many, write_whole
from hocket.study.store import claimed, load_results, save_records
from studies import record
from worlds import meeting


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what a handle is of is not told here")
def test_a_file_is_flushed_before_it_is_renamed_and_its_folder_after(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, Path.replace

    def noted_sync(handle: int) -> None:
        place = Path(f"/proc/self/fd/{handle}").readlink()
        done.append(("folder", place) if place.is_dir() else ("content", place.read_bytes()))
        sync(handle)

    def noted_replace(self: Path, target: Path) -> Path:
        done.append(("rename", target))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    write_whole(tmp_path / "one", "whole")
    assert done == [("content", b"whole"), ("rename", tmp_path / "one"), ("folder", tmp_path)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("place", ["os.open", "os.fsync", "os.fdopen", "pathlib.Path.replace"])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, place, error):
    (tmp_path / "one").write_text("before")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place, fail)
        with pytest.raises((KeyboardInterrupt, hk.errors.FormatError)):
            write_whole(tmp_path / "one", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert (tmp_path / "one").read_text() == "before"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path, is_link):
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / ("link" if is_link else "pipe")
    if is_link:
        path.symlink_to("pipe")
    with pytest.raises(hk.errors.FormatError, match="cannot be written: it is a device or a pipe, and not a file"):
        write_whole(path, "x")
    assert (tmp_path / "pipe").is_fifo() and path.is_symlink() == is_link
    assert not list(tmp_path.glob(f".*{UNFINISHED}"))


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    path = tmp_path / "own"
    path.write_text("before")
    path.chmod(0o600)
    write_whole(path, "after")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("after", 0o600)


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "there").write_text("theirs")
    (tmp_path / "link").symlink_to("there")
    write_whole(tmp_path / "link", "mine")
    assert ((tmp_path / "there").read_text(), (tmp_path / "link").read_text()) == ("theirs", "mine")
    assert not (tmp_path / "link").is_symlink()


def test_many_files_are_flushed_before_any_is_renamed(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("sync"), sync(handle))[1])
    monkeypatch.setattr(Path, "replace", lambda self, target: (done.append(target.name), replace(self, target))[1])
    monkeypatch.setattr(files, "TOGETHER", 3)
    names = ["a", "b", "c", "d"]
    write_many((tmp_path / name, name.encode()) for name in names)
    assert done == [*["sync"] * 3, "a", "b", "c", "sync", "sync", "d", "sync"]  # a folder's names are synced as well
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: name for name in names}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("place", ["os.fsync", "pathlib.Path.replace"])
def test_an_interrupted_write_of_many_files_leaves_only_complete_files(tmp_path, monkeypatch, place, error):
    owner, name = (os, "fsync") if place == "os.fsync" else (Path, "replace")
    plain, calls = getattr(owner, name), count()

    def fail(*args: object) -> object:
        if next(calls) == 5:
            raise error
        return plain(*args)

    with monkeypatch.context() as patch:
        patch.setattr(place, fail)
        with pytest.raises((KeyboardInterrupt, hk.errors.FormatError)):
            write_many((tmp_path / str(number), b"whole") for number in range(20))
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == {str(number): "whole" for number in range(5 if place != "os.fsync" else 0)}


def test_the_rights_of_files_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_many((tmp_path / str(number), b"1") for number in range(40))
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    if os.name == "posix":
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.parametrize("name", ["n" * 250, "\N{SNOWMAN}" * 80])
def test_a_name_that_the_system_takes_can_be_written(tmp_path, name):
    write_whole(tmp_path / name, b"1")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_that_grows_takes_the_place_of_another_when_it_is_kept(tmp_path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_size), sync(handle))[1])
    monkeypatch.setattr(files, "UNSYNCED", 4)
    path = tmp_path / "one"
    path.write_text("before")
    path.chmod(0o600)
    with GrowingFile(path) as file:
        file.add(b"ab")
        assert synced == []
        file.add(b"cde")
        assert synced == [5] and path.read_text() == "before"  # so to keep it takes no longer, the larger it is
        file.add(b"f")
        file.keep()
        assert synced[1] == 6 and path.read_bytes() == b"abcdef"
    assert [own.name for own in tmp_path.iterdir()] == ["one"]
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_grew_and_was_not_kept_leaves_what_was_there(tmp_path):
    path = tmp_path / "one"
    path.write_text("before")
    with GrowingFile(path) as file:
        file.add(b"after")
    assert [own.name for own in tmp_path.iterdir()] == ["one"] and path.read_text() == "before"


class FullDisk(io.RawIOBase):
    """A file that nothing can be written to."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_file_that_grows_until_the_disk_is_full_is_an_error_and_leaves_nothing(tmp_path):
    is_full = pytest.raises(hk.errors.FormatError, match="cannot be written: No space left")
    with is_full, GrowingFile(tmp_path / "one") as file:
        file.file.close()
        file.file = io.BufferedWriter(FullDisk())
        file.add(b"after")
        file.keep()
    assert [*tmp_path.iterdir()] == []


KILLED = """
import os, sys
from pathlib import Path
from hocket.files import write_whole

os.fsync = lambda _: os.kill(os.getpid(), 9)  # inside a write
write_whole(Path(sys.argv[1]), "{}")
"""


def test_files_of_a_killed_writer_are_no_runs_and_are_removed(tmp_path):
    own = record("meeting", meeting().digest, "iql", 0, [9, 8])
    save_records(tmp_path, [own], [meeting()])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for name in ("runs/other.json", "curves.csv"):
        command = [sys.executable, "-c", KILLED, str(tmp_path / name)]
        assert subprocess.run(command, env=environment, check=False).returncode == -9
    (left,) = (tmp_path / "runs").glob(f"*{UNFINISHED}")
    (table,) = tmp_path.glob(f"*{UNFINISHED}")
    assert left.name.startswith(".other.json.") and table.name.startswith(".curves.csv.")
    found = load_results(tmp_path)
    assert ([own.seed for own in found.records], found.problems) == ([0], ())
    with claimed(tmp_path):
        assert not left.exists() and not table.exists()
        with pytest.raises(hk.HocketError, match="another study is at work"), claimed(tmp_path):
            pass
