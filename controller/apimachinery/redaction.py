"""Removes secrets and colours from program output before it is stored for more people to read.

If in doubt it hides: the stored lines are for a first look, and the full log remains.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, cast

# Folds what varies between two texts of the same meaning: ids, counters, ports, times.

_PLACEHOLDER: Final = "#"

_HEX_GROUPS: Final = re.compile(r"\b(?=[\w:-]*\d)[0-9a-f]+(?:[-:]+[0-9a-f]+)+\b", re.IGNORECASE)
_LONG_HEX: Final = re.compile(r"\b[0-9a-f]{8,}\b", re.IGNORECASE)
_WORD_WITH_DIGIT: Final = re.compile(r"\w*\d\w*")
_JOINED: Final = re.compile(rf"{_PLACEHOLDER}(?:[-.:,/+]{_PLACEHOLDER})+")


def fold(text: str) -> str:
    """Return the text without what varies each time a server reports the same.

    UUIDs, hexadecimal numbers, times, addresses and all other words with a digit become one
    placeholder. Two texts with equal folds mean the same, so users need to see only one.
    """
    for pattern in (_HEX_GROUPS, _LONG_HEX, _WORD_WITH_DIGIT, _JOINED):
        text = pattern.sub(_PLACEHOLDER, text)
    return text


HIDDEN: Final = "[redacted]"

_WORDS: Final = (
    r"passw(?:or)?d|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?key|"
    r"credential|authorization|\bauth\b|signature|session[_-]?id|connection[_-]?string"
)
_SECRET_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
_NAME: Final = rf"(?<![\w.-])(?=(?P<name>[\w.-]+))(?=[\w.-]*?(?:{_WORDS}))(?P=name)"
"""Matches a whole name that contains one of these words.

It starts at a word boundary, and lookaheads never backtrack, so the time for a text grows linearly
with its length. Possessive quantifiers would do the same, but Python before 3.11.5 does not match
them where the repeated part may backtrack.
"""

_PATTERNS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        HIDDEN,
    ),
    (re.compile(r"\A.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=:-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)(://)[^/\s:@]*:[^/\s@]+@"), rf"\1{HIDDEN}@"),
    (
        re.compile(rf"""(?i)({_NAME}["']?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|[^\s,;&"']+)"""),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            rf"""(?i)(\bname["']?\s*:\s*["']?{_NAME}["']?[\s,]+["']?value["']?\s*:\s*)"""
            rf"""("[^"\n]*"|'[^'\n]*'|[^\s,;&"']+)"""
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(rf"(?i)((?=--){_NAME}\s+)(\S+)"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\b(?:gh[pousr]|github_pat|glpat|hf|xox[abprs])[_-][A-Za-z0-9_-]{10,}"), HIDDEN),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), HIDDEN),
)


_SIGNS: Final = (
    *(
        "passw",
        "secret",
        "token",
        "key",
        "credential",
        "auth",
        "signature",
        "session",
        "connection",
    ),
    *("bearer", "basic", "://", "akia", "asia", "gh", "glpat", "hf", "xox", "sk-", "eyj"),
)
"""Each pattern needs one of them in lower case; most lines of a log have none."""


_TERMINAL_CODES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|"
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
"""Colours and other codes for terminals, by which Ray and its users' programs mark errors."""

_PREFIX: Final = re.compile(r"^\((?:[^()]*\bpid=[^()]*|raylet)\) ")
"""What Ray puts before a line that another process printed."""

_EXCEPTION: Final = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|ExceptionGroup|Interrupt|Exit|Timeout)(?:\(\w+\))?(?::|$)"
)
"""The line of an exception, and the one with which click reports a wrong option."""

_HEADER: Final = "Traceback (most recent call last):"

_ERROR: Final = re.compile(
    r"\b(?:error|fatal|panic|killed|not found|no such file|denied|unexpected EOF)\b", re.IGNORECASE
)

_ANNOUNCEMENT: Final = re.compile(r", last available logs \(.*\)$")
"""What Ray says before it quotes the log of a job."""

_LONGEST_LINE: Final = 500


def plain(text: str) -> str:
    """Return the text without codes for terminals; a line that was overwritten is one of many."""
    return _TERMINAL_CODES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def redact(text: str) -> str:
    """Return the text without colours, and passwords, tokens and keys in their usual notations."""
    text = plain(text)
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redact_fields(value: Any) -> Any:
    """Return plain data without secrets in texts and in fields with the name of a secret."""
    match value:
        case str():
            return redact(value)
        case dict():
            fields = cast("dict[str, Any]", value)
            variable = is_secret(str(fields.get("name", "")))
            return {
                name: HIDDEN
                if inner is not None
                and not isinstance(inner, bool)
                and (is_secret(name) or (variable and name == "value"))
                else redact_fields(inner)
                for name, inner in fields.items()
            }
        case list() | tuple():
            return [redact_fields(each) for each in cast("list[Any]", value)]
        case _:
            return value


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Return whether a field or variable of this name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def excerpt(text: str, *, characters: int) -> str:
    """Return the redacted text, without the middle if it is long, and always with its error.

    Errors are usually at the end, unless other output follows.
    """
    full = redact(text)
    if len(full) <= characters:
        return full
    gap = "\n...\n"
    start = characters // 4
    short = full[:start] + gap + full[start + len(gap) - characters :]
    error = _error_line(full)
    if error in short or len(error) > characters // 4:
        return short
    kept = f"{full[:start]}{gap}{error}{gap}"
    return kept + full[len(kept) - characters :]


def in_short(text: str) -> str:
    """Return one line of an error: what happened, and the exception of its last traceback."""
    hidden = redact(text)
    lines = [line.strip() for line in hidden.splitlines() if line.strip(" .\t")]
    if not lines:
        return ""
    first = _ANNOUNCEMENT.sub("", lines[0].rstrip(":."))
    error = last_error(hidden)
    if len(lines) == 1 or error.startswith(first) or lines[0].endswith(_HEADER):
        return _clipped(lines[0] if len(lines) == 1 else error)
    room = _LONGEST_LINE - len(error)
    return f"{first if len(first) <= room else f'{first[:room]}...'}: {error}"


def last_error(text: str) -> str:
    """Return the redacted line of a program's output that states its error."""
    return _clipped(_error_line(redact(text))).rstrip(": ")


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def _error_line(text: str) -> str:
    """Return the last exception, else the last line that speaks of an error, else the last line.

    Chained tracebacks end with the exception that was raised. Indented lines are details.
    """
    lines = [_PREFIX.sub("", line.rstrip()) for line in text.splitlines() if line.strip(" .\t")]
    flush = [line for line in lines if not line.startswith((" ", "\t"))]
    raised = (line for line in reversed(flush) if _EXCEPTION.match(line))
    spoken = (line for line in reversed(flush) if _ERROR.search(line))
    exception = next((line for line in raised if not line.endswith(_HEADER)), "")
    return exception or next(spoken, lines[-1].strip() if lines else "")


def last_lines(text: str, *, lines: int, characters: int) -> str:
    """Return the redacted end of a text, at most this many lines and characters."""
    end = "\n".join(redact(text).strip("\n").splitlines()[-lines:])
    return end[-characters:]


# Cuts text to a number of bytes.

_GAP: Final = " ... "


def clip(text: str, limit: int) -> str:
    """Return `text` cut to at most `limit` bytes of UTF-8, never inside a character."""
    return text.encode()[:limit].decode(errors="ignore")


def shorten(text: str, limit: int) -> str:
    """Return `text`, without its middle if it is over `limit` bytes: remedies are at the end."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    end = encoded[-limit // 4 :].decode(errors="ignore")
    return f"{clip(text, limit - len(_GAP) - len(end.encode()))}{_GAP}{end}"
