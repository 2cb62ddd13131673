"""The cause of an error, without the values of users that its message may quote."""

from __future__ import annotations

import re
from typing import Final

from controller.apimachinery.folding import fold

_LONGEST: Final = 200
"""Characters of a cause. The log and the object's condition have the whole message."""

_MOST_READ: Final = 4096
"""Characters of a message that are looked at: some quote a whole object."""

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
    """The message on one line, folded and cut, and without anything that it quotes.

    API servers and exceptions quote what they refuse, which may be the value of a variable or an
    annotation. A value that is not quoted ends the text, since nothing tells where it ends, and so
    does what a webhook or a dashboard says in words of its own.
    """
    text = _UNPRINTABLE.sub(" ", _QUOTED.sub('""', message[:_MOST_READ]))
    text = fold(_UNQUOTED.sub(r"\1...", text))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
