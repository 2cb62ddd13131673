"""Objects as plain JSON data: accessors, names, timestamps and the rules of their metadata."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias, cast

import msgspec

from devcluster.apiserver.status import (
    StatusCause,
    forbidden_field,
    invalid_value,
    required,
)

Json: TypeAlias = dict[str, Any]
encode = msgspec.json.encode


def child(value: Any, name: str) -> Json:
    """Return the map below a name; empty if there is none."""
    found = cast("Json", value).get(name) if isinstance(value, dict) else None
    return cast("Json", found) if isinstance(found, dict) else {}


def entries(value: Any, name: str) -> list[Any]:
    """Return the list below a name; empty if there is none."""
    found = cast("Json", value).get(name) if isinstance(value, dict) else None
    return cast("list[Any]", found) if isinstance(found, list) else []


NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_IMMUTABLE_FIELDS = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_OWNER_PARTS = {
    "apiVersion": "version must not be empty",
    "kind": "must not be empty",
    "name": "must not be empty",
    "uid": "must not be empty",
}
TOO_LONG_LABEL = "must be no more than 63 bytes"
NO_DOTS = "must not contain dots"
MAX_ANNOTATIONS = 256 * 1024

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used "
    "for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
QUALIFIED_KEY_RULE = (
    "a valid label key"
    + QUALIFIED_NAME_RULE.removeprefix("name part")
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def timestamp(moment: datetime) -> str:
    """Return a UTC moment as the API writes it, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def new_uid(rng: random.Random) -> str:
    """Return a random object uid."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def generated_name(base: str, rng: random.Random) -> str:
    """Return `generateName` with a random suffix, within 63 characters."""
    return base[:58] + "".join(rng.choices(NAME_ALPHABET, k=5))


def keep_system_fields(new: Json, old: Json) -> None:
    """Keep the fields that only the server sets, in place."""
    for name in _SYSTEM_FIELDS:
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


def is_subdomain(name: str) -> list[str]:
    """Return the problems of a DNS-1123 subdomain."""
    problems = ["must be no more than 253 characters"] if len(name) > 253 else []
    return problems + ([] if _SUBDOMAIN.fullmatch(name) else [SUBDOMAIN_RULE])


def is_label(name: str) -> list[str]:
    """Return the problems of a DNS-1123 label."""
    problems = [TOO_LONG_LABEL] if len(name) > 63 else []
    if not _LABEL.fullmatch(name):
        problems.append(NO_DOTS if _SUBDOMAIN.fullmatch(name) else LABEL_RULE)
    return problems


def is_name_label(name: str) -> list[str]:
    """Return the problems of a name that must or should be a label, as errors of names."""
    return [problem.replace("bytes", "characters") for problem in is_label(name)]


def is_path_segment(name: str) -> list[str]:
    """Return the problems of a name that is only a path segment, such as RBAC names."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]


def is_qualified_name(name: str) -> list[str]:
    """Return the problems of a label key: optional DNS prefix, slash, name."""
    if name.count("/") > 1:
        return [QUALIFIED_KEY_RULE]
    prefix, slash, last = name.rpartition("/")
    problems: list[str] = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in is_subdomain(prefix)]
    if not last:
        problems.append("name part must be non-empty")
    elif len(last) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _QUALIFIED.fullmatch(last):
        problems.append(QUALIFIED_NAME_RULE)
    return problems


def is_label_value(value: str) -> list[str]:
    """Return the problems of a label value."""
    problems: list[str] = []
    if len(value) > 63:
        problems.append("must be no more than 63 bytes")
    if value and not _QUALIFIED.fullmatch(value):
        problems.append(LABEL_VALUE_RULE)
    return problems


def validate_labels(labels: Json, field: str) -> list[StatusCause]:
    """Check a map of labels."""
    causes: list[StatusCause] = []
    for key, value in labels.items():
        causes += check_name(field, key, is_qualified_name)
        causes += check_name(field, value, is_label_value)
    return causes


def check_name(field: str, name: str, rule: Callable[[str], list[str]]) -> list[StatusCause]:
    """Return a cause for each problem that a rule finds in a name."""
    return [invalid_value(field, name, problem) for problem in rule(name)]


def validate_metadata(
    metadata: Json, name_rule: Callable[[str], list[str]] = is_subdomain
) -> list[StatusCause]:
    """Check the metadata of an object of any kind."""
    causes: list[StatusCause] = []
    if base := metadata.get("generateName"):
        prefix = f"{base[:-1]}a" if base.endswith("-") else base
        causes += [
            invalid_value("metadata.generateName", base, problem) for problem in name_rule(prefix)
        ]
    if not metadata.get("name"):
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += check_name("metadata.name", metadata["name"], name_rule)
    causes += validate_labels(child(metadata, "labels"), "metadata.labels")
    causes += _validate_annotations(child(metadata, "annotations"))
    causes += _validate_owners(entries(metadata, "ownerReferences"))
    for finalizer in entries(metadata, "finalizers"):
        causes += check_name("metadata.finalizers", finalizer, is_qualified_name)
    return causes


def validate_core_finalizers(metadata: Json) -> list[StatusCause]:
    """Check that a non-standard finalizer of a built-in kind has a prefix."""
    return [
        invalid_value(
            f"metadata.finalizers[{index}]",
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
        for index, finalizer in enumerate(entries(metadata, "finalizers"))
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS
    ]


def _validate_annotations(annotations: Json) -> list[StatusCause]:
    causes = [
        invalid_value("metadata.annotations", key, problem)
        for key in annotations
        for problem in is_qualified_name(key.lower())
    ]
    size = sum(len(key) + len(str(value)) for key, value in annotations.items())
    if size > MAX_ANNOTATIONS:
        message = f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        causes.append(StatusCause("FieldValueTooLong", "metadata.annotations", message))
    return causes


def _validate_owners(owners: list[Json]) -> list[StatusCause]:
    causes: list[StatusCause] = []
    controllers: list[str] = []
    for owner in owners:
        field = "metadata.ownerReferences"
        causes += [
            invalid_value(f"{field}.{part}", "", detail)
            for part, detail in _OWNER_PARTS.items()
            if not owner.get(part)
        ]
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        causes.append(
            invalid_value(
                "metadata.ownerReferences",
                owners,
                "Only one reference can have Controller set to true. Found "
                f'"true" in references for {controllers[0]} and {controllers[1]}',
            )
        )
    return causes


def validate_metadata_update(new: Json, old: Json) -> list[StatusCause]:
    """Check that the uid stays, and that terminating objects get no finalizers."""
    causes = [
        invalid_value(f"metadata.{name}", new[name], "field is immutable")
        for name in _IMMUTABLE_FIELDS
        if new.get(name) is not None
        and new[name] != old.get(name)
        and (name == "uid" or name not in old)
    ]
    if old.get("deletionTimestamp") is None:
        return causes
    before = entries(old, "finalizers")
    added = [name for name in entries(new, "finalizers") if name not in before]
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        causes.append(
            forbidden_field(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}",
            )
        )
    return causes
