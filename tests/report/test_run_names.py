"""What schedulers are called where numbers of agents differ."""

from sim.report.comparison import run_names


def test_only_who_ran_with_several_numbers_of_agents_is_told_apart(make):
    runs = [make.row("a", agents=1), make.row("a", agents=4), make.row("b", agents=4)]
    runs.append(make.row("b", agents=4, window=1))
    assert run_names([run.labels for run in runs]) == ["a (1 agent)", "a (4 agents)", "b", "b"]
