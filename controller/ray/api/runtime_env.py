"""Reads `spec.runtimeEnvYAML` of a RayJob."""

from __future__ import annotations

from typing import Any, Final

from controller.ray.api.user_yaml import read_yaml_mapping

MOST_BYTES: Final = 128 * 1024
"""Maximum length of one command argument in Linux; the submitter gets the text as one."""


def read_runtime_env(text: str) -> dict[str, Any]:
    """Parse the mapping; text without a value means an empty one.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    return read_yaml_mapping(text, MOST_BYTES)
