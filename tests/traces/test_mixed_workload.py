"""Windows of several workloads in turn."""

import pytest

from sim.errors import TraceError
from sim.traces.generated_workload import MixedWorkload


class Named:
    """Hands out what it was asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def window(self, *, part, index, setting, seed):
        return self.name, part, index, setting, seed


def test_windows_come_in_turn_each_from_its_own_stream():
    mixed = MixedWorkload(name="m", load=None, of={"a": Named("A"), "b": Named("B")})
    asked = [mixed.window(part="train", index=i, setting=None, seed=7) for i in range(3)]
    assert [got[0] for got in asked] == ["A", "B", "A"]
    assert [got[2] for got in asked] == [0, 1, 2]
    assert {got[1] for got in asked} == {"train"}
    assert {got[4] for got in asked} == {7}


def test_a_mix_takes_random_windows_only():
    cut = Named("A")
    cut.windows_from = "disjoint"
    with pytest.raises(TraceError, match=r"workload\.of\.a\.windows_from is 'disjoint'"):
        MixedWorkload(name="m", load=None, of={"a": cut, "b": Named("B")})


def test_a_mix_of_nothing_and_its_whole_are_refused():
    with pytest.raises(TraceError, match=r"workload\.of is empty"):
        MixedWorkload(name="m", load=None, of={})
    with pytest.raises(TraceError, match="m has windows only"):
        MixedWorkload(name="m", load=None, of={"a": Named("A")}).whole(setting=None, seed=0)
