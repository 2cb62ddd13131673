"""Default ports of Ray."""

from __future__ import annotations

from typing import Final

GCS_PORT: Final = 6379
DASHBOARD_PORT: Final = 8265
METRICS_PORT: Final = 8080
AGENT_PORT: Final = 52365
