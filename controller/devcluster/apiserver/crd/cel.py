"""Validation rules in the small part of CEL that the operator's definitions use.

Supported are `self`, `oldSelf`, member access, `has()`, `size()`, a few methods,
literals and lists of them, `in`, comparisons, `!`, `&&`, `||` and parentheses. Anything else is
refused when the definition is created, so that no rule is ever silently ignored.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Value = Callable[[Mapping[str, Any]], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\|\||&&|==|!=|<=|>=|[!<>()\[\],.]))"
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONSTANTS = {"true": True, "false": False, "null": None}
_VARIABLES = {"self", "oldSelf"}


class RuleError(ValueError):
    """The rule is outside the supported part of CEL."""


class EvaluationError(Exception):
    """The rule cannot be evaluated for a value."""


_METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "contains": lambda text, part: part in text,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "startsWith": lambda text, prefix: text.startswith(prefix),
}
"""Methods with one argument."""


class Rule(NamedTuple):
    """A compiled rule.

    Attributes:
        text: the rule as written.
        message: message when it does not hold.
        reason: cause type to report.
        is_transition: whether it compares with the old value and so holds for updates only.
        evaluate: takes `self` and `oldSelf` by name.
    """

    text: str
    message: str
    reason: str
    is_transition: bool
    evaluate: Value

    def holds(self, value: Any, old: Any) -> bool:
        """Return whether a value satisfies the rule."""
        return bool(self.evaluate({"self": value, "oldSelf": old}))


def compile_rule(rule: Mapping[str, Any]) -> Rule:
    """Compile one entry of `x-kubernetes-validations`.

    Raises:
        RuleError: unsupported.
    """
    text = str(rule.get("rule", ""))
    unknown = rule.keys() - {"rule", "message", "reason", "fieldPath"}
    if unknown:
        raise RuleError(f"{', '.join(sorted(unknown))} of a rule is not supported")
    parser = _Parser(text)
    evaluate = parser.whole()
    message = rule.get("message") or f"failed rule: {text}"
    return Rule(
        text, message, rule.get("reason") or "FieldValueInvalid", "oldSelf" in parser.used, evaluate
    )


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._at = 0
        self.used: set[str] = set()

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        position = 0
        end = len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._unsupported()
            kind = str(match.lastgroup)
            tokens.append((kind, match.group(kind)))
            position = match.end()
        return tokens

    def _unsupported(self) -> RuleError:
        return RuleError(f"rule {self._text!r} is outside the supported part of CEL")

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, expected: str = "") -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._unsupported()
        kind, text = self._tokens[self._at]
        if expected and text != expected:
            raise self._unsupported()
        self._at += 1
        return kind, text

    def whole(self) -> Value:
        """Parse the whole rule."""
        value = self._or()
        if self._at != len(self._tokens):
            raise self._unsupported()
        return value

    def _or(self) -> Value:
        terms = self._operands("||", self._and)
        return terms[0] if len(terms) == 1 else lambda scope: any(term(scope) for term in terms)

    def _and(self) -> Value:
        terms = self._operands("&&", self._comparison)
        return terms[0] if len(terms) == 1 else lambda scope: all(term(scope) for term in terms)

    def _operands(self, operator: str, operand: Callable[[], Value]) -> list[Value]:
        """Return the operands of a chain of one operator; one if the operator is absent."""
        operands = [operand()]
        while self._peek() == operator:
            self._take()
            operands.append(operand())
        return operands

    def _comparison(self) -> Value:
        left = self._unary()
        sign = self._peek()
        if sign == "in":
            self._take()
            container = self._unary()
            return lambda scope: left(scope) in container(scope)
        compare = _COMPARISONS.get(sign)
        if compare is None:
            return left
        self._take()
        right = self._unary()
        return lambda scope: _compare(compare, left(scope), right(scope))

    def _unary(self) -> Value:
        if self._peek() == "!":
            self._take()
            negated = self._unary()
            return lambda scope: not negated(scope)
        value = self._primary()
        while self._peek() == ".":
            self._take()
            name = self._name()
            value = self._method(value, name) if self._peek() == "(" else _member(value, name)
        return value

    def _method(self, value: Value, name: str) -> Value:
        if name not in _METHODS:
            raise self._unsupported()
        self._take("(")
        argument = self._or()
        self._take(")")
        return lambda scope: _METHODS[name](value(scope), argument(scope))

    def _name(self) -> str:
        kind, name = self._take()
        if kind != "name":
            raise self._unsupported()
        return name

    def _primary(self) -> Value:
        kind, text = self._take()
        if kind == "string":
            return _constant(re.sub(r"\\(.)", r"\1", text[1:-1]))
        if kind == "number":
            return _constant(float(text) if "." in text else int(text))
        return self._name_or_group(text)

    def _name_or_group(self, text: str) -> Value:
        if text == "(":
            value = self._or()
            self._take(")")
            return value
        if text == "[":
            return self._list()
        if text in _CONSTANTS:
            return _constant(_CONSTANTS[text])
        if text in {"has", "size"} and self._peek() == "(":
            return self._call(text)
        if text not in _VARIABLES:
            raise self._unsupported()
        self.used.add(text)
        return lambda scope: scope[text]

    def _list(self) -> Value:
        items: list[Value] = []
        while self._peek() != "]":
            items.append(self._or())
            if self._peek() != "]":
                self._take(",")
        self._take("]")
        return lambda scope: [item(scope) for item in items]

    def _call(self, function: str) -> Value:
        self._take("(")
        if function == "size":
            value = self._or()
            self._take(")")
            return lambda scope: len(value(scope))
        holder = self._primary()
        names: list[str] = []
        while self._peek() == ".":
            self._take()
            names.append(self._name())
        self._take(")")
        if not names:
            raise self._unsupported()
        for name in names[:-1]:
            holder = _member(holder, name)
        return lambda scope: holder(scope).get(names[-1]) is not None  # null counts as absent


def _constant(value: Any) -> Value:
    return lambda _: value


def _member(value: Value, name: str) -> Value:
    def read(scope: Mapping[str, Any]) -> Any:
        holder = value(scope)
        if not isinstance(holder, dict) or name not in holder:
            raise EvaluationError(f"no such key: {name}")
        return cast("dict[str, Any]", holder)[name]

    return read


def _compare(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    try:
        return compare(left, right)
    except TypeError:
        raise EvaluationError("no such overload") from None
