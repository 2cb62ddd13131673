"""Names the option of the command line in an error about a setting."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_option(error: ValueError, options: Mapping[str, str]) -> str:
    """Return the text of an error, with the option in place of the setting that it begins with.

    Args:
        error: error raised by `controller.runtime.settings.Settings`.
        options: options by the settings that they set.
    """
    text = str(error)
    setting = text[: len(text) - len(text.lstrip(f"{ascii_lowercase}_"))]
    return options.get(setting, setting) + text.removeprefix(setting)
