"""Revisions of Workspaces as Kaito stores them: hashes of Go's JSON, and ControllerRevisions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from controller.apimachinery.custom_object import in_canonical_order, mapping, parse
from controller.apimachinery.quantity import ZERO, parse_quantity
from controller.apimachinery.user_yaml import go_json
from controller.kaito.api import labels
from controller.kaito.api.workspace import Body, Workspace, WorkspaceSpec, child
from controller.kube.objects import ControllerRevision, ObjectMeta
from controller.kube.resources import CONTROLLER_REVISIONS

# Writes plain data as Go does, with its order of fields and its zero values.
#
# `data/go_types.txt` has a line for each struct: `name=type` for each field in its order. Types are
# `string`, `int`, `bool`, `quantity`, `intOrString`, another struct, `[list]`, `{map from strings}`
# and `*pointer`; `!` marks a field that is written when it is zero too, `...Name` stands for the
# fields of another struct.

_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "int": 0,
    "bool": False,
    "intOrString": 0,
    "quantity": "0",
}
_QUANTITY: Final = re.compile(
    r"[+-]?0*(?P<whole>\d*)\.?(?P<fraction>\d*)"
    r"(?:(?P<binary>[KMGTPE])i|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?\d{1,9}))?",
    re.ASCII,
)
_POWERS: Final = {
    "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_SUFFIXES: Final = {power: suffix for suffix, power in _POWERS.items()}
_LARGEST: Final = 2**63 - 1
_LARGEST_EXPONENT: Final = 1000
"""Far more than any amount needs; larger exponents would cost memory."""

_MOST_DIGITS: Final = 18
"""Maximum digits of a number that Go reads as an integer."""

_MOST_BINARY_DIGITS: Final = 15
"""Maximum digits of a number in units of 1024, including those of the unit."""

_EMPTY_IS_LEFT_OUT: Final = frozenset({"string", "int", "bool"})


class _Field(msgspec.Struct, frozen=True):
    """A field of a struct; the name is that in JSON, empty for the fields of an embedded struct."""

    name: str
    type: str
    always: bool


Structs: TypeAlias = "Mapping[str, Sequence[_Field]]"


class GoWriter:
    """Converts plain data to what a Go program writes."""

    def __init__(self, structs: Structs) -> None:
        self._structs = structs

    def write(self, type_name: str, value: Any) -> Any:
        """Return plain data of this type, with the fields that Go writes in Go's order.

        Unknown fields are dropped, and nulls count as absent.

        Raises:
            InvalidQuantity: a quantity is malformed.
        """
        if type_name.startswith("*"):
            return None if value is None else self.write(type_name[1:], value)
        if type_name.startswith("["):
            return self._list(type_name[1:-1], value)
        if type_name.startswith("{"):
            return self._map(type_name[1:-1], value)
        if type_name == "quantity":
            return _quantity(value)
        if type_name in _ZEROS:
            return _ZEROS[type_name] if value is None else value
        return self._struct(type_name, mapping(value))

    def _list(self, element: str, value: Any) -> list[Any] | None:
        if not isinstance(value, list):
            return None
        return [self.write(element, each) for each in cast("list[Any]", value)]

    def _map(self, element: str, value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        items = cast("dict[str, Any]", value)
        return {key: self.write(element, items[key]) for key in sorted(items)}

    def _struct(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for each in self._structs[name]:
            if not each.name:
                written |= self._struct(each.type, value)
                continue
            member = self.write(each.type, value.get(each.name))
            if each.always or not _is_left_out(each.type, member):
                written[each.name] = member
        return written


@cache
def kaito_writer() -> GoWriter:
    """Return the writer of a Kaito that is built with Kubernetes 1.34 or newer."""
    return GoWriter(_read())


@cache
def old_kaito_writer() -> GoWriter:
    """Return the writer of an older Kaito, with `creationTimestamp: null` in every template."""
    structs = _read()
    metadata = [
        replace(each, always=True) if each.name == "creationTimestamp" else each
        for each in structs["ObjectMeta"]
    ]
    return GoWriter(structs | {"ObjectMeta": metadata})


def _quantity(value: Any) -> str:
    """Return the text of a quantity: canonical, or unchanged if Go considers it canonical."""
    if value is None:
        return str(ZERO)
    quantity = parse_quantity(value)
    text = value if isinstance(value, str) else repr(value)
    if _is_taken_as_it_is(text):
        return text
    return str(quantity) if abs(quantity.value) < _LARGEST else _large(text) or str(quantity)


def _large(text: str) -> str:
    """Return the text that Go writes for a decimal amount above int64; empty for other amounts.

    Go has no suffix for 10^21 and more and leaves it out: `1000E` becomes `1`.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None or found["binary"] or abs(int(found["exponent"] or 0)) > _LARGEST_EXPONENT:
        return ""
    power = _POWERS[found["decimal"]] if found["decimal"] else int(found["exponent"] or 0)
    digits = int(found["whole"] + found["fraction"])
    number = -(
        -digits * 10**9 * 10 ** max(power, 0) // 10 ** (len(found["fraction"]) - min(power, 0))
    )
    power = _POWERS["n"]
    while number % 1000 == 0:
        number, power = number // 1000, power + 3
    suffix = f"e{power}" if found["exponent"] and power else _SUFFIXES.get(power, "")
    return f"{'-' if text[0] == '-' else ''}{number}{suffix}"


def _is_taken_as_it_is(text: str) -> bool:
    """Return whether Go considers a quantity canonical, which it judges by the digits."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return False
    whole, fraction = found["whole"] or "0", found["fraction"]
    if found["binary"]:
        digits_of_unit = 3 * "KMGTPE".index(found["binary"]) + 3
        fits = len(whole) + digits_of_unit < _MOST_BINARY_DIGITS
        return fits and not fraction and int(whole) % 8 != 0
    power = _POWERS[found["decimal"]] if found["decimal"] else int(found["exponent"] or 0)
    scale, digits = power - len(fraction), whole + fraction
    is_short = len(digits) <= _MOST_DIGITS and scale >= _POWERS["n"]
    return is_short and scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")


def _is_left_out(type_name: str, member: Any) -> bool:
    """Return whether `omitempty` leaves a member out: structs are never empty to it."""
    if member is None:
        return True
    return not member and (type_name in _EMPTY_IS_LEFT_OUT or type_name[0] in "[{")


def _read() -> dict[str, list[_Field]]:
    file = resources.files("controller.kaito.api").joinpath("data", "go_types.txt")
    text = re.sub(r"^#.*", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    structs: dict[str, list[_Field]] = {}
    current: list[_Field] = []
    for word in text.split():
        if word.endswith(":"):
            current = structs[word[:-1]] = []
        else:
            current.append(_field(word))
    return structs


def _field(word: str) -> _Field:
    if word.startswith("..."):
        return _Field("", word[3:], always=False)
    name, _, type_name = word.partition("=")
    return _Field(name, type_name.rstrip("!"), always=type_name.endswith("!"))


MAX_REVISIONS: Final = 10
"""Maximum revisions to keep; beyond it the oldest is deleted."""


def revision_hash(workspace: Workspace) -> str:
    """Return the hash of what the workload is made from that present versions of Kaito store.

    A Workspace whose hash is the stored one is taken over without touching its workload.

    Raises:
        InvalidQuantity: a quantity is malformed; not raised for a valid specification.
    """
    return _hash(_parts(workspace, kaito_writer()))


def is_revision_hash(workspace: Workspace, stored: str) -> bool:
    """Return whether a present or an old version stored this hash for the specification."""
    writers = (kaito_writer(), old_kaito_writer())
    return any(_hash(_parts(workspace, writer)) == stored for writer in writers)


def revision_name(workspace_name: str, hash_: str, digits: int = 5) -> str:
    """Return the name of the ControllerRevision, with so many digits of the hash."""
    return f"{workspace_name}-{hash_[:digits]}"


def revision_data(workspace: Workspace) -> dict[str, Any]:
    """Return `data` of the ControllerRevision."""
    parts = _parts(workspace, kaito_writer())
    return {name: parts[name] for name in sorted(parts)}


def _parts(workspace: Workspace, writer: GoWriter) -> dict[str, Any]:
    """Return the JSON that Go writes for each part, in the order in which they are hashed."""
    return {
        "resource": writer.write("ResourceSpec", workspace.resource),
        "inference": writer.write("*InferenceSpec", workspace.inference),
        "tuning": writer.write("*TuningSpec", workspace.tuning),
    }


def _hash(parts: dict[str, Any]) -> str:
    lines = [go_json(part, sort_keys=False) + "\n" for part in parts.values()]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class WorkspaceRevision(ControllerRevision, frozen=True):
    """A specification that a Workspace has or had; `stored_specification` reads its plain data."""

    data: Any = None

    @property
    def hash(self) -> str:
        """The hash of its specification; empty if it is not marked with one."""
        return (self.metadata.annotations or {}).get(labels.HASH, "")


def stored_specification(revision: WorkspaceRevision) -> WorkspaceSpec | None:
    """Return the specification that it holds; None if it cannot be read."""
    try:
        spec = parse(revision.data, WorkspaceSpec)
    except (msgspec.ValidationError, RecursionError):
        return None
    return spec if spec.inference is not None or spec.tuning is not None else None


class RevisionState(Enum):
    """The relation of a workload to the present revision.

    Kaito compares only numbers, so a history that begins anew replaces every tuning job. The hash
    beside the number shows that nothing has changed.
    """

    PRESENT = "made from it"
    UNMARKED = "made from the same specification, or of unknown origin: only the mark is missing"
    OUTDATED = "made from another specification"


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a Workspace.

    Attributes:
        is_same: returns whether a hash is that of a specification which differs from this one only
            in the order of lists, where that has no meaning.
    """

    number: int
    hash: str
    is_same: Callable[[str], bool] = field(default=lambda _: False, repr=False, compare=False)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of a workload that is made from it."""
        return {labels.REVISION: str(self.number), labels.HASH: self.hash}

    def state_of(self, workload: ObjectMeta) -> RevisionState:
        """Return whether a workload is made from this revision.

        A workload without a number is taken for up to date, so that taking over restarts nothing.
        """
        found = workload.annotations or {}
        number = found.get(labels.REVISION)
        if number == str(self.number):
            return RevisionState.PRESENT
        made_from = found.get(labels.HASH, "")
        if number is None or made_from == self.hash or self.is_same(made_from):
            return RevisionState.UNMARKED
        return RevisionState.OUTDATED


_DIGITS: Final = (5, 10, 20, 40)
"""Digits of the hash in a name: Kaito's five, more where that name is taken, such as by a hash that
begins with the same (KAI-27)."""


class HistoryStep(msgspec.Struct, frozen=True):
    """The present revision, and the writes for it.

    Attributes:
        create: its body; None if it exists.
        surplus: the one to delete then; None if there are not too many.
    """

    revision: Revision
    name: str
    create: Body | None = None
    surplus: ControllerRevision | None = None


def next_revision(
    workspace: Workspace,
    hash_: str,
    existing: Sequence[WorkspaceRevision],
    taken: Collection[str] = (),
) -> HistoryStep:
    """Return the revision of the present specification.

    A specification that was there before has its old number again, as in Kaito. Names that are
    `taken` are those of others' revisions.
    """
    by_name = {each.metadata.name: each for each in existing}
    names = possible_names(workspace.metadata.name, hash_)
    present = next((by_name[n] for n in names if n in by_name and by_name[n].hash == hash_), None)

    def is_same(made_from: str) -> bool:
        """Kaito's hash counts each list as written."""
        known = (each.data for each in existing if made_from and each.hash == made_from)
        wanted = in_canonical_order(revision_data(workspace))
        return any(in_canonical_order(data) == wanted for data in known)

    if present is not None:
        return HistoryStep(Revision(present.revision, hash_, is_same), present.metadata.name)
    name = next((n for n in names if n not in by_name and n not in taken), names[-1])
    ordered = sorted(existing, key=lambda each: (each.revision, each.metadata.name))
    number = ordered[-1].revision + 1 if ordered else 1
    return HistoryStep(
        Revision(number, hash_, is_same),
        name,
        create=_body(workspace, name, hash_, number),
        surplus=ordered[0] if len(ordered) > MAX_REVISIONS else None,
    )


def possible_names(workspace_name: str, hash_: str) -> tuple[str, ...]:
    """Return the names that the revision of this hash may have, the shortest first."""
    return tuple(revision_name(workspace_name, hash_, digits) for digits in _DIGITS)


def _body(workspace: Workspace, name: str, hash_: str, number: int) -> Body:
    meta, marks = workspace.metadata, {labels.HASH: hash_}
    own = {labels.REVISION_OF: meta.name}
    return {
        **child(CONTROLLER_REVISIONS, meta, name, own_labels=own, annotations=marks),
        "revision": number,
        "data": revision_data(workspace),
    }
