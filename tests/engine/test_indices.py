"""Compiled code of this project counts indices from the front (`sim.jit`)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numba import njit

from sim.jit import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {"kernel", "array_kernel"}


def from_the_end(tree: ast.AST) -> Iterator[int]:
    """Lines in compiled functions that write an index below 0."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        if KERNELS.isdisjoint(getattr(each, "id", "") for each in function.decorator_list):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript):
                index = node.slice
                axes = index.elts if isinstance(index, ast.Tuple) else [index]
                for axis in axes:
                    if isinstance(axis, ast.UnaryOp) and isinstance(axis.op, ast.USub):
                        yield node.lineno


def test_no_compiled_function_writes_an_index_below_0():
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        for line in from_the_end(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert found == set()


def test_it_would_be_found():
    code = "@kernel\ndef last(x):\n    return x[0, -1] + x[-2:].sum() + x[-1]\n"
    assert list(from_the_end(ast.parse(code))) == [3, 3]


def test_others_count_from_the_end_as_numba_has_it():
    last = njit(lambda x: x[-1])
    assert last(np.arange(3.0)) == 2.0
