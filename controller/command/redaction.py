"""Takes secrets out of objects and texts before they are shown to others.

What looks like a secret is one: a value too few can be asked for, one too many is out.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from controller.apimachinery.custom_object import mapping

REDACTED: Final = "<redacted>"

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_WORDS: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|api[_.-]?key|access[_.-]?key|account[_.-]?key|"
    r"private[_.-]?key|encryption[_.-]?key|signing[_.-]?key|auth[_.-]?key|credentials?|cookie|"
    r"connection[_.-]?string|dsn"
)
_NAME: Final = re.compile(rf"(?i)(?:{_WORDS})s?$|^authorization$|^auth$")
"""The end of the name of a field whose value is a secret: `secretName` names one only."""
_VARIABLE: Final = re.compile(rf"(?i){_WORDS}|(?:^|_)(?:key|auth|pat|pass)$")
"""In the name of an environment variable."""
_IN_TEXT: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), REDACTED),
    (re.compile(r"(://)[^/\s@\"']*:[^/\s@\"']+@"), rf"\1{REDACTED}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"), REDACTED),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}"), REDACTED),
    (
        re.compile(
            r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|sk_live_|xox[a-z]-|npm_|dop_v1_)[\w-]{10,}"
        ),
        REDACTED,
    ),
    (
        re.compile(r"(?i)([?&][\w-]*(?:sig|signature|token|key|credential)=)[^&\s\"']+"),
        rf"\1{REDACTED}",
    ),
    (
        re.compile(
            rf"(?i)((?:\b|[\w-])[\w.-]*(?:{_WORDS})s?[\\\"']*\s*[:=]\s*[\\\"']*|"
            rf"--?[\w-]*(?:{_WORDS})\s+[\\\"']*)(?!{REDACTED})(?!(?:true|false|null)\b)"
            r"[^\s\\\"',;&}]+"
        ),
        rf"\1{REDACTED}",
    ),
)


class Redaction:
    """Redacts, and counts how many values were taken out."""

    def __init__(self) -> None:
        self.count = 0

    def text(self, text: str) -> str:
        """Return the text without passwords, tokens and keys that can be recognised."""
        for pattern, put in _IN_TEXT:
            text, times = pattern.subn(put, text)
            self.count += times
        return text

    def object(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object of the API without secrets, and without its last manifest."""
        found = cast("dict[str, Any]", self._value(obj))
        if obj.get("kind") == "Secret":
            for field in ("data", "stringData"):
                found |= (
                    {field: {key: self._out() for key in mapping(obj[field])}}
                    if field in obj
                    else {}
                )
        notes = mapping(mapping(found.get("metadata")).get("annotations"))
        if _APPLIED in notes:
            notes[_APPLIED] = self._out()
        return found

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                items = cast("list[Any]", value)
                return [self._value(each) for each in self._arguments(items)]
            case dict():
                fields = cast("dict[str, Any]", value)
                if isinstance(fields.get("name"), str) and isinstance(fields.get("value"), str):
                    return self._variable(fields)
                return {
                    name: self._out() if self._is_secret(name, each) else self._value(each)
                    for name, each in fields.items()
                }
            case _:
                return value

    def _variable(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Redact one environment variable."""
        if fields["value"] and _VARIABLE.search(fields["name"]):
            return fields | {"value": self._out()}
        return fields | {"value": self.text(fields["value"])}

    def _arguments(self, items: list[Any]) -> list[Any]:
        """Redact the word after an option such as `--password`."""
        options = [
            isinstance(each, str) and each.startswith("-") and _NAME.search(each) for each in items
        ]
        return [
            self._out() if number and options[number - 1] and isinstance(each, str) else each
            for number, each in enumerate(items)
        ]

    def _is_secret(self, name: str, value: Any) -> bool:
        return isinstance(value, str) and bool(value) and bool(_NAME.search(name))

    def _out(self) -> str:
        self.count += 1
        return REDACTED
