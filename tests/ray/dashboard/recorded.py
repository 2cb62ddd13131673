"""What a real Ray 2.60 answered (`answers/*.json`), as answers of a dashboard."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from controller.ray.dashboard.transport import DashboardResponse

FOLDER = Path(__file__).parent / "answers"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def _document(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def recorded(name: str, **changes: Any) -> DashboardResponse:
    """The recorded answer, its JSON body with `changes`."""
    document = _document(name)
    body = document["body"]
    if not isinstance(body, str):
        body = json.dumps({**body, **changes} if changes else body)
    content_type = (document.get("content_type") or "").partition(";")[0]
    return DashboardResponse(document["status"], content_type, body.encode())
