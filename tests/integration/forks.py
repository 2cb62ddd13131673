"""Plays a scenario with a fault in each of many places, and its undisturbed beginning only once.

The scenario is played undisturbed. At each place the process forks. The child meets the fault
there, plays the rest, tells what came of it and exits; the parent waits for that and goes on. Time
is virtual, so nobody notices the wait, and child and parent have the same past.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from controller.testing.faults import Rule

T = TypeVar("T")

PATIENCE = 60
"""Seconds of processor time after which a child is killed."""


class Forks(Generic[T]):
    """The children of one scenario.

    Args:
        first: the number of the first place that has a fault.
        step: every so many places have one.

    Attributes:
        places: how many there were.
        outcomes: what the scenario came to, by the place of the fault: a value, or an error in
            words.
    """

    def __init__(self, first: int = 0, step: int = 1) -> None:
        self.places = 0
        self.outcomes: dict[int, T | str] = {}
        self._first = first
        self._step = step
        self._to_parent: int | None = None

    def strikes(self) -> bool:
        """Whether the fault is to happen at this place: it does in a child of its own."""
        if self._to_parent is not None:
            return False
        number = self.places
        self.places += 1
        return number % self._step == self._first and self._fork(number)

    async def play(self, scenario: Awaitable[T]) -> T:
        """The undisturbed outcome; no child returns from here."""
        try:
            outcome: T | str = await scenario
        except BaseException as error:
            if self._to_parent is None:
                raise
            outcome = repr(error)
        if self._to_parent is not None:
            try:
                os.write(self._to_parent, pickle.dumps(outcome))
            finally:  # the parent may be gone; what is left of the test run is not for this process
                os._exit(0)
        return outcome

    def _fork(self, number: int) -> bool:
        """Whether this is the child; the parent returns when the child has ended."""
        loop = asyncio.get_running_loop()
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which no child needs
            child = os.fork()
        if child == 0:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            os.close(reader)
            asyncio._set_running_loop(loop)  # of this process
            self._to_parent = writer
            return True
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            told = answer.read()
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.outcomes[number] = pickle.loads(told) if told else f"the child ended with {ended}"
        return False


@dataclass
class InEachFork(Rule):
    """A fault at each occurrence that the rule matches, once in each child."""

    strikes: Callable[[], bool] = bool

    def applies(self, *about: Any) -> bool:
        return super().applies(*about) and self.strikes()
