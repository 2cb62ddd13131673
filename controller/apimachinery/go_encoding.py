"""JSON and quoted strings exactly as Go encodes them, where others compare or parse the text.

The command line of a RayJob's submitter equals KubeRay's, because users rely on how bash reads it:
JSON is quoted with Go's `strconv.Quote`, in double quotes, in which bash still expands `$`. The
hash of a Workspace equals Kaito's.
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
"""Escapes of Go's `encoding/json` for characters that are special in HTML."""
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


def go_json(value: Any, *, sort_keys: bool = True) -> str:
    """Return JSON as `json.Marshal` writes it: no spaces, non-ASCII characters unescaped.

    Args:
        value: plain data.
        sort_keys: whether to sort, as Go does for maps; it writes structs in the order of their
            fields.
    """
    text = json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"))
    return text.translate(_JSON_ESCAPES)


def go_quote(text: str) -> str:
    """Return a Go string literal as `strconv.Quote` writes it, non-printable characters escaped."""
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
