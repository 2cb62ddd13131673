"""Asks questions in the background, each once for all subscribers.

An answer is kept. A failure is kept too until the question is asked again after a back-off, so that
new subscribers cause no requests. Keys are enqueued when an answer or failure is new.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

import structlog
from msgspec import Struct

from controller.kaito.api.status import Cause
from informers import Clock

_log = structlog.stdlib.get_logger("manta.lookups")

Q = TypeVar("Q", bound=Hashable)
A = TypeVar("A")


class LookupFailed(Exception):  # noqa: N818  it reads as what it says
    """A question has no answer yet. The message is shown to users and holds no secret.

    Attributes:
        retry_after: seconds to wait before the next request, as the server asked.
    """

    def __init__(self, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


class Answered(Struct, Generic[A], frozen=True):
    """The answer to a question."""

    answer: A


class Unanswered(Cause, frozen=True):
    """The failure of the last attempt; another one follows."""


LookupState: TypeAlias = Answered[A] | Unanswered


class LookupLimits(Struct, frozen=True):
    """Limits of the questions of one kind.

    Attributes:
        concurrency: maximum concurrent questions; those that have failed before share half.
        deadline: maximum seconds for an answer.
        first_pause: seconds to wait after the first failure; doubled by each further one.
        longest_pause: maximum seconds to wait after a failure.
        remembered: maximum results to keep without subscribers.
    """

    concurrency: int = 8
    deadline: float = 30.0
    first_pause: float = 10.0
    longest_pause: float = 3600.0
    remembered: int = 1000


@dataclass(slots=True)
class _Question(Generic[A]):
    state: LookupState[A] | None = None
    failures: int = 0
    due: float = 0.0
    keys: set[str] = field(default_factory=set[str])
    timer: asyncio.TimerHandle | None = None


class BackgroundLookups(Generic[Q, A]):
    """Asks questions while they have subscribers; `ask` is cancelled at the deadline."""

    def __init__(
        self, ask: Callable[[Q], Awaitable[A]], clock: Clock, limits: LookupLimits
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._limits = limits
        self._enqueue: Callable[[str], None] | None = None
        self._questions: OrderedDict[Q, _Question[A]] = OrderedDict()
        self._wanted: dict[str, frozenset[Q]] = {}
        self._new: OrderedDict[Q, None] = OrderedDict()
        self._again: OrderedDict[Q, None] = OrderedDict()
        self._tasks: dict[Q, asyncio.Task[None]] = {}
        self._closed = False

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Call `enqueue` from now on with each key whose answer or failure is new."""
        self._enqueue = enqueue

    def state(self, question: Q) -> LookupState[A] | None:
        """Return the answer or the last failure; None before there is either."""
        found = self._questions.get(question)
        return found.state if found is not None else None

    def sync(self, key: str, questions: Iterable[Q]) -> None:
        """Replace the questions to which this key subscribes."""
        if self._closed:
            return
        wanted, before = frozenset(questions), self._wanted.pop(key, frozenset())
        if wanted:
            self._wanted[key] = wanted
        for question in before - wanted:
            self._unwant(question, key)
        for question in wanted - before:
            self._questions.setdefault(question, _Question()).keys.add(key)
            self._questions.move_to_end(question)
            self._schedule(question)
        self._forget_surplus()

    async def aclose(self) -> None:
        """Stop asking."""
        self._closed = True
        for found in self._questions.values():
            _cancel(found)
        self._new.clear()
        self._again.clear()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _unwant(self, question: Q, key: str) -> None:
        found = self._questions[question]
        found.keys.discard(key)
        if not found.keys:
            _cancel(found)
            self._new.pop(question, None)
            self._again.pop(question, None)

    def _schedule(self, question: Q) -> None:
        """Ask, at once or when the back-off is over, unless that is on its way."""
        found = self._questions[question]
        waits = question in self._tasks or found.timer is not None
        if waits or isinstance(found.state, Answered):
            return
        if found.failures and self._clock.time() < found.due:
            found.timer = self._clock.call_at(found.due, self._on_timer, question)
            return
        lane = self._again if found.failures else self._new
        lane[question] = None
        self._start_next()

    def _on_timer(self, question: Q) -> None:
        self._questions[question].timer = None
        self._again[question] = None
        self._start_next()

    def _start_next(self) -> None:
        while not self._closed and len(self._tasks) < self._limits.concurrency:
            if self._new:
                question, _ = self._new.popitem(last=False)
            elif self._again and self._repeated() < max(1, self._limits.concurrency // 2):
                question, _ = self._again.popitem(last=False)
            else:
                return
            self._tasks[question] = asyncio.create_task(self._run(question))

    def _repeated(self) -> int:
        """Return how many questions are being asked that have failed before."""
        return sum(self._questions[each].failures > 0 for each in self._tasks)

    async def _run(self, question: Q) -> None:
        state, retry_after = await self._result(question)
        del self._tasks[question]
        self._finish(question, state, retry_after)
        self._start_next()

    async def _result(self, question: Q) -> tuple[LookupState[A], float]:
        """Ask; return the result and the seconds that the server asked to be left alone."""
        deadline = self._limits.deadline
        try:
            async with asyncio.timeout(deadline):
                return Answered(await self._ask(question)), 0.0
        except TimeoutError:
            return Unanswered("LookupTimeout", f"there was no answer within {deadline:g} s"), 0.0
        except LookupFailed as error:
            return Unanswered(error.reason, str(error)), error.retry_after
        except Exception as error:  # noqa: BLE001  a fault in one question ends no other
            _log.exception("lookup.failed")
            return Unanswered("LookupError", f"internal error: {type(error).__name__}"), 0.0

    def _finish(self, question: Q, state: LookupState[A], retry_after: float) -> None:
        found = self._questions[question]
        is_new, found.state = found.state != state, state
        if isinstance(state, Unanswered):
            found.failures += 1
            found.due = self._clock.time() + self._pause(found.failures, retry_after)
            if is_new:
                _log.warning("lookup.unanswered", reason=state.reason, message=state.message)
            if found.keys:
                self._schedule(question)
        if is_new and self._enqueue is not None:
            for key in sorted(found.keys):
                self._enqueue(key)
        self._forget_surplus()

    def _pause(self, failures: int, retry_after: float) -> float:
        limits = self._limits
        doubled = limits.first_pause * 2 ** min(failures - 1, 30)
        return min(max(doubled, retry_after), limits.longest_pause)

    def _forget_surplus(self) -> None:
        """Forget the oldest results without subscribers, if there are too many."""
        surplus = len(self._questions) - len(self._wanted) - self._limits.remembered
        if surplus <= 0:
            return
        idle = [q for q, each in self._questions.items() if not each.keys and q not in self._tasks]
        for question in idle[: max(0, len(idle) - self._limits.remembered)]:
            del self._questions[question]


def _cancel(question: _Question[A]) -> None:
    if question.timer is not None:
        question.timer.cancel()
        question.timer = None
