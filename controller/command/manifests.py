"""Manifest files as plain data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, cast

from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_documents
from controller.kube.errors import ConfigurationError

Json = dict[str, Any]

STANDARD_INPUT = Path("-")
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_LIMITS: Final = YamlLimits(bytes=32 * 1024 * 1024, values=2_000_000, levels=150)
"""More than fits into any API server; the operator reads fields of 100 levels at most."""


def load(path: Path) -> list[Json]:
    """Return all objects of a YAML or JSON file, of such files in a folder, or of `-`.

    Lists are taken apart.

    Raises:
        ConfigurationError: something cannot be read or parsed; the message names every such file.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise ConfigurationError(f"{path} holds no .yaml, .yml or .json file")
    objects: list[Json] = []
    errors: list[str] = []
    for file in files:
        try:
            objects += _load_file(file)
        except ConfigurationError as error:
            errors.append(str(error))
    if errors:
        raise ConfigurationError("\n".join(errors))
    return objects


def _load_file(file: Path) -> list[Json]:
    name = "standard input" if file == STANDARD_INPUT else str(file)
    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
        documents = read_yaml_documents(content, _LIMITS)
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {error.strerror}") from error
    except InvalidYaml as error:
        raise ConfigurationError(f"{name} {error}") from error
    objects: list[Json] = []
    for document in documents:
        objects += _objects_of(document, name)
    return objects


def _objects_of(document: Any, file: str) -> list[Json]:
    """Return the objects of a document: none of an empty one, all of a list.

    Raises:
        ConfigurationError: it is no object, or one without a kind.
    """
    if document is None:
        return []
    if not isinstance(document, dict):
        raise ConfigurationError(f"{file} holds a document that is no object: {document!r:.60}")
    found = cast("Json", document)
    _check_metadata(found, file)
    if found.get("kind") != "List":
        return [found]
    items: Any = found.get("items") or []
    if not isinstance(items, list):
        raise ConfigurationError(f"{file}: items of a List must be a list")
    return [each for item in cast("list[Any]", items) for each in _objects_of(item, file)]


def _check_metadata(found: Json, file: str) -> None:
    if not isinstance(found.get("kind"), str):
        raise ConfigurationError(f"{file} holds an object without a kind: {found!r:.60}")
    meta: Any = found.get("metadata") or {}
    if not isinstance(meta, dict):
        raise ConfigurationError(f"{file}: metadata of a {found.get('kind')} must be an object")
    for field in ("name", "namespace", "generateName"):
        value: Any = cast("Json", meta).get(field)
        if not isinstance(value, str | None):
            raise ConfigurationError(
                f"{file}: metadata.{field} of a {found.get('kind')} must be text, not {value!r:.60}"
            )
