"""Names of objects and adapters, with the messages of Kubernetes."""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_LABEL_SYNTAX: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_SYNTAX: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def label_problem(name: str) -> str:
    """Return why a name is not a DNS label; empty if it is one."""
    return _problem(name, 63, _LABEL, _LABEL_SYNTAX)


def subdomain_problem(name: str) -> str:
    """Return why a name is not a DNS subdomain; empty if it is one."""
    return _problem(name, 253, _SUBDOMAIN, _SUBDOMAIN_SYNTAX)


def derived_problem(name: str, derived: str) -> str:
    """Return why a part of a pod cannot have the name that follows from a user's."""
    problem = label_problem(derived)
    return (
        f"{name} leads to a part of the pod with the name {derived}: {problem}" if problem else ""
    )


def _problem(name: str, limit: int, form: re.Pattern[str], syntax: str) -> str:
    problems: list[str] = []
    if len(name) > limit:
        problems.append(f"must be no more than {limit} characters")
    if not form.fullmatch(name):
        problems.append(syntax)
    return ", ".join(problems)
