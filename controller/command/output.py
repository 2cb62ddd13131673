"""What a command reads and prints: objects and options by name, lines or JSON, without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from string import ascii_lowercase
from typing import Any, Final, TextIO, cast

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.kube.errors import ConfigurationError
from controller.kube.resources import Resource

_STYLES: Final = {
    "bold": "1", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36",
}  # fmt: skip


class CommandOutput:
    """Writes lines, in colour on a terminal that wants it, or only documents `as_json`."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self._stream = stream
        self._as_json = as_json
        self.coloured = stream.isatty() and "NO_COLOR" not in os.environ

    def line(self, text: str, style: str = "") -> None:
        """Print one line of text; `style` is a colour or `bold`."""
        if not self._as_json:
            self._write(self.styled(text, style))

    def styled(self, text: str, style: str) -> str:
        """Return the text in this style, if lines may have colours."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self.coloured else text

    def table(self, rows: Sequence[Sequence[str]], *, highlighted: int | None = None) -> None:
        """Print columns as kubectl aligns them; the first row is the heading."""
        for number, line in enumerate(aligned(rows)):
            style = "green" if number == highlighted else "bold" if number == 0 else ""
            self.line(line, style)

    def document(self, value: Any, *, in_one_line: bool = False) -> None:
        """Print the value as JSON."""
        if self._as_json:
            encoded = msgspec.json.encode(value)
            text = encoded if in_one_line else msgspec.json.format(encoded, indent=2)
            self._write(text.decode())

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines whose columns begin at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def duration(seconds: float) -> str:
    """Return `45 s`, `12 min`, `1 h 20 min`, `3 d 4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours >= 48:
        days, hours = divmod(hours, 24)
        return f"{days} d {hours} h" if hours else f"{days} d"
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


# The words of a command line: the object that it is about, `KIND/NAME`, and names of options.

_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
"""A kind or a name: no part of a path or of a query, which would lead to another object."""


def parse_target(
    words: Sequence[str], resources: Collection[Resource[Any]], participle: str
) -> tuple[Resource[Any], str]:
    """Read `KIND/NAME` or `KIND NAME`, of the kinds that the command knows.

    The participle says what the command does to them, to refuse others: `rolled out`.

    Raises:
        ConfigurationError: it is something else, or there is no such kind.
    """
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(map(_PART.fullmatch, parts)):
        kind = next(iter(resources)).kind.lower()
        name = parts[0] if len(parts) == 1 and _PART.fullmatch(parts[0]) else "example"
        raise ConfigurationError(
            f"{' '.join(words)!r} names no object; write {kind}/NAME, for example {kind}/{name}"
        )
    return parse_kind(parts[0], resources, participle), parts[1]


def parse_kind(word: str, resources: Collection[Resource[Any]], participle: str) -> Resource[Any]:
    """Return the kind of `RayCluster`, `rayclusters`, `rayclusters.ray.io` and the like.

    Raises:
        ConfigurationError: there is none; the message names the nearest one.
    """
    name, _, group = word.lower().partition(".")
    for resource in resources:
        if name in {resource.kind.lower(), resource.plural} and (
            group.removeprefix(f"{resource.version}.") in {"", resource.group}
        ):
            return resource
    kinds = [each.kind.lower() for each in resources]
    raise ConfigurationError(
        f"{word!r} cannot be {participle}; {', '.join(kinds[:-1])} and {kinds[-1]} can"
        f"{suggestion(name.removesuffix('s'), kinds) or f'; an object is {kinds[0]}/{name}'}"
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean KNOWN?`; empty if nothing is near."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def with_option(error: ValueError, options: Mapping[str, str]) -> str:
    """Return the text of an error of `Settings` with the option in place of the setting."""
    text = str(error)
    setting = text[: len(text) - len(text.lstrip(f"{ascii_lowercase}_"))]
    return options.get(setting, setting) + text.removeprefix(setting)


# Takes secrets out of objects and texts before they are shown to others.
#
# What looks like a secret is one: a value too few can be asked for, one too many is out.

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
