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
    """The content of a data file.

    Raises:
        msgspec.ValidationError: the file does not have the shape of `view`.
    """
    return msgspec.convert(yaml.load(read_text(name), Loader=yaml.CSafeLoader), view)


def read_text(name: str) -> str:
    """The text of a data file."""
    folder = resources.files("controller.kaito.presets").joinpath("data")
    return folder.joinpath(name).read_text(encoding="utf-8")
