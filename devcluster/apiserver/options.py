"""Parameters of requests: selectors, and options of lists, watches, writes and deletions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from devcluster.apiserver.objects import Json, child, is_label_value
from devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    StatusCause,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    unsupported_value,
)


def flag(query: Mapping[str, str], name: str) -> bool | None:
    """Return a boolean parameter; None if absent."""
    value = query.get(name)
    if value is None:
        return None
    return value.lower() not in {"false", "0"}


def number(query: Mapping[str, str], name: str) -> int | None:
    """Return an integer parameter; None if absent.

    Raises:
        ApiError: 400, it is not an integer.
    """
    value = query.get(name)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None


def revision(query: Mapping[str, str]) -> int | None:
    """Return `resourceVersion` as a number; None if absent or empty.

    Raises:
        ApiError: 400, it is not a revision.
    """
    value = query.get("resourceVersion", "")
    if not value:
        return None
    if not value.isdigit():
        why = (
            f'resourceVersion: Invalid value: "{value}": strconv.ParseUint: parsing "{value}": '
            "invalid syntax"
        )
        if flag(query, "watch"):
            raise ApiError(500, "", why)
        raise bad_request(f"invalid resource version: {why}")
    return int(value)


def is_dry_run(value: str, kind: str) -> bool:
    """Return whether `dryRun` of options of a kind is `All`.

    Raises:
        ApiError: 422, it is something else.
    """
    if value in {"", "All"}:
        return value == "All"
    said = f'Unsupported value: ["{value}"]: supported values: "All"'
    raise _refused(kind, StatusCause("FieldValueNotSupported", "dryRun", said))


def _refused(kind: str, cause: StatusCause) -> ApiError:
    return invalid(ResourceName("meta.k8s.io", "", kind), "", [cause])


_MATCH = "resourceVersionMatch"


class ListOptions(Struct, frozen=True):
    """Parameters of list, watch and deletecollection.

    Attributes:
        limit: page size, 0 for none.
        timeout: seconds after which a watch ends, None for the server's choice.
    """

    since: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> ListOptions:
        """Read the parameters and refuse contradictory combinations.

        Selectors are only checked, because the selectable fields depend on the resource.

        Raises:
            ApiError: 400 or 422.
        """
        options = cls(
            since=query.get("resourceVersion", ""),
            match=query.get(_MATCH, ""),
            limit=number(query, "limit") or 0,
            continue_token=query.get("continue", ""),
            watch=bool(flag(query, "watch")),
            bookmarks=bool(flag(query, "allowWatchBookmarks")),
            initial_events=flag(query, "sendInitialEvents"),
            timeout=number(query, "timeoutSeconds"),
        )
        parse_label_selector(query.get("labelSelector", ""))
        split_field_selector(query.get("fieldSelector", ""))
        if options._contradicts_itself:
            cause = forbidden_field(_MATCH, "does not go with the other parameters")
            raise _refused("ListOptions", cause)
        return options

    @property
    def revision(self) -> int | None:
        """`resourceVersion` as a number, None for unset.

        Raises:
            ApiError: 400, or 500 for a watch: it is no revision.
        """
        return revision({"resourceVersion": self.since, "watch": str(self.watch)})

    @property
    def _contradicts_itself(self) -> bool:
        if self.watch:
            wanted = "" if self.initial_events is None else "NotOlderThan"
            return self.match != wanted or bool(wanted and self.continue_token)
        if self.initial_events is not None or self.match not in {"", "Exact", "NotOlderThan"}:
            return True
        unfit = not self.since or self.continue_token or (self.match, self.since) == ("Exact", "0")
        return bool(self.match and unfit)


_VALIDATIONS = ("Ignore", "Strict", "Warn")


class WriteOptions(Struct, frozen=True):
    """Parameters of create, update and patch.

    Attributes:
        manager_given: whether the client itself named the manager.
        warnings: sentences for the `Warning` header, added while the request is worked on.
    """

    dry_run: bool = False
    field_validation: str = "Warn"
    field_manager: str = ""
    manager_given: bool = False
    force: bool = False
    warnings: list[str] = field(default_factory=list[str])

    @classmethod
    def parse(cls, query: Mapping[str, str], user_agent: str, verb: str) -> WriteOptions:
        """Read the parameters of a verb: `create`, `update` or `patch`.

        Raises:
            ApiError: 422, an unknown value.
        """
        kind = f"{verb.capitalize()}Options"
        dry_run = is_dry_run(query.get("dryRun", ""), kind)
        validation = query.get("fieldValidation") or "Warn"
        if validation not in _VALIDATIONS:
            cause = unsupported_value("fieldValidation", validation, ("", *_VALIDATIONS))
            raise _refused(kind, cause)
        return cls(
            dry_run=dry_run,
            field_validation=validation,
            field_manager=query.get("fieldManager") or user_agent.split("/", 1)[0],
            manager_given=bool(query.get("fieldManager")),
            force=bool(flag(query, "force")),
        )


class DeleteOptions(Struct, frozen=True):
    """The options of a deletion.

    Attributes:
        grace: seconds, None for the kind's default.
        propagation: `Background`, `Foreground`, `Orphan`, or empty for the kind's default.
    """

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False

    @classmethod
    def parse(cls, query: Mapping[str, str], body: Json | None) -> DeleteOptions:
        """Read the options from the body, or from the query if there is no body.

        Raises:
            ApiError: 400 or 422.
        """
        source: Mapping[str, Any] = query if body is None else body
        preconditions: Json = child(body, "preconditions")
        grace = source.get("gracePeriodSeconds")
        if body is not None and isinstance(grace, str):
            raise bad_request(
                "json: cannot unmarshal string into Go struct field "
                "DeleteOptions.gracePeriodSeconds of type int64"
            )
        propagation = source.get("propagationPolicy") or ""
        if source.get("orphanDependents") is not None:
            if propagation:
                detail = "orphanDependents and deletionPropagation cannot be both set"
                cause = invalid_value("propagationPolicy", propagation, detail)
                raise _refused("DeleteOptions", cause)
            orphan = str(source["orphanDependents"]).lower() == "true"
            propagation = "Orphan" if orphan else "Background"
        if propagation not in {"", "Background", "Foreground", "Orphan"}:
            choices = ("Foreground", "Background", "Orphan", "nil")
            raise _refused(
                "DeleteOptions", unsupported_value("propagationPolicy", propagation, choices)
            )
        if grace is not None:
            grace = int(grace) if int(grace) >= 0 else 1  # as upstream
        dry_run = (body or {}).get("dryRun") or [query.get("dryRun", "")]
        return cls(
            grace=grace,
            propagation=propagation,
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            dry_run=is_dry_run(dry_run[0], "DeleteOptions"),
        )


# Label and field selectors: parsed once, then matched against objects.


class LabelRequirement(Struct, frozen=True):
    """One term of a label selector.

    Attributes:
        operator: `in`, `notin`, `exists`, `absent`, `gt` or `lt`.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy it; a missing key satisfies only `notin` and `absent`."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value in self.values
        if self.operator == "notin":
            return value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == "gt" else int(value) < int(bound)


_WORD = r"[^\s!=<>(),]+"
_REQUIREMENT = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_WORD})"
    rf"|(?P<key>{_WORD})\s*(?:(?P<sign>==|!=|[=<>])\s*(?P<value>{_WORD})?"
    rf"|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?P<end>,|$)"
)
_OPERATORS = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def parse_label_selector(text: str) -> tuple[LabelRequirement, ...]:
    """Parse a label selector.

    Raises:
        ApiError: 400, it does not follow the grammar.
    """
    requirements: list[LabelRequirement] = []
    position, more = 0, bool(text.strip())
    while more:
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise bad_request(f"unable to parse requirement: {text[position:]!r}")
        requirements.append(_requirement(match))
        position, more = match.end(), match["end"] == ","
    return tuple(requirements)


def _requirement(match: re.Match[str]) -> LabelRequirement:
    if match["absent"]:
        return LabelRequirement(match["absent"], "absent")
    key = match["key"]
    if match["set"]:
        operator, values = match["set"], [each.strip() for each in match["values"].split(",")]
    elif match["sign"]:
        operator, values = _OPERATORS[match["sign"]], [match["value"] or ""]
    else:
        return LabelRequirement(key, "exists")
    is_number = operator not in {"gt", "lt"} or re.fullmatch(r"-?\d+", values[0])
    problems = [problem for value in values for problem in is_label_value(value)]
    if problems or not is_number:
        why = problems[0] if problems else "it must be an integer"
        raise bad_request(f"unable to parse requirement: values of {key}: {why}")
    return LabelRequirement(key, operator, frozenset(values))


class FieldRequirement(Struct, frozen=True):
    """One term of a field selector: a field equals a value, or does not."""

    label: str
    value: str
    equal: bool
    read: Callable[[Json], str]

    def matches(self, object_: Json) -> bool:
        """Return whether an object satisfies this term."""
        return (self.read(object_) == self.value) is self.equal


def split_field_selector(text: str) -> list[tuple[str, str, str]]:
    """Split a field selector into terms of label, operator and value.

    Raises:
        ApiError: 400, bad syntax.
    """
    terms: list[tuple[str, str, str]] = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]+)(!=|==|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append((match[1], match[2], match[3]))
    return terms


def parse_field_selector(
    text: str, fields: Mapping[str, Callable[[Json], str]], unsupported: Callable[[str], Exception]
) -> tuple[FieldRequirement, ...]:
    """Parse a field selector, `status.phase!=Failed,spec.nodeName=a`.

    Raises:
        ApiError: 400, bad syntax or unsupported field.
    """
    terms: list[FieldRequirement] = []
    for label, sign, value in split_field_selector(text):
        if label not in fields:
            raise unsupported(label)
        terms.append(FieldRequirement(label, value, sign != "!=", fields[label]))
    return tuple(terms)


class Selection(Struct, frozen=True):
    """Label and field terms of one list or watch."""

    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there are any terms."""
        return bool(self.labels or self.fields)

    def matches(self, object_: Json) -> bool:
        """Return whether an object is selected."""
        if self.labels:
            labels = child(object_["metadata"], "labels")
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all(term.matches(object_) for term in self.fields)
