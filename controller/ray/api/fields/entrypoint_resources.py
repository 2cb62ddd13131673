"""`spec.entrypointResources` of a RayJob: custom resources of the driver, as JSON."""

from __future__ import annotations

import msgspec


class InvalidResources(ValueError):  # noqa: N818
    """The text is not a JSON object of amounts by name."""


def read_entrypoint_resources(text: str) -> dict[str, float]:
    """Parse the amounts by name; empty text means none.

    Raises:
        InvalidResources: the text is not valid; the message is a predicate without a subject.
    """
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, float])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidResources(
            'must be JSON of amounts by name, such as {"accelerator": 1}'
        ) from error
