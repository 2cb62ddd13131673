"""Structural schemas, compiled once: pruning, defaults and validation of custom resources."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from controller.devcluster.apiserver.crd.cel import EvaluationError, Rule, RuleError, compile_rule
from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.status import (
    Cause,
    duplicate,
    invalid_type,
    invalid_value,
    required,
    shown,
    unsupported_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_MISSING: Any = object()
_UNSUPPORTED = ("oneOf", "not", "multipleOf", "uniqueItems")
_ROOT_PARTS = ("apiVersion", "kind", "metadata")


class SchemaError(ValueError):
    """The schema uses something that this server would have to ignore."""


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


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
        "_any_of",
        "_defaulted",
        "_enum",
        "_formats",
        "_items",
        "_list_keys",
        "_list_type",
        "_preserve",
        "_properties",
        "_range",
        "_required",
        "_rules",
        "_size",
        "_text",
        "_type",
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
        for word in _UNSUPPORTED:
            if word in source:
                raise SchemaError(f"{path}: {word} is not supported")
        self._type: str = "int-or-string" if _is_int_or_string(source) else source.get("type", "")
        self.nullable = bool(source.get("nullable"))
        self.default_value = msgspec.json.encode(source["default"]) if "default" in source else None
        self._enum: list[Any] | None = source.get("enum")
        self._properties = {
            name: Schema(child, f"{path}.{name}".lstrip("."))
            for name, child in child(source, "properties").items()
        }
        self._preserve = bool(source.get("x-kubernetes-preserve-unknown-fields"))
        additional = source.get("additionalProperties")
        self._additional = (
            Schema(cast("Json", additional), f"{path}.*") if isinstance(additional, dict) else None
        )
        self._preserve = self._preserve or additional is True
        items = source.get("items")
        self._items = Schema(items, f"{path}[]") if items else None
        self._required: list[str] = entries(source, "required")
        self._range = (
            source.get("minimum"),
            bool(source.get("exclusiveMinimum")),
            source.get("maximum"),
            bool(source.get("exclusiveMaximum")),
        )
        self._size = tuple(
            source.get(word) for word in ("minItems", "maxItems", "minProperties", "maxProperties")
        )
        self._text = (source.get("minLength"), source.get("maxLength"), source.get("pattern"))
        self._formats: str = source.get("format", "")
        self.is_atomic_map = source.get("x-kubernetes-map-type") == "atomic"
        self._list_type: str = source.get("x-kubernetes-list-type", "")
        self._list_keys: list[str] = source.get("x-kubernetes-list-map-keys") or []
        self._any_of: list[list[str]] = [
            entries(branch, "required") for branch in entries(source, "anyOf")
        ]
        if self._type == "int-or-string":
            self._any_of = []
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
            child = self._properties.get(name)
            if child is not None:
                child.prune(object_[name], name, unknown)
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
            child = self._properties.get(name, self._additional)
            if child is not None:
                child.prune(value[name], f"{path}.{name}", unknown)
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

    def validate_root(self, object_: Json, old: Json | None) -> list[Cause]:
        """All that is wrong with an object, not looking at kind and metadata.

        Args:
            object_: the object, pruned and with defaults.
            old: its version before, if this is an update: what did not change is not judged
                again, and transition rules compare with it.
        """
        causes: list[Cause] = []
        before: Any = _MISSING if old is None else old
        self._validate_map(object_, before, "", causes)
        if not self.has_rules:
            return causes
        if all(cause.reason in _HARMLESS for cause in causes):
            self.check_rules(object_, before, "", causes)
        else:
            causes.append(_RULES_UNCHECKED)
        return causes

    def check_rules(self, value: Any, old: Any, path: str, causes: list[Cause]) -> None:
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

    def validate(self, value: Any, old: Any, path: str, causes: list[Cause]) -> None:
        """Note all that is wrong with a value; `old` is its version before, if there is one."""
        if old is not _MISSING and old == value:
            return
        if value is None and self.nullable:
            return
        wrong = self._wrong_type(value)
        if wrong:
            causes.append(_wrong_type_cause(path, value, wrong))
            return
        if self._enum is not None and value not in self._enum:
            causes.append(unsupported_value(path, value, self._enum))
        if isinstance(value, str):
            self._validate_text(value, path, causes)
        elif isinstance(value, dict):
            self._validate_map(cast("Json", value), old, path, causes)
        elif isinstance(value, list):
            self._validate_list(cast("list[Any]", value), old, path, causes)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._validate_number(value, path, causes)

    def _wrong_type(self, value: Any) -> str:
        """The expected type if a value is not of it."""
        if self._type == "int-or-string":
            fits = isinstance(value, (int, str)) and not isinstance(value, bool)
            return "" if fits else "integer,string"
        if not self._type and value is not None:
            return ""
        return "" if _json_type(value) in _FITTING.get(self._type, {self._type}) else self._type

    def _validate_text(self, value: str, path: str, causes: list[Cause]) -> None:
        shortest, longest, pattern = self._text
        if longest is not None and len(value) > longest:
            message = f"Too long: may not be more than {longest} bytes"
            causes.append(Cause("FieldValueTooLong", path, message))
        elif shortest is not None and len(value) < shortest:
            detail = f"{path} in body should be at least {shortest} chars long"
            causes.append(invalid_value(path, value, detail))
        elif pattern and not _pattern(pattern).search(value):
            causes.append(invalid_value(path, value, f"{path} in body should match '{pattern}'"))
        elif self._formats == "date-time" and not _DATE_TIME.fullmatch(value):
            detail = f"{path} in body must be of type date-time: {shown(value)}"
            causes.append(invalid_type(path, value, detail))

    def _validate_number(self, value: float, path: str, causes: list[Cause]) -> None:
        low, low_open, high, high_open = self._range
        if low is not None and (value < low or (low_open and value == low)):
            words = "greater than" if low_open else "greater than or equal to"
            causes.append(invalid_value(path, value, f"{path} in body should be {words} {low}"))
        if high is not None and (value > high or (high_open and value == high)):
            words = "less than" if high_open else "less than or equal to"
            causes.append(invalid_value(path, value, f"{path} in body should be {words} {high}"))
        bits = {"int32": 31, "int64": 63}.get(self._formats)
        if bits and not -(2**bits) <= value < 2**bits:
            detail = f"{path} in body must be of type {self._formats}: {shown(shown(value))}"
            causes.append(invalid_value(path, value, detail))

    def _validate_map(self, value: Json, old: Any, path: str, causes: list[Cause]) -> None:
        before: Json = cast("Json", old) if isinstance(old, dict) else {}
        causes += [required(_join(path, name)) for name in self._required if name not in value]
        _, _, fewest, most = self._size
        if fewest is not None and len(value) < fewest:
            detail = f"{path} in body should have at least {fewest} properties"
            causes.append(invalid_value(path, len(value), detail))
        if most is not None and len(value) > most:
            message = f"Too many: {len(value)}: must have at most {most} items"
            causes.append(Cause("FieldValueTooMany", path, message))
        for name, item in value.items():
            if not path and name in _ROOT_PARTS:
                continue
            child = self._properties.get(name, self._additional)
            if child is not None:
                child.validate(item, before.get(name, _MISSING), _join(path, name), causes)

    def _validate_list(self, value: list[Any], old: Any, path: str, causes: list[Cause]) -> None:
        fewest, most, _, _ = self._size
        if fewest is not None and len(value) < fewest:
            detail = f"{path} in body should have at least {fewest} items"
            causes.append(invalid_value(path, len(value), detail))
        if most is not None and len(value) > most:
            message = f"Too many: {len(value)}: must have at most {most} items"
            causes.append(Cause("FieldValueTooMany", path, message))
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

    def _check_own_rules(self, value: Any, old: Any, path: str, causes: list[Cause]) -> None:
        for rule in self._rules:
            if rule.is_transition and old is _MISSING:
                continue
            try:
                holds = rule.holds(value, old)
            except EvaluationError as error:
                causes.append(invalid_value(path, _kind_of(value), f"{error} evaluating rule"))
                continue
            if not holds:
                cause = invalid_value(path, _kind_of(value), rule.message)
                causes.append(Cause(rule.reason, cause.field, cause.message))


_HARMLESS = frozenset({"FieldValueInvalid", "FieldValueDuplicate"})
"""What does not keep rules from being checked."""
_RULES_UNCHECKED = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_FITTING = {"number": {"number", "integer"}}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _is_int_or_string(source: Json) -> bool:
    return bool(source.get("x-kubernetes-int-or-string"))


def _compile_rules(source: Json, path: str) -> list[Rule]:
    try:
        return [compile_rule(rule) for rule in source.get("x-kubernetes-validations") or ()]
    except RuleError as error:
        raise SchemaError(f"{path}: {error}") from error


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if value is None:
        return "null"
    return {str: "string", dict: "object", list: "array"}[type(value)]


def _kind_of(value: Any) -> Any:
    """How rule violations quote a value: structures by their type only."""
    return _json_type(value) if isinstance(value, (dict, list)) else value


def _wrong_type_cause(path: str, value: Any, expected: str) -> Cause:
    found = _json_type(value)
    return Cause(
        "FieldValueTypeInvalid",
        path,
        f"Invalid value: {shown(found)}: {path} in body must be of type {expected}: {shown(found)}",
    )
