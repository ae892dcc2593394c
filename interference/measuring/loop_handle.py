"""The process of one training loop, seen from the process that measures."""

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from interference.measuring.entry import enter
from interference.measuring.errors import MeasureError
from interference.measuring.messages import Began, Failed, Line, LoopTask, Ran, Signals


class OutOfMemory(Exception):
    """A loop found no memory: the group does not fit together."""


@dataclass
class LoopHandle:
    """A running loop and what it has said so far."""

    profile: str
    beside: str  # the others, in words
    process: SpawnProcess
    pipe: "Connection[Any, Any]"
    began_s: float | None = None
    ran: Ran | None = None

    @classmethod
    def start(
        cls,
        task: LoopTask,
        number: int,
        others: Sequence[str],
        signals: Signals,
        spawn: SpawnContext,
    ) -> "LoopHandle":
        """Start its process, which ends with this one."""
        ours, theirs = spawn.Pipe()
        line = Line(number=number, pipe=theirs)
        process = spawn.Process(target=enter, args=(task, signals, line), daemon=True)
        process.start()
        theirs.close()  # so that a loop that dies is noticed: nobody else holds its end
        beside = f" beside {' and '.join(others)}" if others else " alone"
        return cls(profile=task.profile, beside=beside, process=process, pipe=ours)

    def listen(self) -> None:
        """Take in one message.

        Raises:
            OutOfMemory: the loop found none.
            MeasureError: the loop died.
        """
        try:
            said = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise self._died(_exit_words(self.process.exitcode)) from None
        if isinstance(said, Began):
            self.began_s = said.at_s
        elif isinstance(said, Ran):
            self.ran = said
        elif isinstance(said, Failed) and said.out_of_memory:
            raise OutOfMemory(f"{self.profile}: {said.words}")
        elif isinstance(said, Failed):
            raise self._died(said.words)

    def end(self) -> None:
        """End the process if it still runs."""
        self.process.terminate()
        self.process.join()
        self.pipe.close()

    def _died(self, words: str) -> MeasureError:
        return MeasureError(
            f"{self.profile}{self.beside} died: {words}; mend it or leave it out of profiles. "
            "Finished groups are kept: the same command goes on with the others"
        )


def _exit_words(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by signal {-code} (9 is what a full memory of the machine sends)"
    return f"it left with status {code} and no word"
