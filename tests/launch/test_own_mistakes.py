"""Mistakes in a user's own modules and files: one line that says where, what and the fix."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.launch.build import build
from gpuyard.launch.errors import ConfigError

Told = Callable[..., str]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What is told of a target, with a module `<name>.py` of that text in the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def of(target: str, name: str | None = None, text: str = "", key: str = "scheduler") -> str:
        if name is not None:
            (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        values: dict[str, object] = {"_target_": target}
        for outer in reversed(key.split(".")[1:]):
            values = {"_target_": "builtins.dict", outer: values}
        with pytest.raises(ConfigError) as caught:
            build({key.partition(".")[0]: values}, key.partition(".")[0])
        return str(caught.value).replace(str(tmp_path), "HERE")

    return of


def test_a_module_that_is_not_there_and_one_that_is_like_it(told: Told):
    assert told("mistake_ordres.A", "mistake_orders", "class A: pass\n") == (
        "scheduler._target_ is 'mistake_ordres.A'; there is no module 'mistake_ordres' "
        "(looked in HERE and what is installed); did you mean mistake_orders?"
    )
    assert "put qqqq.py there" in told("qqqq.A")
    assert "did you mean fifo" not in told("sim.schedulers.ordres.Fifo")
    assert "did you mean orders?" in told("sim.schedulers.ordres.Fifo")


def test_a_class_that_is_not_there(told: Told):
    text = "class LeastService: pass\n"
    assert told("mistake_class.LeastServce", "mistake_class", text) == (
        "scheduler._target_ is 'mistake_class.LeastServce'; HERE/mistake_class.py has no "
        "'LeastServce'; did you mean LeastService?"
    )


def test_a_line_that_is_no_python(told: Told):
    found = told("mistake_syntax.A", "mistake_syntax", "x = 1\ndef f(:\n")
    assert found.startswith(
        "scheduler._target_ is 'mistake_syntax.A'; HERE/mistake_syntax.py line 2: "
    )
    assert found.endswith("; mend that line")


def test_what_a_module_fails_at_while_it_is_imported(told: Told):
    found = told("mistake_import.A", "mistake_import", "import os\nimport nosuchthing\n")
    assert "HERE/mistake_import.py line 2: ModuleNotFoundError: No module named" in found
    assert "; install nosuchthing, or mend that line" in found
    found = told("mistake_name.A", "mistake_name", "from sim.view import Signall\n")
    assert "HERE/mistake_name.py line 1: ImportError: cannot import name 'Signall'" in found
    found = told("mistake_value.A", "mistake_value", "\n\nx = 1 / 0\n")
    assert "HERE/mistake_value.py line 3: ZeroDivisionError: division by zero" in found


def test_the_section_inside_is_named(told: Told):
    assert told("mistake_deep.A", key="scheduler.placer").startswith(
        "scheduler.placer._target_ is 'mistake_deep.A'; there is no module 'mistake_deep'"
    )
