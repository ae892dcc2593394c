"""Parquet files without pandas, whose import alone takes longer than a small run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.arrays import IntArray
from sim.event_log import GpuLists
from sim.report.errors import ReportError

BOOL, NUMBERS = "b", "iuf"  # kinds of numpy arrays


def parquet_bytes(columns: Mapping[str, Any]) -> bytes:
    """A table as the bytes of a parquet file.

    Args:
        columns: name -> equally long arrays: numbers, texts (None where there is none), or a
            sequence of integer arrays.
    """
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    table = pa.table({name: _column(values) for name, values in columns.items()})
    buffer = BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def read_parquet(path: Path, columns: Sequence[str], *, fix: str) -> dict[str, Any]:
    """Columns of a parquet file: numpy arrays, `GpuLists`, or object arrays of texts.

    Raises:
        ReportError: the file is missing, cut off, no parquet file, or lacks a column; with `fix`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise ReportError(f"{path} is not there; {fix}")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        what = str(error).splitlines()[0]
        raise ReportError(f"{path} is cut off or no parquet file ({what}); {fix}") from None
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise ReportError(f"{path}: column {missing[0]} is missing; {fix}")
    return {name: _values(table.column(name).combine_chunks()) for name in columns}


def _column(values: Any) -> Any:
    """An arrow array, made from its buffers: `pyarrow.array` would import pandas."""
    if not isinstance(values, np.ndarray):
        return _lists(values)
    if values.dtype.kind == BOOL:
        return _from_buffers("bool_", len(values), np.packbits(values, bitorder="little"))
    if values.dtype.kind in NUMBERS:
        return _from_buffers(values.dtype.name, len(values), np.ascontiguousarray(values))
    return _texts(values.tolist())


def _from_buffers(kind: str, length: int, *buffers: npt.NDArray[Any]) -> Any:
    """Arrow array without missing values; `kind` names a type of pyarrow like `int64`."""
    import pyarrow as pa

    held = [None, *(pa.py_buffer(buffer) for buffer in buffers)]
    return pa.Array.from_buffers(getattr(pa, kind)(), length, held)


def _texts(values: Sequence[str | None]) -> Any:
    """Arrow array of texts; None is a missing one."""
    import pyarrow as pa

    there = np.array([value is not None for value in values], dtype=np.bool_)
    parts = [b"" if value is None else str(value).encode() for value in values]
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    mask = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_string(), len(parts), buffers)


def _lists(arrays: Sequence[IntArray]) -> Any:
    """A column of lists, without a Python object for each number."""
    import pyarrow as pa

    if isinstance(arrays, GpuLists):
        first, flat = arrays.first, arrays.ids
    else:
        sizes = np.fromiter(map(len, arrays), dtype=np.int64, count=len(arrays))
        first = np.concatenate([[0], np.cumsum(sizes)])
        flat = np.concatenate([*arrays, np.empty(0, dtype=np.int64)])
    numbers = _column(flat.astype(np.int64))
    offsets = pa.py_buffer(first.astype(np.int64))
    kind = pa.large_list(pa.int64())
    return pa.Array.from_buffers(kind, len(arrays), [None, offsets], children=[numbers])


def _values(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        flat = column.flatten().to_numpy(zero_copy_only=False)
        sizes = column.value_lengths().to_numpy(zero_copy_only=False)
        return GpuLists(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), flat)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)
