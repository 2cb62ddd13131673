"""One request of a generated sequence, with places that are filled in when it is sent.

A text may hold `<uid:pods/a>`, `<rv:pods/a>` and `<first:pods/a>` (the latest and the first
revision seen of an object), `<continue>` and `<ns>`. What has not been seen reads as `1`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

Json = dict[str, Any]

_PLACE = re.compile(r"<(\w+)(?::([^>]+))?>")
MERGE = "application/merge-patch+json"


class Step(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        method: HTTP method; `WATCH` opens a watch, whose events are collected until the end of
            the sequence; `COMPACT` makes the server forget its history.
        path: with `<ns>` for the namespace.
        headers: besides Accept and Content-Type of JSON.
        body: an object, a list, or text to be sent as it is.
        of: start from the last body seen of this object (`pods/a`) and merge `body` into it.
        revision: with `of`: `keep`, `drop` or `first`.
    """

    method: str
    path: str
    query: Json = msgspec.field(default_factory=dict)
    headers: Json = msgspec.field(default_factory=dict)
    body: Any = None
    of: str = ""
    revision: str = "keep"

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        text = f"{self.method} {self.path}" + (f"?{query}" if query else "")
        if self.headers:
            text += f" {self.headers}"
        if self.of:
            text += f" last seen {self.of}, revision {self.revision}, with"
        if self.body is not None:
            text += f" {self.body if isinstance(self.body, str) else json.dumps(self.body)}"
        return text


@dataclass
class Memory:
    """What one server has told so far.

    Attributes:
        continue_token: of the last page.
    """

    namespace: str
    objects: dict[str, Json] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    continue_token: str = "1"

    def fill(self, text: str) -> str:
        """Put what was seen into its places."""
        return _PLACE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        what, which = match[1], match[2] or ""
        metadata = self.objects.get(which, {}).get("metadata", {})
        values = {
            "ns": self.namespace,
            "uid": metadata.get("uid"),
            "rv": metadata.get("resourceVersion"),
            "first": self.first.get(which),
            "continue": self.continue_token,
        }
        return values[what] or "1"

    def body_of(self, step: Step) -> bytes | None:
        body = step.body
        if step.of:
            body = merged(self.objects.get(step.of, {}), body or {})
            metadata = body.setdefault("metadata", {})
            if isinstance(metadata, dict):
                if step.revision == "drop" or step.of not in self.first:
                    metadata.pop("resourceVersion", None)
                elif step.revision == "first":
                    metadata["resourceVersion"] = self.first.get(step.of, "1")
        if body is None:
            return None
        text = body if isinstance(body, str) else json.dumps(body)
        return self.fill(text).encode()

    def learn(self, step: Step, body: Any) -> None:
        if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
            return
        metadata = body["metadata"]
        if "continue" in metadata:
            self.continue_token = metadata["continue"]
        shown = body.get("kind", "")
        if "uid" not in metadata or shown.endswith(("List", "Status", "Metadata")):
            return
        if "dryRun" in step.query:
            return
        plural = _plural(step.path)
        key = f"{plural}/{metadata['name']}"
        self.objects[key] = body
        self.first.setdefault(key, metadata.get("resourceVersion", ""))


def _plural(path: str) -> str:
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return rest[2] if len(rest) > 2 and rest[0] == "namespaces" else rest[0]


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, for the bodies of the client."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
