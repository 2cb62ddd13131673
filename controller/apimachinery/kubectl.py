"""The kubectl command that a message advises for labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta


def overwrite_command(
    verb: Literal["annotate", "label"], kind: str, metadata: ObjectMeta, values: Mapping[str, str]
) -> str:
    """Return the command that gives an object these annotations or labels, whatever it has now."""
    pairs = " ".join(f"{key}={value}" for key, value in values.items())
    return (
        f"kubectl {verb} {kind.lower()} -n {metadata.namespace} {metadata.name} --overwrite {pairs}"
    )
