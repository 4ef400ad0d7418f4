"""Files of arrays (.npz) with metadata, without pickle; the size of an array is checked before it is read."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.errors import FormatError
from hocket.files import MEGABYTE, open_regular, write_whole

COMPRESSION = 1  # of 1 to 9; the usual 6 takes twice as long and saves a twelfth
LARGEST_ABOUT = MEGABYTE  # of the metadata
UNREADABLE = (
    ValueError, KeyError, TypeError, AttributeError, MemoryError, RecursionError, NotImplementedError, EOFError,
    zipfile.BadZipFile, zlib.error, RuntimeError, SyntaxError, TokenError,
)  # fmt: skip  # what reading damaged or foreign archives raises


def pack_arrays(about: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file with metadata and arrays."""
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as archive:
        for name, array in {"about": text, **arrays}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def write_archive(path: str | Path, what: str, content: bytes) -> None:
    """Write such a file; `what` it is has an article."""
    if Path(path).suffix.lower() != ".npz":
        raise FormatError(f"{what}'s file ends in .npz", path=path)
    write_whole(Path(path), content)


@contextmanager
def open_archive(path: Path, what: str, content: bytes | None = None) -> Iterator[zipfile.ZipFile]:
    """Open such a file or its content, and name the file in errors; `what` it should be has an article."""
    with open_regular(path) if content is None else io.BytesIO(content) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except FormatError:
            raise
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from None
        except UNREADABLE:
            raise FormatError(f"is not {what} that hocket has written", path=path) from None


def read_about(archive: zipfile.ZipFile) -> Any:  # noqa: ANN401
    """Read the metadata."""
    return json.loads(read_array(archive, "about", np.dtype(np.uint8), LARGEST_ABOUT).tobytes())


def read_array(archive: zipfile.ZipFile, name: str, kind: np.dtype[Any], most: int) -> NDArray[Any]:
    """Read one array of at most so many bytes; its size is checked before it is unpacked."""
    entry = archive.getinfo(f"{name}.npy")
    with archive.open(entry) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        shape, is_fortran, stored = np.lib.format.read_array_header_1_0(file)
        size = stored.itemsize * prod(shape)
        if stored != kind or is_fortran or size > most or file.tell() + size != entry.file_size:
            raise ValueError
        array = np.frombuffer(bytearray(file.read()), kind)  # may be written to, as others expect
        return array.reshape(shape)
