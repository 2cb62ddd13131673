"""Text as Go writes it: JSON, and quoted strings.

The submitter's command line is KubeRay's to the letter, because users rely on what bash makes of
it: JSON is quoted with Go's `strconv.Quote`, so between double quotes, where `$` still works.
"""

from __future__ import annotations

import json
from typing import Any, Final

_JSON_ESCAPES: Final = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)
"""Go's `encoding/json` writes JSON that can be put into HTML."""
_QUOTE_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def go_json(value: Any) -> str:
    """`json.Marshal`: keys sorted, no spaces, everything that is not ASCII as it is."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.translate(_JSON_ESCAPES)


def go_quote(text: str) -> str:
    """`strconv.Quote`: a Go string literal; what cannot be printed is escaped."""
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(character: str) -> str:
    code = ord(character)
    if character in _QUOTE_ESCAPES:
        return _QUOTE_ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
