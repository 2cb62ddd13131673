"""`spec.entrypointResources` of a RayJob: custom resources of the driver, as JSON."""

from __future__ import annotations

import msgspec


class InvalidResources(ValueError):  # noqa: N818 - reads as what it says
    """The text is not the JSON of amounts by name."""


def read_entrypoint_resources(text: str) -> dict[str, float]:
    """The amounts by name; no text stands for none.

    Raises:
        InvalidResources: the text is something else; the message says so in half a sentence.
    """
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, float])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidResources(
            'must be JSON of amounts by name, such as {"accelerator": 1}'
        ) from error
