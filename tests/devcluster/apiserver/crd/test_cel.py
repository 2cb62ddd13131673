"""The supported part of CEL, and that the rest is refused."""

from __future__ import annotations

import pytest

from devcluster.apiserver.crd.cel import EvaluationError, RuleError, compile_rule


def holds(text: str, value, old=None) -> bool:
    return compile_rule({"rule": text}).holds(value, old)


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("self == 'a'", "a", True),
        ("self != 'a'", "a", False),
        ('self in ["a", "b"]', "b", True),
        ("self in ['a']", "b", False),
        ("has(self.a)", {"a": None}, False),
        ("has(self.a.b)", {"a": {}}, False),
        ("!has(self.a) || self.a > 3", {}, True),
        ("!has(self.a) || self.a > 3", {"a": 3}, False),
        ("self.a <= self.b", {"a": 1, "b": 1}, True),
        ("self.a < 1.5 && self.a >= 1", {"a": 1}, True),
        ("self.matches('^[a-z]+$')", "ab", True),
        ("self.matches('^[a-z]+$')", "aB", False),
        ("self.startsWith('@') || !self.contains('TZ')", "TZ=UTC", False),
        ("size(self.a) == 2", {"a": [1, 2]}, True),
        ("(has(self.a) && has(self.b)) || has(self.c)", {"c": 1}, True),
        ("!(has(self.a) && has(self.b))", {"a": 1, "b": 2}, False),
        ("self.a == true", {"a": True}, True),
        ("self == 'it\\'s'", "it's", True),
    ],
)
def test_rules(rule, value, expected):
    assert holds(rule, value) is expected


def test_a_rule_about_the_old_value_is_a_transition_rule():
    rule = compile_rule({"rule": "self == oldSelf", "message": "no"})
    assert rule.is_transition
    assert rule.message == "no"
    assert rule.holds("a", "a")
    assert not rule.holds("a", "b")
    assert not compile_rule({"rule": "self == 'a'"}).is_transition


def test_the_rule_is_its_own_message():
    assert compile_rule({"rule": "self == 'a'"}).message == "failed rule: self == 'a'"


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "self ==",
        "self.all(x, x > 1)",
        "self.endsWith('a')",
        "self + 1 == 2",
        "other == 1",
        "has(self)",
        "self == 'a' 'b'",
        "self[0] == 1",
        "self ? 1 : 2",
        "self and self",
        "not self",
    ],
)
def test_what_is_not_supported_is_refused(rule):
    with pytest.raises(RuleError, match="is outside the supported part of CEL"):
        compile_rule({"rule": rule})


def test_unsupported_properties_of_a_rule_are_refused():
    with pytest.raises(RuleError, match="optionalOldSelf"):
        compile_rule({"rule": "self == oldSelf", "optionalOldSelf": True})


@pytest.mark.parametrize(("rule", "value"), [("self.a == 1", {}), ("self.a < 1", {"a": "x"})])
def test_a_rule_that_cannot_be_evaluated_says_so(rule, value):
    with pytest.raises(EvaluationError):
        holds(rule, value)
