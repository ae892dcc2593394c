"""Every command of the docs is run by a test, or says how long it takes, or has a placeholder."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.docs.bringing import bring_files
from tests.docs.told import PAGES, ROOT, Told, every, told_by
from tests.forking import run_program

SHORT = {  # programs that take seconds once they are made small
    "simulate", "evaluate", "advise", "compare", "replay", "generate_trace", "fit_generator",
    "compare_traces", "serve", "help",
}  # fmt: skip
LISTS = re.compile(r"reproduce(?: experiment=\w+ debug=quick)?$")
SMALL = {"simulate": ["workload.num_jobs=60"], "evaluate": ["windows=1", "workload.num_jobs=40"]}
OWN_JOBS = ("workload=", "workload.num_jobs=", "experiment=")
OF_A_FILE = ["windows=1", "workload.num_jobs=15"]  # the file of 120 jobs has eight such windows
ELSEWHERE = [  # where others are run
    (r"gpuyard .*=least_service", "tests/docs/test_quickstart.py"),
    (r"gpuyard .*topology\.serverz=", "tests/launch/test_run_main.py"),  # an error
    (r"curl ", "tests/serving/test_docs.py"),
    (r"make (?:test|unit|lint|type|arch|browser|help)$", "Makefile"),  # CI is `make test`
]
SECONDS = 600


def elsewhere(told: Told) -> str | None:
    """The file that runs a command, where it is not the test below."""
    return next((file for sign, file in ELSEWHERE if re.match(sign, told.command)), None)


def is_run(told: Told) -> bool:
    """Whether the test below runs it, on few jobs."""
    if not told.words or told.is_template or told.is_timed or elsewhere(told):
        return False
    return told.words[0] in SHORT or LISTS.match(" ".join(told.words)) is not None


def unknown(told: Told) -> bool:
    """Whether nobody says how long it takes, and nobody runs it."""
    return not (told.is_timed or told.is_template or is_run(told) or elsewhere(told))


def small(told: Told) -> list[str]:
    """The words of a command, on few jobs."""
    program, *words = told.words
    if program == "evaluate":
        words = [word for word in words if not word.startswith("windows=")]
        return [program, *words, *(OF_A_FILE if "workload=csv" in words else SMALL[program])]
    own = any(word.startswith(OWN_JOBS) for word in words)
    return [program, *words, *([] if own else SMALL.get(program, []))]


def runs() -> list[Told]:
    """What the test below runs, each command once."""
    found = {told.command: told for told in reversed(every()) if is_run(told)}
    return list(reversed(found.values()))


def test_every_command_is_run_or_timed_or_has_a_placeholder():
    lost = [f"{told.page}:{told.line}: {told.command}" for told in every() if unknown(told)]
    assert not lost, "no test runs these; say how long they take (# 2 minutes):\n" + "\n".join(lost)


def test_most_short_commands_are_run():
    """The rules above do not grow until they take in everything."""
    programs = {told.words[0] for told in runs()}
    assert programs >= {"simulate", "evaluate", "advise", "compare", "reproduce", "generate_trace"}
    assert len(runs()) >= 50


def test_a_command_that_nobody_knows_of_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "page.md"
    page.write_text(
        "Run `gpuyard train seed=3`.\n\n`gpuyard train seed=4`: about 4 minutes.\n\n```\n"
        "gpuyard learn begin=zero \\\n    seed=5  # weights\n"
        "gpuyard learn begin=zero seed=6  # half an hour\n"
        "gpuyard learn begin=zero resume=FOLDER\n"
        "gpuyard simulate scheduler=sjf\nmean JCT [h]\n```\n"
    )
    monkeypatch.setitem(told_by.__globals__, "ROOT", tmp_path)
    lost = [(told.line, told.command) for told in told_by(page) if unknown(told)]
    assert lost == [(6, "gpuyard learn begin=zero seed=5"), (1, "gpuyard train seed=3")]


def test_files_that_run_others_are_there():
    assert all((ROOT / file).is_file() for _, file in ELSEWHERE)


@contextmanager
def service(words: list[str], folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A service until it is no longer asked; its address."""
    command = [sys.executable, "-m", "gpuyard", *words, "port=0"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield next((line.split()[2] for line in process.stdout if "answering at" in line), "")
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_short_commands_run(page: Path, tmp_path: Path):
    """In order and in one folder, as somebody would who reads on."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    failed: list[str] = []
    bring_files(tmp_path)
    with ExitStack() as services:
        url = ""
        for told in runs():
            if told.page != page.relative_to(ROOT).as_posix():
                continue
            words = small(told)
            if words[0] == "serve":
                url = url or services.enter_context(service(words, tmp_path, environment))
                failed += [] if url else [f"{told.command}: does not answer"]
                continue
            if "scheduler=served" in words:
                words.append(f"scheduler.url={url}")
            failed += failure(told, words, tmp_path, environment)
    assert not failed, "\n".join(failed)


def failure(told: Told, words: list[str], folder: Path, environment: dict[str, str]) -> list[str]:
    """What a command complains of; nothing if it ends well."""
    done = run_program(["-m", "gpuyard", *words], cwd=folder, env=environment, timeout=SECONDS)
    if done.returncode == 0:
        return []
    return [f"{told.page}:{told.line}: {shlex.join(words)}\n{done.stderr[-400:]}"]
