"""The Widget API: what the kind reads of a Widget. The definition is in `crd.yaml`."""

from __future__ import annotations

from typing import Any

from controller.kube.objects import KubeObject, View
from controller.kube.resources import Resource


class WidgetSpec(View, frozen=True):
    """`spec`: so many ConfigMaps with this text."""

    copies: int = 1
    text: str = ""


class WidgetStatus(View, frozen=True):
    """`status`."""

    copies: int = 0
    conditions: tuple[dict[str, Any], ...] = ()


class Widget(KubeObject, frozen=True):
    """A partial view: fields that the kind does not need are not kept."""

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


WIDGETS = Resource("example.dev", "v1", "widgets", "Widget", Widget)
