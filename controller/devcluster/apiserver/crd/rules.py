"""Checks the CEL rules of a schema (`x-kubernetes-validations`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from controller.devcluster.apiserver.crd.cel import EvaluationError
from controller.devcluster.apiserver.crd.limits import json_type
from controller.devcluster.apiserver.crd.schema import ROOT_PARTS
from controller.devcluster.apiserver.protocol.status import StatusCause, invalid_value, shown

if TYPE_CHECKING:
    from controller.devcluster.apiserver.crd.cel import Rule
    from controller.devcluster.apiserver.crd.schema import Schema
    from controller.devcluster.apiserver.jsondata import Json

MISSING: Final[Any] = object()
"""Stands for the old version of a new value."""


def join(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def check_rules(schema: Schema, value: Any, old: Any, path: str, causes: list[StatusCause]) -> None:
    """Append the rules that do not hold for a value and its parts."""
    if not schema.has_rules or value is None or (old is not MISSING and old == value):
        return
    _check_own_rules(schema, value, old, path, causes)
    if isinstance(value, dict):
        before = cast("Json", old) if isinstance(old, dict) else {}
        for name, item in cast("Json", value).items():
            node = schema.field(name)
            if node is not None and (path or name not in ROOT_PARTS):
                check_rules(node, item, before.get(name, MISSING), join(path, name), causes)
    elif isinstance(value, list) and schema.items:
        known = schema.by_key(old)
        for index, item in enumerate(cast("list[Any]", value)):
            before = known.get(schema.key_of(item) or "", MISSING)
            check_rules(schema.items, item, before, f"{path}[{index}]", causes)


def _check_own_rules(
    schema: Schema, value: Any, old: Any, path: str, causes: list[StatusCause]
) -> None:
    for rule in schema.rules:
        if rule.is_transition and old is MISSING:
            continue
        try:
            holds = rule.holds(value, old)
        except EvaluationError as error:
            causes.append(invalid_value(path, _kind_of(value), f"{error} evaluating rule"))
            continue
        if not holds:
            causes.append(_broken(rule, value, path))


def _broken(rule: Rule, value: Any, path: str) -> StatusCause:
    """Return the cause for a rule that does not hold; structures are not quoted."""
    quoted = "" if isinstance(value, (dict, list)) else f"{shown(value)}: "
    return StatusCause(rule.reason, path, f"Invalid value: {quoted}{rule.message}")


def _kind_of(value: Any) -> Any:
    """Quote a value as rule violations do: structures by their type only."""
    return json_type(value) if isinstance(value, (dict, list)) else value
