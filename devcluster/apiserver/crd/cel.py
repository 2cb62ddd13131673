"""Validation rules in the small part of CEL that the operator's definitions use.

Supported are `self`, `oldSelf`, member access, `has()`, `size()`, a few methods,
literals and lists of them, `in`, comparisons, `!`, `&&`, `||` and parentheses. Anything else is
refused when the definition is created, so that no rule is ever silently ignored.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from keyword import iskeyword
from typing import Any, NamedTuple, cast

Value = Callable[[Mapping[str, Any]], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\|\||&&|==|!=|<=|>=|[!<>()\[\],.]))"
)
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
}
_PYTHON = {"&&": "and", "||": "or", "!": "not", "true": "True", "false": "False", "null": "None"}
"""Words of CEL that Python writes otherwise."""
_VARIABLES = {"self", "oldSelf"}
_ESCAPED, _ITSELF = re.compile(r"\\(.)"), r"\1"


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
        is_transition: whether it compares with the old value and so holds for updates only.
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
    compiler = _Compiler(text)
    evaluate = compiler.whole()
    message = rule.get("message") or f"failed rule: {text}"
    return Rule(
        text,
        message,
        rule.get("reason") or "FieldValueInvalid",
        "oldSelf" in compiler.used,
        evaluate,
    )


def _in_python(text: str) -> str:
    """Return an expression of CEL with Python's operators and constants, empty if it has others."""
    words: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or (match["name"] != "in" and iskeyword(match["name"] or "")):
            return ""
        word = match[str(match.lastgroup)]
        if match["string"]:
            word = f"({_ESCAPED.sub(_ITSELF, word[1:-1])!r})"
        words.append(_PYTHON.get(word, word))
        position = match.end()
    return " ".join(words)


class _Compiler:
    """Compiles one rule, whose syntax is Python's but for `_PYTHON`.

    Attributes:
        used: the variables that it reads.
    """

    def __init__(self, text: str) -> None:
        self.used: set[str] = set()
        self._text = text

    def whole(self) -> Value:
        """Compile the rule.

        Raises:
            RuleError: it is outside the supported part.
        """
        try:
            return self._value(ast.parse(_in_python(self._text), mode="eval").body)
        except SyntaxError:
            raise self._unsupported() from None

    def _unsupported(self) -> RuleError:
        return RuleError(f"rule {self._text!r} is outside the supported part of CEL")

    def _value(self, node: ast.expr) -> Value:  # noqa: PLR0911  a line for each form
        match node:
            case ast.BoolOp(op, values):
                terms = [self._value(each) for each in values]
                combine = all if isinstance(op, ast.And) else any
                return lambda scope: combine(term(scope) for term in terms)
            case ast.UnaryOp(ast.Not(), operand):
                negated = self._value(operand)
                return lambda scope: not negated(scope)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return _constant(-number)
            case ast.Compare(first, [sign], [second]) if type(sign) in _COMPARISONS:
                compare, left, right = _COMPARISONS[type(sign)], *map(self._value, (first, second))
                return lambda scope: _compare(compare, left(scope), right(scope))
            case ast.Attribute(holder, name):
                return _member(self._value(holder), name)
            case ast.Call(func, [argument], []):
                return self._call(func, argument)
            case ast.List(elements):
                items = [self._value(each) for each in elements]
                return lambda scope: [item(scope) for item in items]
            case ast.Constant(value):
                return _constant(value)
            case ast.Name(name) if name in _VARIABLES:
                self.used.add(name)
                return lambda scope: scope[name]
            case _:
                raise self._unsupported()

    def _call(self, function: ast.expr, argument: ast.expr) -> Value:
        match function, argument:
            case ast.Name("has"), ast.Attribute(holder, name):
                place = self._value(holder)
                return lambda scope: place(scope).get(name) is not None  # null counts as absent
            case ast.Name("size"), _:
                value = self._value(argument)
                return lambda scope: len(value(scope))
            case ast.Attribute(holder, name), _ if name in _METHODS:
                value, given = self._value(holder), self._value(argument)
                return lambda scope: _METHODS[name](value(scope), given(scope))
            case _:
                raise self._unsupported()


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
