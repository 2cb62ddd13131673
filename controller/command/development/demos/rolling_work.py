"""The work of a job on each worker, from its log, compared with the deadlines of drains."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One task, or one call of an actor, that has ended. Times are seconds since 1970."""

    kind: Literal["task", "call"]
    number: int
    address: str
    began: float
    ended: float


class WorkResult(msgspec.Struct, frozen=True):
    """The last line of the job: how many tasks and calls were begun, and sums of their results."""

    begun: dict[str, int]
    sums: dict[str, int]


@dataclass(slots=True)
class Work:
    """All that the job has printed: what has ended, and the sums when it has."""

    records: list[Record] = field(default_factory=list[Record])
    result: WorkResult | None = None
    _read: int = 0

    def saw_log(self, log: str) -> None:
        """Read the new part of the log; ignore lines that are not the job's."""
        whole = log[self._read :].rpartition("\n")[0]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(msgspec.DecodeError):
                if line.startswith("["):
                    self.records.append(msgspec.json.decode(line, type=Record))
                else:
                    self.result = msgspec.json.decode(line, type=WorkResult)

    def count(self, kind: str) -> int:
        """Return the number of tasks or calls that have ended."""
        return sum(record.kind == kind for record in self.records)

    def wrong_result(self) -> list[str]:
        """Return sentences about wrong or missing sums."""
        if self.result is None:
            return ["the job printed no result"]
        tasks, calls = self.result.begun["task"], self.result.begun["call"]
        right = {"task": tasks, "call": sum(number * number for number in range(calls))}
        wrong = [
            f"the sum of each {kind} is {self.result.sums[kind]}, not {value}"
            for kind, value in right.items()
            if self.result.sums[kind] != value
        ]
        for kind, begun in self.result.begun.items():
            numbers = sorted(record.number for record in self.records if record.kind == kind)
            if numbers != list(range(begun)):
                wrong.append(f"of {begun} {kind}s {len(numbers)} were told, or some of them twice")
        return wrong


class Drain(msgspec.Struct, frozen=True):
    """A worker that was drained; no other has had its address."""

    pod: str
    address: str
    since: datetime
    deadline: datetime


def late_work(
    records: Iterable[Record], drains: Iterable[Drain], *, call_grace: float
) -> list[str]:
    """Return sentences about tasks and calls that ran on a worker after its drain deadline.

    An actor never ends by itself: it may go on for `call_grace` seconds, until the pod that is
    deleted at the deadline is killed.
    """
    deadlines = {drain.address: drain for drain in drains}
    grace = {"task": 0.0, "call": call_grace}
    return [
        f"{record.kind} {record.number} ran on {drain.pod} "
        f"{record.ended - drain.deadline.timestamp():.1f} s after its drain deadline"
        for record in records
        if (drain := deadlines.get(record.address))
        and record.ended > drain.deadline.timestamp() + grace[record.kind]
    ]


def last_task(records: Iterable[Record], drain: Drain) -> float:
    """Return the seconds from the begin of a drain to that of the worker's last task; 0 if none."""
    since = drain.since.timestamp()
    return max(
        (
            record.began - since
            for record in records
            if (record.address, record.kind) == (drain.address, "task") and record.began > since
        ),
        default=0.0,
    )
