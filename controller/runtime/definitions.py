"""The installed definition of a kind: what it lacks, what it refuses, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import READY, ConditionSet, find_condition, stored_message
from controller.apimachinery.custom_object import IdentityMemo, mapping, read_conditions
from controller.apimachinery.object_schema import ObjectSchema, UnknownField
from controller.apimachinery.validation import Problem
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import INSTALL_CRDS, PODS, Resource
from controller.runtime.kind import CacheReader, InstalledSchema
from controller.runtime.plan import Event, Plan

# Finds the fields that a planner relies on and the installed definition of its kind lacks.
#
# The API server drops fields that its definition lacks from every object, even when it reads a
# stored one. Each kind names the fields whose absence would delete, start or repeat something.
#
# An edit of that time stores the object without them, and completing the definition does not bring
# them back. So an object with such an edit counts as incomplete until its next edit (CTL-30), as
# far as the process remembers it, or sees it in the status: no plan writes that meanwhile.

DEFINITION_COMPLETE: Final = "DefinitionComplete"
"""Type of the condition; it is present only while something is wrong with the definition."""

EVENT_INTERVAL: Final = 600.0
"""Seconds between two events about an object whose status is not written meanwhile."""


def remedy(command: str = "manta crds") -> str:
    """Return the remedy for missing fields, given the command that prints a complete definition."""
    install = INSTALL_CRDS.replace("manta crds", command)
    return f"Install this operator's definitions ({install}) and apply the manifest again"


REMEDY: Final = remedy()


class ReadGeneration(Struct, frozen=True):
    """The generation of an object that the process has read last; part of `Plan.memory`.

    Attributes:
        missing: the fields that the definition lacked when the object was edited.
    """

    number: int
    missing: tuple[str, ...] = ()


class InstalledDefinition(Struct, frozen=True):
    """The installed definition of a kind, as far as the planner relies on it.

    Attributes:
        consequence: what the operator does while fields are missing.
        error: why it could not be read; empty if it was.
        awaited: whether it is not yet certain that cached objects were read by it.
        unverified: whether the object was edited after the definition was read.
        unread: why neither could be found out, empty if it will be in a moment.
        remedy: what the user can do about missing fields.
        cut: a sentence about the object's last edit, if a definition may have cut it; else empty.
        read: the generation to remember; None if the process remembers it already.
    """

    kind: str = ""
    consequence: str = ""
    missing: tuple[str, ...] = ()
    error: str = ""
    awaited: bool = False
    unverified: bool = False
    unread: str = ""
    remedy: str = REMEDY
    cut: str = ""
    read: ReadGeneration | None = None

    @property
    def problem(self) -> str:
        """A sentence about what is wrong with it and what to do, empty if nothing is."""
        if self.error:
            return (
                f"the installed definition of {self.kind}s cannot be read ({self.error}), so that "
                "fields that it drops are found only by their consequences; grant the operator "
                "the right to read /openapi/v3, as the ClusterRole system:discovery does"
            )
        if self.missing:
            return (
                f"the installed definition of {self.kind}s lacks {', '.join(self.missing)}: the "
                f"API server drops this from every {self.kind}. {self.consequence}. {self.remedy}"
            )
        return ""

    def set_in(self, conditions: ConditionSet) -> None:
        """Set the condition, or remove it if nothing is wrong."""
        if self.error:
            conditions.set(DEFINITION_COMPLETE, "Unknown", "OpenAPIUnreadable", self.problem)
        else:
            conditions.set_if(DEFINITION_COMPLETE, "False", "FieldsMissing", self.problem)

    def events(self, conditions: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
        """Return the event about missing fields, unless the stored condition has its message."""
        known = find_condition(conditions, DEFINITION_COMPLETE) or {}
        if not self.missing or known.get("message") == stored_message(self.problem):
            return ()
        return (Event("Warning", "DefinitionIncomplete", "Reconcile", self.problem),)


class DefinitionReader:
    """Reads the installed definition of a kind; once for each published schema.

    Args:
        relied_on: gives the paths that its planner relies on, for a schema.
        consequence: what the operator does while one of them is missing, without a full stop.
        remedy: what the user can do about it, without a full stop.
    """

    def __init__(
        self,
        resource: Resource[Any],
        relied_on: Callable[[ObjectSchema], Iterable[str]],
        consequence: str,
        remedy: str = REMEDY,
    ) -> None:
        self._resource = resource
        self._relied_on = relied_on
        self._consequence = consequence
        self._remedy = remedy
        self._installed = InstalledSchema()
        self._definition = InstalledDefinition()

    def __call__(self, reads: CacheReader, obj: KubeObject | None = None) -> InstalledDefinition:
        """Return the definition as it was last read, with the state of `obj` if one is given."""
        installed = reads.installed_schema(self._resource)
        if installed is not self._installed:
            self._installed, self._definition = installed, self._read(installed)
        if obj is None:
            return self._definition
        found = self._definition
        if not reads.is_verified(self._resource, obj.metadata.key):
            found = replace(found, unverified=True, unread=installed.error)
        before = _read_before(reads.record(obj.metadata.uid).memory)
        if before is None or before.number != obj.metadata.generation:
            return replace(found, read=_read_now(found, obj, before))
        return replace(found, cut=self._cut(before)) if before.missing else found

    def _cut(self, edit: ReadGeneration) -> str:
        return (
            f"generation {edit.number} was written while the installed definition of "
            f"{self._resource.kind}s lacked {', '.join(edit.missing)}, so that the API server may "
            f"have dropped it. {self._consequence}, until the next edit. Apply the manifest again; "
            "if that changes nothing, the specification is whole, and a restart of the operator "
            "ends this"
        )

    def _read(self, installed: InstalledSchema) -> InstalledDefinition:
        """Count the gaps of the previous definition too, while it may have read cached objects."""
        lost = [
            path
            for schema in (installed.schema, installed.previous)
            if schema is not None
            for path in missing_fields(schema, self._relied_on(schema))
        ]
        error = installed.error if installed.schema is None else ""
        missing = tuple(dict.fromkeys(lost))
        return InstalledDefinition(
            self._resource.kind,
            self._consequence,
            missing,
            error,
            awaited=not installed.is_current,
            unread="" if installed.is_current else installed.error,
            remedy=self._remedy,
        )


class DefinitionsReader:
    """Reads the installed definitions of a kind and of another kind that its planner relies on."""

    def __init__(self, own: DefinitionReader, other: DefinitionReader) -> None:
        self._own = own
        self._other = other

    def __call__(self, reads: CacheReader, obj: KubeObject) -> InstalledDefinition:
        """Return the kind's own definition, or the other one's if only that lacks something."""
        own, other = self._own(reads, obj), self._other(reads)
        if own.missing or not other.missing:
            return own
        return replace(other, cut=own.cut, read=own.read)


def _read_before(memory: object) -> ReadGeneration | None:
    """Return the generation in the memory of a plan: all that it remembers, or a part of it."""
    found = getattr(memory, "generation", memory)
    return found if isinstance(found, ReadGeneration) else None


def _read_now(
    found: InstalledDefinition, obj: KubeObject, before: ReadGeneration | None
) -> ReadGeneration | None:
    """Return what to remember of a generation; None while its definition is not known."""
    if not found.missing:
        is_certain = not (found.unverified or found.awaited)
        return ReadGeneration(obj.metadata.generation) if is_certain else None
    is_edit = before is not None or _observed(obj) not in {None, obj.metadata.generation}
    return ReadGeneration(obj.metadata.generation, found.missing if is_edit else ())


def _observed(obj: KubeObject) -> int | None:
    """Return the generation of the status, or else of its newest condition; None if it has none.

    `Ready` does not count: the runtime sets it too, when a kind itself fails.
    """
    status = mapping(getattr(obj, "status", None))
    found = status.get("observedGeneration")
    if isinstance(found, int):
        return found
    conditions = read_conditions(status.get("conditions")) or ()
    generations = (each.get("observedGeneration") for each in conditions if each["type"] != READY)
    return max((one for one in generations if isinstance(one, int)), default=None)


def missing_fields(schema: ObjectSchema, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that objects lose, without those below another one."""
    lost = [path for path in paths if schema.lacks(path)]
    return tuple(path for path in lost if not any(path.startswith(f"{other}.") for other in lost))


# Leaves an object unchanged until its installed definition is known.
#
# A new generation counts only after the schema has been read again. Before that, a definition that
# drops fields may have read it, and the open watch does not show that.

SPEC_PRUNED: Final = "SpecPruned"
"""Reason of the event about an object whose last edit a definition may have cut."""

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of a definition that will be read in a moment."""

FAILED_CHECK_INTERVAL: Final = 30.0
"""Seconds between two checks after it could not be read."""


def leave_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> Plan | None:
    """Return a plan that writes nothing and reports why; None if the object can be trusted."""
    events = definition.events(())
    if not events and definition.cut:
        events = (Event("Warning", SPEC_PRUNED, "Reconcile", definition.cut),)
    if events:
        return Plan(events=events, requeue_after=EVENT_INTERVAL)
    return wait_for_definition(obj, definition) if definition.unverified else None


def is_left_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> bool:
    """Return whether no status is written either, not even one that names a failed write."""
    return not obj.metadata.terminating and leave_as_it_is(obj, definition) is not None


def remember(plan: Plan, definition: InstalledDefinition) -> Plan:
    """Return the plan with the generation for the next plan, if it has changed."""
    return plan if definition.read is None else replace(plan, memory=definition.read)


def wait_for_definition(obj: KubeObject, definition: InstalledDefinition) -> Plan:
    """Return a plan that checks again soon; after a failed read, an event reports the wait."""
    message = what_is_awaited(obj, definition)
    if not message:
        return Plan(requeue_after=CHECK_INTERVAL)
    event = Event("Warning", "DefinitionUnread", "Reconcile", message)
    return Plan(events=(event,), requeue_after=FAILED_CHECK_INTERVAL)


def what_is_awaited(obj: KubeObject, definition: InstalledDefinition) -> str:
    """Return a sentence about the wait after a failed read, empty if there was none."""
    if not definition.unread:
        return ""
    return (
        f"generation {obj.metadata.generation} of the specification waits until it is certain by "
        f"which definition it was read: {definition.unread}"
    )


# Reports an edit that validation refuses while what an earlier one began goes on.
#
# A refused specification starts nothing. What had begun is followed to its end all the same: its
# results, deadlines, deletions and counts.

SPEC_ACCEPTED: Final = "SpecAccepted"


def set_spec_accepted(conditions: ConditionSet, problem: Problem | None) -> None:
    """Set the condition while the specification is refused, remove it otherwise."""
    reason = "" if problem is None else problem.reason
    conditions.set_if(SPEC_ACCEPTED, "False", reason, _message(problem))


def refused_edit_events(
    problem: Problem | None, status: Mapping[str, Any], meta: ObjectMeta
) -> tuple[Event, ...]:
    """Return the event about a refused edit, once.

    Where the definition keeps no conditions, it is returned once a generation.
    """
    if problem is None:
        return ()
    conditions = status.get("conditions")
    told = find_condition(conditions or (), SPEC_ACCEPTED) or {}
    is_told = told.get("message") == stored_message(_message(problem))
    # Conditions that cannot be read are not those that the definition drops.
    is_dropped = not conditions and not problem.concerns("status")
    if is_told or (is_dropped and status.get("observedGeneration") == meta.generation):
        return ()
    return (Event("Warning", problem.reason, "Validate", _message(problem)),)


def _message(problem: Problem | None) -> str:
    if problem is None:
        return ""
    return f"the specification is not acted on, and what had begun goes on: {problem}"


# Reports fields of pod templates that the API server does not know, and other misspelt words.
#
# Manta's definitions keep pod templates as they are, so that a misspelt field is stored and then
# silently dropped when the pod is created. What a kind hands on as text or by free keys is stored
# too, and fails much later. The object is reconciled all the same; a condition and an event name
# each such field.

FIELDS_KNOWN: Final = "FieldsKnown"
_SHOWN: Final = 10


class UnknownFieldFinder:
    """Finds the unknown fields of an object, once per object and pod schema.

    Args:
        find: returns the unknown fields of its pod templates, given the schema of pods.
        reader: what reads other parts of the object, such as `Ray 2.60`.
        unread: returns the keys in those parts that the reader does not know.
    """

    def __init__(
        self,
        find: Callable[[Any, ObjectSchema], Iterable[UnknownField]],
        reader: str = "",
        unread: Callable[[Any], Iterable[UnknownField]] = lambda _: (),
    ) -> None:
        self._find = find
        self._reader = reader
        self._unread = unread
        self._pod: ObjectSchema | None = None
        self._memo = IdentityMemo(self._message)

    def __call__(self, obj: KubeObject, reads: CacheReader) -> str:
        """Return sentences that name the fields; empty without such fields."""
        pod = reads.installed_schema(PODS).schema
        if pod is not self._pod:
            self._pod, self._memo = pod, IdentityMemo(self._message)
        return self._memo(obj)

    def _message(self, obj: KubeObject) -> str:
        dropped = tuple(self._find(obj, self._pod)) if self._pod is not None else ()
        found = describe(dropped), describe_unread(tuple(self._unread(obj)), self._reader)
        return ". Also ".join(filter(None, found))


def describe(fields: Sequence[UnknownField]) -> str:
    """Return what is said of fields that the API server drops, empty if there are none."""
    named = _named(fields)
    return named and (
        f"unknown to this API server, which drops them: {named}; correct or remove them"
    )


def describe_unread(fields: Sequence[UnknownField], reader: str) -> str:
    """Return what is said of keys that their reader does not know, empty if there are none."""
    named = _named(fields)
    return named and (
        f"unknown to {reader}: {named}; correct or remove them, unless another version knows them"
    )


def _named(fields: Sequence[UnknownField]) -> str:
    shown = ", ".join(map(str, fields[:_SHOWN]))
    more = len(fields) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def set_fields_known(conditions: ConditionSet, message: str) -> None:
    """Set the condition while there are unknown fields, remove it otherwise."""
    conditions.set_if(FIELDS_KNOWN, "False", "UnknownFields", message)


def unknown_field_events(
    conditions: Sequence[Mapping[str, Any]], message: str
) -> tuple[Event, ...]:
    """Return the event, unless the stored condition has the same message."""
    known = find_condition(conditions, FIELDS_KNOWN) or {}
    if not message or known.get("message") == stored_message(message):
        return ()
    return (Event("Warning", "UnknownFields", "Validate", message),)
