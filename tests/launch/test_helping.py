"""`gpuyard PROGRAM --help`: every key and choice that the program takes, and no others."""

import pytest
from hydra import compose, initialize_config_dir

from gpuyard.command import PROGRAMS
from gpuyard.launch.errors import CONF
from gpuyard.launch.helping import NARROWEST, help_text, keys_of
from gpuyard.launch.own import refuse_unread_of_experiment
from tests.forking import run_program


def told(program: str, *chosen: str) -> str:
    return help_text(program, PROGRAMS[program][1], chosen, {})


def choices(text: str, group: str) -> list[str]:
    """The names that stand behind a group, which may go on over lines."""
    lines = text.partition("Choices (GROUP=NAME)")[2].splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith(f"  {group} "))
    found = [lines[begin].removeprefix(f"  {group}")]
    for line in lines[begin + 1 :]:
        if not line.startswith("    "):
            break
        found.append(line)
    return " ".join(" ".join(found).split()).split(", ")


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "demo"])
def test_it_tells_all_keys_of_the_programs_file(program: str):
    text = told(program)
    missing = [
        key.name
        for key in keys_of(CONF / f"{program}.yaml")
        if key.default and f"  {key.name}=" not in text
    ]
    assert missing == []
    assert PROGRAMS[program][1] in text.splitlines()[0]
    assert ("  agents.count=" not in text) or "  partitions\n" in text  # words of another file
    assert f"  gpuyard {program}" in text


def test_choices_begin_with_the_default_and_files_for_files_are_none():
    text = told("simulate")
    assert choices(text, "scheduler")[0] == "fifo"
    assert choices(text, "sharing")[0] == "off"
    assert choices(text, "workload")[0] == "venus_like"
    assert not [name for name in choices(text, "workload") if name.startswith("_")]
    assert "  scheduler.lease_s=3600.0" in told("simulate", "scheduler=dally")
    assert "  workload.path=???" in told("simulate", "workload=csv")
    assert "lease_s" not in text


@pytest.mark.parametrize("program", ["simulate", "evaluate", "learn", "train"])
def test_experiments_that_it_lists_are_those_that_the_program_takes(program: str):
    listed = choices(told(program), "experiment")
    with initialize_config_dir(str(CONF), version_base=None):
        for name in listed:
            made = compose(program, [f"experiment={name}"], return_hydra_config=True)
            refuse_unread_of_experiment(program, made, made.hydra.runtime.choices)
    assert "headline" in listed
    assert ("demo_learn" in listed) == (program == "learn")
    assert ("marl_paper_train" in listed) == (program == "train")
    assert "league" not in listed
    assert "league" in choices(told("reproduce"), "experiment")


def test_it_fits_the_terminal_and_the_demo_takes_no_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    lines = run_program(["-m", "gpuyard", "evaluate", "--help"]).stdout.splitlines()
    assert NARROWEST < max(len(line) for line in lines if line.startswith("  ")) <= 70
    assert run_program(["-m", "gpuyard", "demo", "--help"]).stdout.splitlines() == [
        "gpuyard demo: The main job from end to end, small; it takes no keys"
    ]
    refused = run_program(["-m", "gpuyard", "demo", "windows=3"])
    assert refused.returncode == 1
    assert "error: demo takes no keys, but 'windows=3'" in refused.stderr
