"""Reads the data files: tables of models and machines, each with its source."""

from __future__ import annotations

from importlib import resources
from typing import TypeVar

import msgspec
import yaml

T = TypeVar("T")


class Row(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A row of a data file, in which no unknown field may stand."""


def read_table(name: str, view: type[T]) -> T:
    """Return the content of a data file.

    Raises:
        msgspec.ValidationError: the file does not have the shape of `view`.
    """
    text = resources.files("controller.kaito.presets").joinpath("data", name).read_text("utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), view)
