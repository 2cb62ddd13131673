"""The simulated behaviour of a pod, read from its annotations.

`sim.manta.dev/outcome` names an outcome, the other annotations its times. They may be set on a
running pod, for example by a test that makes it fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from controller.devcluster.nodes.settings import ANNOTATION_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.devcluster.nodes.settings import NodeSettings

V = TypeVar("V")


class Outcome(Enum):
    """The outcomes of a simulated pod."""

    RUN = "run"
    """Becomes Ready and stays so, or crashes after `fail-after`."""
    HANG_PENDING = "hang-pending"
    """Is never bound to a node."""
    IMAGE_PULL_ERROR = "image-pull-error"
    """Never gets the image of its first container."""
    NEVER_READY = "never-ready"
    """Runs, but its readiness probe fails."""
    CRASH = "crash"
    """Its containers exit with `exit-code`; the restart policy decides what follows."""
    FAIL = "fail"
    """The pod fails as a whole whatever its restart policy, as by eviction."""
    SUCCEED = "succeed"
    """Its containers exit with 0; the restart policy decides what follows."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of one pod. Delays are in seconds.

    Attributes:
        outcome: the ending.
        start_delay: time from being bound to the start of the first container.
        ready_delay: time from the start of the containers to Ready.
        exit_after: time from the start of the containers to their exit, None if they do not exit.
        exit_code: exit code of the containers, when they exit.
    """

    outcome: Outcome
    start_delay: float
    ready_delay: float
    exit_after: float | None
    exit_code: int

    @classmethod
    def of(
        cls,
        annotations: Mapping[str, str] | None,
        settings: NodeSettings,
        *,
        usual: Outcome = Outcome.RUN,
    ) -> Behaviour:
        """Return the behaviour that `annotations` define; invalid values are ignored.

        `usual` is the outcome of a pod whose annotations name none.
        """
        given = annotations or {}
        exit_after = _read(given, "fail-after", _seconds, None)
        outcome = _read(given, "outcome", Outcome, usual if exit_after is None else Outcome.RUN)
        if outcome is Outcome.RUN and exit_after is not None:
            outcome = Outcome.CRASH
        exits = outcome in (Outcome.CRASH, Outcome.FAIL, Outcome.SUCCEED)
        if exits and exit_after is None:
            exit_after = settings.run_time
        return cls(
            outcome=outcome,
            start_delay=_read(given, "start-delay", _seconds, settings.start_delay),
            ready_delay=_read(given, "ready-delay", _seconds, settings.ready_delay),
            exit_after=exit_after if exits else None,
            exit_code=0 if outcome is Outcome.SUCCEED else _read(given, "exit-code", int, 1),
        )


def _read(given: Mapping[str, str], name: str, parse: Callable[[str], V], default: V) -> V:
    text = given.get(ANNOTATION_PREFIX + name)
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError:
        return default


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"no length of time: {text!r}")
    return seconds
