"""Removes secrets from program output before it is stored where more people can read it.

If in doubt it hides: the stored lines are for a first look, and the full log remains.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[redacted]"

_WORDS: Final = (
    r"passw(?:or)?d|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|"
    r"credential|authorization|\bauth\b|signature|session[_-]?id|connection[_-]?string"
)
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
    (re.compile(rf"(?i)((?=--){_NAME}\s+)(\S+)"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\b(?:gh[pousr]|github_pat|glpat|hf|xox[abprs])[_-][A-Za-z0-9_-]{10,}"), HIDDEN),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), HIDDEN),
)


def redact(text: str) -> str:
    """Return the text without passwords, tokens and keys in their usual notations."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def excerpt(text: str, *, characters: int) -> str:
    """Return the redacted text, without the middle if it is long, since errors are at the end."""
    full = redact(text)
    if len(full) <= characters:
        return full
    gap = "\n...\n"
    start = characters // 4
    return full[:start] + gap + full[start + len(gap) - characters :]


def last_lines(text: str, *, lines: int, characters: int) -> str:
    """Return the redacted end of a text, at most this many lines and characters."""
    end = "\n".join(redact(text).strip("\n").splitlines()[-lines:])
    return end[-characters:]
