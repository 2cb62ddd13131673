"""Descriptions of fields, which `kubectl explain` prints, send the reader where something is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from controller.kaito.api.definitions import kaito_definitions
from controller.ray.api.definitions import custom_resource_definitions
from controller.runtime.definitions import FIELDS_KNOWN
from devcluster.apiserver.builtin_types import table

KINDS = {"pod": "Pod", "service": "Service"}


def descriptions() -> list[str]:
    """All descriptions that send the reader to another kind or to a condition."""
    definitions = [*custom_resource_definitions(), *kaito_definitions()]
    schemas = [
        version["schema"]["openAPIV3Schema"]
        for each in definitions
        for version in each["spec"]["versions"]
    ]
    found = [text for schema in schemas for text in texts(schema)]
    return [text for text in found if "explain" in text]


def texts(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from texts(item)
    elif isinstance(node, dict):
        if isinstance(node.get("description"), str):
            yield node["description"]
        for item in node.values():
            yield from texts(item)


def explained(path: str) -> bool:
    """Whether Kubernetes has fields below a path such as `pod.spec.volumes`."""
    kind, *names = path.split(".")
    type_ = KINDS[kind]
    for name in names:
        field = table()[type_].get(name)
        if field is None:
            return False
        type_ = field.type.strip("[]{}")
    return type_ in table()


def test_each_explained_path_exists():
    paths = {path for text in descriptions() for path in re.findall(r"explain ([\w.]+)", text)}
    assert paths >= {"pod.metadata", "pod.spec", "pod.spec.volumes"}
    assert all(map(explained, paths))
    assert not explained("pod.nothing")


def test_a_pod_template_names_both_halves_of_a_pod_and_the_condition_about_typing_errors():
    templates = [text for text in descriptions() if "emplate of" in text]
    assert len(templates) >= 14
    for text in templates:
        assert "`kubectl explain pod.metadata` and `kubectl explain pod.spec`" in text
        assert f"condition {FIELDS_KNOWN} " in text
