"""Answers without what chance, time and other writers decide: uids, revisions, addresses, moments.

What is replaced is numbered in the order of its first appearance, so that two servers which tell
the same story tell it in the same words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ADDRESS = re.compile(r"10\.(0|96)\.\d+\.\d+(/\d+)?")
_REVISION = re.compile(r"(?<=version: )\d+|(?<=precondition \()\d+|(?<=record \()\d+")
_EXPOSED = re.compile(r"\b(\d+):3\d{4}/")
_TOO_OLD = re.compile(r"(too old resource version: \d+) \(\d+\)")
_SCHEME = re.compile(r'(?<=in scheme ")[\w./]+:\d+(?=")')  # where it is made: as it was built
_GENERATED = re.compile(r"\b(gen-|Bad_)[a-z0-9]{5}\b")
_AGE = re.compile(r"\d+[smhd]|<invalid>")
_CHANCE_PORTS = frozenset({"nodePort", "healthCheckNodePort"})


@dataclass
class Normaliser:
    """Replaces what differs from server to server, consistently over one sequence.

    Attributes:
        revisions: object revisions seen, oldest first.
    """

    revisions: list[str] = field(default_factory=list)
    _uids: dict[str, str] = field(default_factory=dict)

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value in words that do not depend on the server."""
        if isinstance(value, dict):
            return self._map(value)
        if isinstance(value, list):
            return [self.value(item, name) for item in value]
        if isinstance(value, str):
            return self._text(value)
        return "<port>" if name in _CHANCE_PORTS and value else value

    def event(self, event: Json) -> Json:
        """A watch event; bookmarks have revisions of their own."""
        if event["type"] == "BOOKMARK":
            event["object"]["metadata"]["resourceVersion"] = "<bookmark>"
        elif event["object"].get("kind") == "Table":
            event["object"]["metadata"]["resourceVersion"] = "<row>"
        return self.value(event)

    def _map(self, value: Json) -> Json:
        result: Json = {}
        for name, item in value.items():
            if name == "managedFields" or (name == "metadata" and not item):
                continue
            if name == "resourceVersion":
                result[name] = self._revision(str(item), is_object="uid" in value)
            elif name == "continue":
                result[name] = "<continue>" if item else item
            elif name == "causes":
                result[name] = _once_each(self.value(item))
            else:
                result[name] = self.value(item, name)
        return result

    def _revision(self, text: str, *, is_object: bool) -> str:
        if not text.isdigit() or text == "1":
            return text
        if is_object and text not in self.revisions:
            self.revisions.append(text)
        if text in self.revisions:
            newest = max(self.revisions, key=int)
            if not is_object and text == newest:
                return "<now>"
            return f"<revision {self.revisions.index(text)}>"
        newest = max(map(int, self.revisions), default=0)
        return "<now>" if int(text) >= newest else "<between>"

    def _text(self, text: str) -> str:
        if _TIME.fullmatch(text):
            return "<time>"
        if _AGE.fullmatch(text):
            return "<age>"
        text = _GENERATED.sub(r"\1<chance>", _TIME.sub("<time>", text))
        text = _EXPOSED.sub(r"\1:<port>/", text)
        text = _TOO_OLD.sub(r"\1 (<oldest>)", text)
        text = _SCHEME.sub("<scheme>", text)
        text = _ADDRESS.sub("<address>", text)
        text = _UID.sub(self._uid, text)
        return _REVISION.sub(self._number, text)

    def _uid(self, match: re.Match[str]) -> str:
        return self._uids.setdefault(match[0], f"<uid {len(self._uids)}>")

    def _number(self, match: re.Match[str]) -> str:
        """Revisions in texts by their ordinal, if they are known."""
        if match[0] in self.revisions:
            return f"<revision {self.revisions.index(match[0])}>"
        return match[0]


def _once_each(causes: list[Any]) -> list[Any]:
    """Upstream lists what it checks twice twice, and conflicts in any order."""
    once = [cause for index, cause in enumerate(causes) if cause not in causes[:index]]
    if all(cause["reason"] == "FieldManagerConflict" for cause in once):
        once.sort(key=lambda cause: (cause["field"], cause["message"]))
    return once
