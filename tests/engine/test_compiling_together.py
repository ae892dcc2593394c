"""Functions to be compiled are shared out to processes; if these fail, all are there still."""

import json
import subprocess
import sys
from pathlib import Path

from tests.forking import environment

PROGRAM = """
import json, sys
import numpy as np
from numba import float64, from_dtype, int64
from sim.compiling import compile_together
from sim.heap import HEAP, _put, add_to_heap, drop_from_heap, move_in_heap

if sys.argv[1]:
    sys.executable = sys.argv[1]
rows, owners = from_dtype(HEAP)[::1], from_dtype(np.dtype([("heap_at", np.int64)]))[::1]
slot = (rows, owners, int64, float64, int64, int64)
wanted = [(add_to_heap, slot), (move_in_heap, slot), (_put, slot),
          (drop_from_heap, (*slot[:3], int64))]
compile_together(wanted)
mine = [len(function.signatures) for function, _ in wanted]
for function, signature in wanted:
    function.compile(signature)
loaded = [sum(function.stats.cache_hits.values()) for function, _ in wanted]
print(json.dumps([mine, loaded]))

heap, owner, size = np.zeros(9, HEAP), np.zeros(9, [("heap_at", np.int64)]), 0
for item, key in enumerate([3.0, 1.0, 2.0]):
    size = add_to_heap(heap, owner, size, key, 0, item)
assert heap["item"][0] == 1 and drop_from_heap(heap, owner, size, 1) == 2
assert heap["item"][0] == 2
"""


def told(folder: Path, cores: int, helper: str = "") -> tuple[list[int], list[int]]:
    """Of four functions, which this process had compiled, and which it then found kept."""
    env = environment() | {"NUMBA_NUM_THREADS": str(cores), "NUMBA_CACHE_DIR": str(folder)}
    words = [sys.executable, "-c", PROGRAM, helper]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mine, loaded = json.loads(done.stdout)
    return mine, loaded


def test_each_is_compiled_by_one_process_and_kept_for_the_next(tmp_path):
    mine, loaded = told(tmp_path, cores=2)
    assert 0 < sum(mine) < 4, "shared out"
    assert loaded == [1 - each for each in mine], "what this process did not compile it loads"
    assert told(tmp_path, cores=2) == ([0] * 4, [1] * 4), "kept: nothing is left to share out"


def test_where_no_process_starts_all_is_compiled_here(tmp_path):
    assert told(tmp_path, cores=2, helper="/bin/false") == ([1] * 4, [0] * 4)


def test_what_a_process_claims_and_leaves_is_compiled_here(tmp_path):
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\nfor it in /proc/$$/fd/[3-9]; do head -c 1 $it; done\n")
    helper.chmod(0o755)
    mine, loaded = told(tmp_path, cores=2, helper=str(helper))
    assert (sum(mine), loaded) == (3, [0] * 4)
