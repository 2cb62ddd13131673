"""Content types of request bodies."""

from __future__ import annotations

from typing import Literal, TypeAlias

JSON: Literal["application/json"] = "application/json"
MERGE_PATCH: Literal["application/merge-patch+json"] = "application/merge-patch+json"
JSON_PATCH: Literal["application/json-patch+json"] = "application/json-patch+json"

ContentType: TypeAlias = Literal[
    "application/json", "application/merge-patch+json", "application/json-patch+json"
]
