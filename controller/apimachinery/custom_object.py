"""The common base of cached custom resources, whose fields stay plain data.

A field of a wrong type therefore does not break the cache: parsing the specification raises an
error with the field's path.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast

import msgspec

from controller.kube.objects import KubeObject

T = TypeVar("T")

FieldReader: TypeAlias = Callable[[Any], Any]
"""Returns a field's value as far as it is well-formed, else None."""

_FIELD_OF_ERROR: Final = re.compile(r" - at `\$\.(\w+)")
_TEXTS: Final = ("status", "reason", "message", "lastTransitionTime")
"""Fields of a condition besides its type."""


class CustomObject(KubeObject, frozen=True, gc=True, weakref=True):
    """A cached custom resource; kinds add their own fields, such as `spec`.

    Attributes:
        status: plain data; read it with `status_of`.
    """

    status: Any = msgspec.field(default_factory=dict[str, Any])

    status_fields: ClassVar[Mapping[str, FieldReader]] = {}
    """Readers of the status fields that the operator uses; no schema guarantees their types."""


def parse(data: Any, view: type[T]) -> T:
    """Convert plain data to a typed view, without nulls.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return msgspec.convert(without_nulls(data), view)


def parse_readable(data: Any, view: type[T]) -> T:
    """Convert plain data to a typed view, without nulls and without fields of a wrong type.

    The view must have a default for each field.
    """
    fields = dict(mapping(without_nulls(data)))
    while True:
        try:
            return msgspec.convert(fields, view)
        except msgspec.ValidationError as error:
            wrong = _FIELD_OF_ERROR.search(str(error))
            if wrong is None or fields.pop(wrong[1], None) is None:
                return msgspec.convert({}, view)


def status_of(obj: CustomObject) -> dict[str, Any]:
    """Return the present status. A malformed field counts as absent, so it is written again."""
    readers = obj.status_fields
    status: dict[str, Any] = {}
    for name, value in mapping(obj.status).items():
        reader = readers.get(name)
        read = value if reader is None else reader(value)
        if reader is None or read is not None:
            status[name] = read
    return status


def conditions_of(obj: CustomObject) -> list[dict[str, Any]]:
    """Return the present conditions that have a type."""
    return read_conditions(mapping(obj.status).get("conditions")) or []


def unreadable_conditions(obj: CustomObject) -> str:
    """Return the field that makes the conditions unreadable, and why; empty if none does.

    Unreadable conditions are not absent: code that deletes objects which are not ready must
    distinguish them.
    """
    status: Any = obj.status
    if status is not None and not isinstance(status, dict):
        return "status: it is no object"
    found = mapping(status).get("conditions")
    if found is None:
        return ""
    if not isinstance(found, list):
        return "status.conditions: it is no list"
    for position, each in enumerate(cast("list[Any]", found)):
        field = f"status.conditions[{position}]"
        if not isinstance(mapping(each).get("type"), str):
            return f"{field}: it has no type"
        if mapping(each).get("status") not in ("True", "False", "Unknown"):
            return f"{field}.status: it is not True, False or Unknown"
    return ""


def only(kind: type) -> FieldReader:
    """Return a reader of values of this type; booleans do not count as integers."""

    def read(value: Any) -> Any:
        fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        return value if fits else None

    return read


def read_conditions(value: Any) -> list[dict[str, Any]] | None:
    """Return the conditions that have a type; None if the value is not a list.

    A member that should be text and is not counts as absent.
    """
    if not isinstance(value, list):
        return None
    return [_with_texts(each) for each in mappings(value) if isinstance(each.get("type"), str)]


def _with_texts(condition: dict[str, Any]) -> dict[str, Any]:
    for name in _TEXTS:  # a loop, as each plan reads the conditions twenty times
        if not isinstance(condition.get(name, ""), str):
            return {
                field: value
                for field, value in condition.items()
                if field not in _TEXTS or isinstance(value, str)
            }
    return condition


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """Return the mappings in a list; other items, and any other value, count as absent."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in items if isinstance(each, dict)]


def dig(value: Any, *path: str | int) -> Any:
    """Return the value at a path in plain data of any shape; None if there is none."""
    for part in path:
        if isinstance(part, str):
            value = mapping(value).get(part)
        else:
            items = cast("list[Any]", value) if isinstance(value, list) else []
            value = items[part] if part < len(items) else None
    return value


def without_nulls(value: Any) -> Any:
    """Return plain data without nulls, which mean absent in Kubernetes; itself if it has none."""
    if not _has_nulls(value):
        return value
    copy, parts = copied(value)
    for part, _ in parts:
        if isinstance(part, dict):
            for name in [name for name, item in part.items() if item is None]:
                del part[name]
    return copy


def _has_nulls(value: Any) -> bool:
    pending = [value]
    while pending:
        around = pending.pop()
        if isinstance(around, dict):
            fields = cast("dict[str, Any]", around).values()
            if None in fields:
                return True
            pending.extend(fields)
        elif isinstance(around, list):
            pending.extend(cast("list[Any]", around))
    return False


# Containment: plain data contains everything wanted, and may contain more.


def contains(found: Any, wanted: Any) -> bool:
    """Return whether every member of `wanted` is in `found`, and lists are of equal length."""
    if isinstance(wanted, dict):
        fields = mapping(found)
        items = cast("dict[str, Any]", wanted).items()
        return all(contains(fields.get(key), item) for key, item in items)
    if isinstance(wanted, list):
        listed = cast("list[Any]", wanted)
        if not isinstance(found, list) or len(cast("list[Any]", found)) != len(listed):
            return False
        return all(map(contains, cast("list[Any]", found), listed))
    return bool(found == wanted)


# Results of computations on cached objects, remembered for as long as they hold.
#
# Cached objects are never changed in place, so their identity is the cheapest possible key: no
# hashing, no comparing, and nothing to invalidate.

Custom = TypeVar("Custom", bound=CustomObject)
K = TypeVar("K")
V = TypeVar("V")


class IdentityMemo(Generic[K, V]):
    """Computes `compute(obj)` once per object; forgets it together with the object."""

    def __init__(self, compute: Callable[[K], V]) -> None:
        self._compute = compute
        self._entries: dict[int, tuple[weakref.ref[K], V]] = {}

    def __call__(self, obj: K) -> V:
        """Return the remembered result for this very object; compute it for a new one.

        Exceptions are not remembered.
        """
        key = id(obj)
        entry = self._entries.get(key)
        if entry is not None and entry[0]() is obj:
            return entry[1]
        value = self._compute(obj)
        self._entries[key] = (weakref.ref(obj, lambda dead: self._forget(key, dead)), value)
        return value

    def __len__(self) -> int:
        """Return the number of remembered objects."""
        return len(self._entries)

    def _forget(self, key: int, dead: weakref.ref[K]) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry[0] is dead:
            del self._entries[key]


@dataclass(slots=True)
class _Entry(Generic[Custom, V]):
    obj: Custom
    specification: Custom
    value: V


class SpecificationMemo(Generic[Custom, V]):
    """Computes `compute(obj)` once per specification: a new status needs no computation.

    All metadata but the revision belong to the specification. `compute` gets an object without
    status and revision, because they may change. The last result of each object is kept until
    `present` is told that it is gone.
    """

    def __init__(self, compute: Callable[[Custom], V]) -> None:
        self._compute = compute
        self._entries: dict[str, _Entry[Custom, V]] = {}

    def __call__(self, obj: Custom) -> V:
        """Return the remembered result for this specification; compute it for a new one.

        Exceptions are not remembered.
        """
        key = obj.metadata.key
        entry = self._entries.get(key)
        if entry is not None and entry.obj is obj:
            return entry.value
        specification = _specification(obj)
        if entry is not None and entry.specification == specification:
            entry.obj = obj
            return entry.value
        value = self._compute(specification)
        self._entries[key] = _Entry(obj, specification, value)
        return value

    def __len__(self) -> int:
        """Return the number of remembered objects."""
        return len(self._entries)

    def present(self, key: str, obj: Custom | None) -> Custom | None:
        """Return the object; drop the result of one that no longer exists."""
        if obj is None:
            self._entries.pop(key, None)
        return obj


def _specification(obj: Custom) -> Custom:
    """Return the object without what may change while its specification stays the same."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version="")
    return msgspec.structs.replace(obj, metadata=metadata, status={})


# The order of lists whose order has no meaning.
#
# Kubernetes reads many lists as sets, or by the names of their items; people, GitOps tools and
# generators write them in any order. Two specifications that differ in nothing else mean the same.


_UNORDERED: Final = frozenset({
    "accessModes", "adapters", "add", "claims", "drop", "hosts", "imagePullSecrets", "items",
    "matchExpressions", "matchFields", "matchLabelKeys", "mismatchLabelKeys", "namespaces",
    "nodeSelectorTerms", "ports", "preferredDuringSchedulingIgnoredDuringExecution",
    "preferredNodes", "readinessGates", "requiredDuringSchedulingIgnoredDuringExecution",
    "resourceClaims", "schedulingGates", "supplementalGroups", "sysctls", "tls", "tolerations",
    "topologySpreadConstraints", "values", "volumeDevices", "volumeMounts", "volumes",
    "workerGroupSpecs",
})  # fmt: skip
"""Lists whose order has no meaning.

In others it has one: init containers run in turn, a later source of `envFrom`, or of a projected
volume, hides an earlier one, and arguments and name servers are read in turn, as are host aliases
that have a name in common.
"""

_REFERENCE: Final = re.compile(r"\$\(([^)]+)\)")


def in_canonical_order(value: Any, around: str = "") -> Any:
    """Return plain data with lists sorted as far as their order has no meaning."""
    copy, parts = copied(value, around)
    for part, name in reversed(parts):
        if isinstance(part, list):
            part[:] = _sorted(part, name)
    return copy


Part: TypeAlias = dict[str, Any] | list[Any]


def copied(
    value: Any, around: str = "", *, is_leaf: Callable[[str, str], bool] | None = None
) -> tuple[Any, list[tuple[Part, str]]]:
    """Return a copy of plain data, and all mappings and lists in it, which may be changed.

    Each comes with the name of the field around it, `around` for the outermost, and before those
    in it. What `is_leaf` says of a field, by the name around it and its own, stays whole.
    """
    root = [value]
    parts: list[tuple[Part, str]] = [(root, around)]
    for part, field in parts:  # users nest as they like, so that this grows and nothing recurses
        members: Any = part
        is_list = isinstance(part, list)
        for key, item in enumerate(members) if is_list else members.items():
            name = field if is_list else str(key)
            if not isinstance(item, dict | list):
                continue
            if is_list or is_leaf is None or not is_leaf(field, name):
                members[key] = copy = cast("Part", item).copy()
                parts.append((copy, name))
    return root[0], parts[1:]


def _sorted(items: list[Any], around: str) -> list[Any]:
    if around == "env":
        return _environment(items)
    if around == "containers":  # the first one is the main container
        return [*items[:1], *sorted(items[1:], key=_text)]
    return sorted(items, key=_text) if around in _UNORDERED else items


def _environment(entries: list[Any]) -> list[Any]:
    """Return variables sorted; `after` keeps which of its references come before an entry.

    `$(NAME)` is replaced only if that variable stands before. Of two variables with one name the
    later one counts, so that such lists stay as they are.
    """
    known = {str(mapping(each).get("name")) for each in entries}
    if len(known) < len(entries):
        return entries
    result: list[dict[str, Any]] = []
    before: set[str] = set()
    for entry in map(mapping, entries):
        used = sorted(before.intersection(_REFERENCE.findall(str(entry.get("value", "")))))
        result.append({**entry, "after": used} if used else entry)
        before.add(str(entry.get("name")))
    return sorted(result, key=_text)


def _text(item: Any) -> bytes:
    return msgspec.json.encode(item, order="sorted")
