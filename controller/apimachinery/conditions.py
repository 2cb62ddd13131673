"""Conditions, times and the ends of Jobs, as in the Kubernetes API."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import Struct

from controller.apimachinery.custom_object import copied, mapping
from controller.kube.objects import ContainerStateTerminated, Job, Pod

# RFC 3339 timestamps as Kubernetes writes them. All times are UTC.

_YEARS: Final = range(1970, 9000)
"""Years in which a time plus any int32 of seconds does not overflow."""

CLOCK_SKEW: Final = timedelta(minutes=1)
"""Time by which the clocks of several machines may differ."""

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def rfc3339(moment: datetime) -> str:
    """Return `2026-08-20T10:00:00Z`, a `metav1.Time` with whole seconds."""
    return f"{_utc(moment).isoformat(timespec='seconds')}Z"


def rfc3339_micro(moment: datetime) -> str:
    """Return `2026-08-20T10:00:00.000000Z`, a `metav1.MicroTime`."""
    return f"{_utc(moment).isoformat(timespec='microseconds')}Z"


def _utc(moment: datetime) -> datetime:
    """Return the moment without its offset, which `isoformat` would write as `+00:00`."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def parse_rfc3339(text: str) -> datetime:
    """Return the moment that `text` names.

    Raises:
        ValueError: `text` is not an RFC 3339 timestamp with an offset, or its year is out of range.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp without offset: {text!r}")
    if moment.year not in _YEARS:
        raise ValueError(f"timestamp out of range: {text!r}")
    return moment


def time_of(value: Any) -> datetime | None:
    """Return the moment, in UTC, in a field of the API; None if the value is not a timestamp.

    No schema guarantees fields that others write: a value that is not a time counts as absent.
    """
    try:
        return parse_rfc3339(value).astimezone(UTC)
    except (TypeError, ValueError):
        return None


def without_times(value: Any) -> Any:
    """Return plain data with every timestamp replaced by an empty string, for comparisons."""
    root, parts = copied(value)
    for part, _ in parts:
        fields: Any = part
        for key, item in enumerate(fields) if isinstance(part, list) else fields.items():
            if isinstance(item, str) and _RFC3339.fullmatch(item):
                fields[key] = ""
    return "" if isinstance(root, str) and _RFC3339.fullmatch(root) else root


def counted_from(start: datetime, steady_since: datetime | None, now: datetime) -> datetime:
    """Return `start`, or `steady_since` if `start` lies in the future by more than `CLOCK_SKEW`.

    A clock that was ahead may have written such a time. `steady_since` comes from a clock that has
    not jumped, so it is not in the future.
    """
    is_ahead = start > now + CLOCK_SKEW
    return min(steady_since, now) if is_ahead and steady_since is not None else start


# `status.conditions` of an object.

READY: Final = "Ready"
"""Condition type that reports whether an object is as specified, and if not, why."""

OBSERVATION_IN_DOUBT: Final = "ObservationInDoubt"
"""Condition type that reports disagreements of cache and API server."""

CONTESTED: Final = "FieldsContested"
"""Condition type that names fields over which the operator and another writer disagree."""

FEATURES_SUPPORTED: Final = "FeaturesSupported"
"""Condition type that names fields that are accepted and have no effect yet."""

CHILD_HELD: Final = "ChildHeld"
"""Condition type that names children that finalizers of others keep from being deleted."""

LONGEST_MESSAGE: Final = 4096
"""Maximum characters of a condition's message; the server accepts eight times as many."""

_RECOGNISED: Final = 256
"""Characters at the end of a cut message by which a longer text is recognised."""

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


class ConditionSet:
    """The conditions of one object, which are changed one after the other.

    Args:
        present: the stored conditions; they are not modified.
        generation: generation of the object, for `observedGeneration`.
        now: time for `lastTransitionTime`.
    """

    def __init__(
        self, present: Sequence[Mapping[str, Any]], generation: int, now: datetime
    ) -> None:
        self._conditions = [dict(each) for each in present]
        self._generation = generation
        self._now = rfc3339(now)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the conditions for `status.conditions`."""
        return self._conditions

    def is_true(self, type: str) -> bool:  # noqa: A002  the field's own name
        """Return whether the condition is present and True."""
        return is_true(self._conditions, type)

    def set(self, type: str, status: ConditionStatus, reason: str, message: str) -> None:  # noqa: A002
        """Set one condition; its message is stored as `stored_message` cuts it.

        `lastTransitionTime` moves only when `status` changes, as `meta.SetStatusCondition` does, so
        that setting the same condition again gives an equal list. The order is kept.
        """
        wanted: dict[str, Any] = {
            "type": type,
            "status": status,
            "reason": reason,
            "message": stored_message(message),
            "lastTransitionTime": self._now,
            "observedGeneration": self._generation,
        }
        for position, present in enumerate(self._conditions):
            if present.get("type") == type:
                since = present.get("lastTransitionTime")
                if since and present.get("status") == status:
                    wanted["lastTransitionTime"] = since
                self._conditions[position] = wanted
                return
        self._conditions.append(wanted)

    def set_since(self, type: str, since: datetime) -> None:  # noqa: A002
        """Let a condition that is present have changed at a known time, not when it was set."""
        for each in self._conditions:
            if each.get("type") == type:
                each["lastTransitionTime"] = rfc3339(since)

    def remove(self, type: str) -> None:  # noqa: A002
        """Remove one condition, if it is present."""
        self._conditions = [each for each in self._conditions if each.get("type") != type]

    def set_if(self, type: str, status: ConditionStatus, reason: str, message: str) -> None:  # noqa: A002
        """Set a condition if there is a message, else remove it."""
        if message:
            self.set(type, status, reason, message)
        else:
            self.remove(type)

    def set_features(self, unsupported: Sequence[str]) -> None:
        """Report fields that are accepted and have no effect yet."""
        fields = ", ".join(unsupported)
        message = fields and f"accepted, but without effect in this version: {fields}"
        self.set_if(FEATURES_SUPPORTED, "False", "NotImplementedYet", message)


def stored_message(text: str) -> str:
    """Return the text as a condition stores it, cut to the longest message."""
    return text[:LONGEST_MESSAGE]


def tells(condition: Mapping[str, Any], text: str) -> bool:
    """Return whether the stored message contains the text, or was cut within it."""
    message = str(condition.get("message", ""))
    if text in message:
        return True
    begins = message.find(text[:_RECOGNISED])
    return len(message) == LONGEST_MESSAGE and begins >= 0 and text.startswith(message[begins:])


def verdicts(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return types, statuses and reasons of conditions: changed messages alone are not urgent."""
    found = status.get("conditions") or ()
    return [(each.get("type"), each.get("status"), each.get("reason")) for each in found]


def is_true(conditions: Sequence[Mapping[str, Any]], type: str) -> bool:  # noqa: A002
    """Return whether the condition is present and True."""
    found = find_condition(conditions, type)
    return found is not None and found.get("status") == "True"


def find_condition(conditions: Sequence[Mapping[str, Any]], type: str) -> Mapping[str, Any] | None:  # noqa: A002
    """Return the condition of that type, or None."""
    for condition in conditions:
        if condition.get("type") == type:
            return condition
    return None


# The end of a Job whose pods others keep alive.
#
# A service mesh or a webhook adds a container that does not end to the pod. Kubernetes then counts
# the pod neither as succeeded nor as failed, and never finishes the Job. So the end of the Job's
# own containers counts, not that of the pod around them. Native sidecars end with their pod.

_FINISHED: Final = ("Complete", "Failed", "FailureTarget")
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_BACKOFF_LIMIT: Final = 6
"""Kubernetes' default of `spec.backoffLimit`."""


class JobEnd(Struct, frozen=True):
    """The end of a Job of one pod at a time.

    Attributes:
        succeeded: whether it reached its goal.
        at: the time, None if it is not known.
        reason: why Kubernetes counts it as failed, `BackoffLimitExceeded: ...`; may be empty.
        last: how the first of its own containers ended last; None if no pod shows it.
        finished: whether Kubernetes counts the Job as finished too.
    """

    succeeded: bool
    at: datetime | None
    reason: str = ""
    last: ContainerStateTerminated | None = None
    finished: bool = True


def job_end(job: Job, pods: Iterable[Pod], containers: Collection[str] = ()) -> JobEnd | None:
    """Return how the Job has ended; None while it runs, or will be repeated.

    `containers` are the names of those that decide; by default all of its template.
    """
    names = containers or own_containers(job)
    known = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
    ends = [(pod, end) for pod in reversed(known) if (end := own_end(pod, names)) is not None]
    last = ends[0][1] if ends else None
    for condition in job.status.conditions:
        if condition.status == "True" and condition.type in _FINISHED:
            at = time_of(condition.last_transition_time)
            if condition.type == "Complete":
                return JobEnd(succeeded=True, at=at, last=last)
            reason = f"{condition.reason}: {condition.message}".strip(": ")
            return JobEnd(succeeded=False, at=at, reason=reason, last=last)
    for pod, end in ends:
        if end.exit_code == 0 and not pod.metadata.terminating:
            at = time_of(end.finished_at)
            return JobEnd(succeeded=True, at=at, last=end, finished=not _lives(pod))
    limit = _BACKOFF_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    for pod, end in ends:
        if _lives(pod) and job.status.failed >= limit:
            return JobEnd(succeeded=False, at=time_of(end.finished_at), last=end, finished=False)
    return None


def failed_alive(job: Job, pods: Iterable[Pod], containers: Collection[str] = ()) -> list[Pod]:
    """Return pods that have failed although others keep them alive: the Job does not repeat them.

    Deleting such a pod makes the Job count it as failed.
    """
    names = containers or own_containers(job)
    ends = ((pod, own_end(pod, names)) for pod in pods if _lives(pod))
    return [pod for pod, end in ends if end is not None and end.exit_code]


def own_end(pod: Pod, containers: Collection[str]) -> ContainerStateTerminated | None:
    """Return the end of a pod's containers of these names, a failure first; None if one may run.

    A pod that restarts its containers after a failure ends with exit code 0 only.
    """
    states = [each.state for each in pod.status.container_statuses if each.name in containers]
    ends = [state.terminated for state in states if state.terminated is not None]
    if not ends or len(ends) < len(set(containers)):
        return None
    failed = next((end for end in ends if end.exit_code), None)
    restarts = pod.spec.restart_policy != "Never" and pod.status.phase not in _ENDED
    return None if failed is not None and restarts else failed or ends[-1]


def own_containers(job: Job) -> tuple[str, ...]:
    """Return the names of the containers of its template."""
    return tuple(str(each.get("name")) for each in template_containers(job))


def template_containers(job: Job) -> list[dict[str, Any]]:
    """Return the containers of its template."""
    containers = mapping(mapping(job.spec.template).get("spec")).get("containers")
    if not isinstance(containers, list):
        return []
    return [mapping(each) for each in cast("list[Any]", containers)]


def others_alive(pod: Pod, containers: Collection[str]) -> list[str]:
    """Return the names of other containers that keep the pod alive."""
    return [
        each.name
        for each in pod.status.container_statuses
        if each.name not in containers and each.state.terminated is None
    ]


def _lives(pod: Pod) -> bool:
    return not pod.metadata.terminating and pod.status.phase not in _ENDED
