"""Reads `spec.runtimeEnvYAML` of a RayJob."""

from __future__ import annotations

from typing import Any, Final

from controller.apimachinery.user_yaml import YamlLimits, read_yaml_mapping

MOST_BYTES: Final = 128 * 1024
"""Maximum length of one command argument in Linux; the submitter gets the text as one."""

_LIMITS: Final = YamlLimits(MOST_BYTES, remedy="; put what is in it into the image or working_dir")


def read_runtime_env(text: str) -> dict[str, Any]:
    """Parse the mapping; text without a value means an empty one.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    return read_yaml_mapping(text, _LIMITS)
