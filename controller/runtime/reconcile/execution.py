"""The execution of one plan, as a value: what the executor gets, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.plan import Event, Failure, PhaseDuration, Plan, StatusPatch
    from controller.runtime.reconcile.status.held_children import HeldChild


class Result(Enum):
    """The controller's action on the key after a plan was carried out."""

    DONE = "done"  # nothing, or requeue after `requeue_after`
    MORE = "more"  # requeue at once: lookups answered, or more than one batch
    AGAIN = "again"  # requeue soon, without an error: a precondition failed, a name was taken
    WAIT = "wait"  # requeue after the wait of what is unknown
    FAILED = "failed"  # requeue after the wait of what failed


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of a plan.

    Attributes:
        result: what to do with the key.
        requeue_after: seconds until the key must be reconciled again, None if only after an event.
        retry_after: seconds until writes that failed are tried again; None if none did.
        ask_after: seconds until an object is to be read live; None if the caches can tell.
        writes: mutating requests, by verb.
        failures: writes that did not succeed, the first cause first.
        error: a sentence about the live read that failed, so that nothing was done; else empty.
    """

    result: Result
    requeue_after: float | None = None
    retry_after: float | None = None
    ask_after: float | None = None
    writes: Mapping[str, int] = field(default_factory=dict[str, int])
    failures: tuple[Failure, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class PlanExecution:
    """One plan to carry out.

    Attributes:
        owner: on whose behalf.
        resource: resource of the primary object.
        primary: the primary object as it was observed.
        plan: what to do.
        status_after: the status to write when these writes failed.
        emit: records an event about the primary object.
        wall: the time of day, UTC.
        held: its children whose deletion others hold up.
        submit: passes on the plan's commands.
        failing: whether the plan only reports an error.
        overdue: returns the writes of earlier plans whose outcome is still unknown.
        first_write: called before the first write is sent, if there is one.
        measure: records a phase that ended.
    """

    owner: Owner
    resource: Resource[Any]
    primary: KubeObject
    plan: Plan
    status_after: Callable[[tuple[Failure, ...]], StatusPatch | None]
    emit: Callable[[Event], None]
    wall: Callable[[], datetime]
    submit: Callable[[], None] = lambda: None
    held: tuple[HeldChild, ...] = ()
    failing: bool = False
    overdue: Callable[[], tuple[Failure, ...]] = lambda: ()
    first_write: Callable[[], None] = lambda: None
    measure: Callable[[PhaseDuration], None] = lambda _phase: None
