"""The table of values in the chart's README: each value of values.yaml with its comment.

After a change, run `.venv/bin/python -m tests.chart.values_table`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from tests.chart.helm import CHART
from tests.docs.upgrade_pictures import with_blocks

PAGE: Final = CHART / "README.md"
VALUES: Final = CHART / "values.yaml"

_WHOLE: Final = frozenset(
    {
        "resources", "startupProbe", "livenessProbe", "readinessProbe", "podSecurityContext",
        "securityContext", "metrics.grafanaDashboard.labels", "rayMetrics.grafanaDashboard.labels",
    }
)  # fmt: skip
"""What Kubernetes defines is shown as one value."""


class Value(NamedTuple):
    """A value, its default, and its comment."""

    path: str
    default: Any
    meaning: str


def values() -> Iterator[Value]:
    text = VALUES.read_text()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    yield from _under(root, yaml.safe_load(text), text.splitlines(), "")


def _under(
    node: yaml.MappingNode, data: dict[str, Any], lines: list[str], above: str
) -> Iterator[Value]:
    for key, inner in node.value:
        path = f"{above}{key.value}"
        if isinstance(inner, yaml.MappingNode) and inner.value and path not in _WHOLE:
            yield from _under(inner, data[key.value], lines, f"{path}.")
        else:
            yield Value(path, data[key.value], _comment(lines, key.start_mark.line))


def _comment(lines: list[str], number: int) -> str:
    """What is written beside a key, and otherwise what is written above it."""
    beside = lines[number].partition("  # ")[2]
    above: list[str] = []
    while number and not beside and lines[number - 1].strip().startswith("# "):
        number -= 1
        above.insert(0, lines[number].strip()[2:])
    text = beside or " ".join(above)
    return (text[:1].upper() + text[1:]).rstrip(".")


def table() -> str:
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    rows += [f"| `{path}` | `{json.dumps(default)}` | {text} |" for path, default, text in values()]
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(with_blocks(PAGE.read_text(), {"values": table()}))
