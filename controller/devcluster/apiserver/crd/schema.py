"""Structural schemas, compiled once: pruning, defaults and validation of custom resources."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from controller.devcluster.apiserver.crd.cel import EvaluationError, Rule, RuleError, compile_rule
from controller.devcluster.apiserver.crd.limits import CHECKED_FORMATS, Limits, json_type
from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.status import (
    StatusCause,
    duplicate,
    invalid_value,
    required,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MISSING: Any = object()
_UNSUPPORTED = ("oneOf", "not", "multipleOf", "uniqueItems")
_ROOT_PARTS = ("apiVersion", "kind", "metadata")


class SchemaError(ValueError):
    """The schema uses something that this server would have to ignore."""


def compile_schema(source: Json) -> Schema:
    """Compile a schema, or find it among those compiled last.

    Raises:
        SchemaError: it uses something unsupported.
    """
    return _compile(msgspec.json.encode(source))


@lru_cache(maxsize=32)
def _compile(encoded: bytes) -> Schema:
    return Schema(msgspec.json.decode(encoded))


class Schema:
    """One node of a structural schema."""

    __slots__ = (
        "_additional",
        "_defaulted",
        "_items",
        "_limits",
        "_list_keys",
        "_list_type",
        "_preserve",
        "_properties",
        "_required",
        "_rules",
        "default_value",
        "has_rules",
        "is_atomic_map",
        "nullable",
    )

    def __init__(self, source: Json, path: str = "") -> None:
        """Compile a schema and everything below it.

        Raises:
            SchemaError: it uses something unsupported.
        """
        _refuse_unsupported(source, path)
        self._limits = Limits.of(source)
        self.nullable = bool(source.get("nullable"))
        self.default_value = msgspec.json.encode(source["default"]) if "default" in source else None
        self._properties = {
            name: Schema(node, f"{path}.{name}".lstrip("."))
            for name, node in child(source, "properties").items()
        }
        additional = source.get("additionalProperties")
        self._additional = (
            Schema(cast("Json", additional), f"{path}.*") if isinstance(additional, dict) else None
        )
        preserve = source.get("x-kubernetes-preserve-unknown-fields")
        self._preserve = bool(preserve) or additional is True
        items = source.get("items")
        self._items = Schema(items, f"{path}[]") if items else None
        self._required: list[str] = entries(source, "required")
        self.is_atomic_map = source.get("x-kubernetes-map-type") == "atomic"
        self._list_type: str = source.get("x-kubernetes-list-type", "")
        self._list_keys: list[str] = entries(source, "x-kubernetes-list-map-keys")
        self._rules = _compile_rules(source, path)
        self.has_rules = bool(self._rules) or any(node.has_rules for node in self._children())
        if source.get("x-kubernetes-embedded-resource"):
            self._preserve_embedded()
        self._defaulted = [
            (name, node, node.default_value)
            for name, node in self._properties.items()
            if node.default_value is not None
        ]

    def _children(self) -> Iterator[Schema]:
        yield from self._properties.values()
        if self._additional:
            yield self._additional
        if self._items:
            yield self._items

    def _preserve_embedded(self) -> None:
        """An embedded object always has a kind and metadata of its own."""
        for name in _ROOT_PARTS:
            self._properties.setdefault(
                name, Schema({"x-kubernetes-preserve-unknown-fields": True})
            )

    @property
    def item_keys(self) -> tuple[str, ...] | None:
        """What identifies items: keys, nothing for sets, None for lists replaced as a whole."""
        if self._list_type == "map":
            return tuple(self._list_keys)
        return () if self._list_type == "set" else None

    @property
    def items(self) -> Schema | None:
        """The schema of list items."""
        return self._items

    def field(self, name: str) -> Schema | None:
        """The schema below a field, if there is one."""
        return self._properties.get(name, self._additional)

    def prune_root(self, object_: Json) -> list[str]:
        """Drop unknown fields of an object in place, not looking at kind and metadata.

        Returns:
            Paths of what was dropped.
        """
        unknown: list[str] = []
        for name in list(object_):
            if name in _ROOT_PARTS:
                continue
            node = self._properties.get(name)
            if node is not None:
                node.prune(object_[name], name, unknown)
            elif not self._preserve:
                unknown.append(name)
                del object_[name]
        return unknown

    def prune(self, value: Any, path: str, unknown: list[str]) -> None:
        """Drop unknown fields below a value in place and note their paths."""
        if isinstance(value, list) and self._items:
            for index, item in enumerate(cast("list[Any]", value)):
                self._items.prune(item, f"{path}[{index}]", unknown)
        elif isinstance(value, dict):
            self._prune_map(cast("Json", value), path, unknown)

    def _prune_map(self, value: Json, path: str, unknown: list[str]) -> None:
        for name in list(value):
            node = self._properties.get(name, self._additional)
            if node is not None:
                node.prune(value[name], f"{path}.{name}", unknown)
            elif not self._preserve:
                unknown.append(f"{path}.{name}")
                del value[name]

    def default(self, value: Any) -> None:
        """Fill in defaults below a value, in place; nulls count as missing where not allowed."""
        if isinstance(value, dict):
            self._default_map(cast("Json", value))
        elif isinstance(value, list) and self._items:
            for item in cast("list[Any]", value):
                self._items.default(item)

    def _default_map(self, value: Json) -> None:
        for name, item in list(value.items()):
            node = self._properties.get(name, self._additional)
            if node is None:
                continue
            if item is None and not node.nullable:
                del value[name]
            else:
                node.default(item)
        for name, node, encoded in self._defaulted:
            if name not in value:
                value[name] = msgspec.json.decode(encoded)
                node.default(value[name])

    def validate_root(
        self, object_: Json, old: Json | None, found: Iterable[StatusCause] = ()
    ) -> list[StatusCause]:
        """All that is wrong with an object, not looking at kind and metadata.

        Args:
            object_: the object, pruned and with defaults.
            old: its version before, if this is an update: what did not change is not judged
                again, and transition rules compare with it.
            found: what was found to be wrong before; it comes first.
        """
        causes = list(found)
        before: Any = _MISSING if old is None else old
        self._validate_map(object_, before, "", causes)
        if not self.has_rules:
            return causes
        if all(cause.reason in _HARMLESS for cause in causes):
            self.check_rules(object_, before, "", causes)
        else:
            causes.append(_RULES_UNCHECKED)
        return causes

    def check_rules(self, value: Any, old: Any, path: str, causes: list[StatusCause]) -> None:
        """Note the rules that do not hold for a value and below it."""
        if not self.has_rules or value is None or (old is not _MISSING and old == value):
            return
        self._check_own_rules(value, old, path, causes)
        if isinstance(value, dict):
            before = cast("Json", old) if isinstance(old, dict) else {}
            for name, item in cast("Json", value).items():
                node = self._properties.get(name, self._additional)
                if node is not None and (path or name not in _ROOT_PARTS):
                    node.check_rules(item, before.get(name, _MISSING), _join(path, name), causes)
        elif isinstance(value, list) and self._items:
            known = self._by_key(old)
            for index, item in enumerate(cast("list[Any]", value)):
                before = known.get(self._key(item) or "", _MISSING)
                self._items.check_rules(item, before, f"{path}[{index}]", causes)

    def validate(self, value: Any, old: Any, path: str, causes: list[StatusCause]) -> None:
        """Note all that is wrong with a value; `old` is its version before, if there is one."""
        if old is not _MISSING and old == value:
            return
        if value is None and self.nullable:
            return
        found, fits = self._limits.check(value, path)
        causes += found
        if not fits:
            return
        if isinstance(value, dict):
            self._validate_map(cast("Json", value), old, path, causes)
        elif isinstance(value, list):
            self._validate_list(cast("list[Any]", value), old, path, causes)

    def _validate_map(self, value: Json, old: Any, path: str, causes: list[StatusCause]) -> None:
        before: Json = cast("Json", old) if isinstance(old, dict) else {}
        causes += [required(_join(path, name)) for name in self._required if name not in value]
        for name, item in value.items():
            if not path and name in _ROOT_PARTS:
                continue
            node = self._properties.get(name, self._additional)
            if node is not None:
                node.validate(item, before.get(name, _MISSING), _join(path, name), causes)

    def _validate_list(
        self, value: list[Any], old: Any, path: str, causes: list[StatusCause]
    ) -> None:
        before = self._by_key(old)
        seen: set[str] = set()
        for index, item in enumerate(value):
            place = f"{path}[{index}]"
            key = self._key(item)
            if key is not None:
                if key in seen:
                    causes.append(duplicate(place, self._shown_key(item)))
                seen.add(key)
            if self._items:
                known = _MISSING if key is None else before.get(key, _MISSING)
                self._items.validate(item, known, place, causes)

    def _key(self, item: Any) -> str | None:
        """What identifies an item of a set or map list; None for other lists."""
        if self._list_type == "set":
            return shown(item)
        if self._list_type == "map" and isinstance(item, dict):
            return shown(self._shown_key(item))
        return None

    def _shown_key(self, item: Any) -> Any:
        if self._list_type == "set":
            return item
        entry = cast("Json", item)
        return {key: entry[key] for key in self._list_keys if key in entry}

    def _by_key(self, old: Any) -> dict[str, Any]:
        if not isinstance(old, list) or not self._list_type:
            return {}
        keyed = ((self._key(item), item) for item in cast("list[Any]", old))
        return {key: item for key, item in keyed if key is not None}

    def _check_own_rules(self, value: Any, old: Any, path: str, causes: list[StatusCause]) -> None:
        for rule in self._rules:
            if rule.is_transition and old is _MISSING:
                continue
            try:
                holds = rule.holds(value, old)
            except EvaluationError as error:
                causes.append(invalid_value(path, _kind_of(value), f"{error} evaluating rule"))
                continue
            if not holds:
                causes.append(_broken(rule, value, path))


_HARMLESS = frozenset({"FieldValueInvalid", "FieldValueDuplicate"})
"""What does not keep rules from being checked."""
_RULES_UNCHECKED = StatusCause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def _refuse_unsupported(source: Json, path: str) -> None:
    """Refuse what would be ignored, save the usual way to say `x-kubernetes-int-or-string`."""
    for word in _UNSUPPORTED:
        if word in source:
            raise SchemaError(f"{path}: {word} is not supported")
    if not source.get("x-kubernetes-int-or-string"):
        for word in ("anyOf", "allOf"):
            if word in source:
                raise SchemaError(f"{path}: {word} is not supported")
    if source.get("format", "") not in CHECKED_FORMATS:
        raise SchemaError(f"{path}: format {source['format']} is not supported")


def _compile_rules(source: Json, path: str) -> list[Rule]:
    try:
        return [compile_rule(rule) for rule in source.get("x-kubernetes-validations") or ()]
    except RuleError as error:
        raise SchemaError(f"{path}: {error}") from error


def _broken(rule: Rule, value: Any, path: str) -> StatusCause:
    """A rule that does not hold; structures are not quoted."""
    quoted = "" if isinstance(value, (dict, list)) else f"{shown(value)}: "
    return StatusCause(rule.reason, path, f"Invalid value: {quoted}{rule.message}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind_of(value: Any) -> Any:
    """How rule violations quote a value: structures by their type only."""
    return json_type(value) if isinstance(value, (dict, list)) else value
