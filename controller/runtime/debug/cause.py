"""The cause of an error, without the values of users that its message may quote."""

from __future__ import annotations

import re
from typing import Final

from controller.apimachinery.redaction import fold

_LONGEST: Final = 200
"""Maximum characters of a cause. The log and the object's condition have the whole message."""

_MOST_READ: Final = 4096
"""Maximum characters of a message to examine: some messages quote a whole object."""

_QUOTED: Final = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|$)' r"|`[^`]*(?:`|$)" r"|(?<!\w)'(?:[^'\\]|\\.)*(?:'|$)",
    re.DOTALL,
)
_UNQUOTED: Final = re.compile(
    r"(\bvalue: ?|=|\{|\bmap\[|\bdenied the request: |\bHTTP \d+: )(?!\s*\"\")\s*\S.*",
    re.IGNORECASE | re.DOTALL,
)
"""A value or structure without quotation marks, and free text of a webhook or a dashboard."""

_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\xa0-\uffff]+")


def cause(message: str) -> str:
    """Return the message on one line, folded and cut, and without anything that it quotes.

    API servers and exceptions quote what they refuse, which may be the value of a variable or an
    annotation. The text ends before a value without quotation marks, whose end is unknown, and
    before free text of a webhook or a dashboard.
    """
    text = _UNPRINTABLE.sub(" ", _QUOTED.sub('""', message[:_MOST_READ]))
    text = fold(_UNQUOTED.sub(r"\1...", text))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
