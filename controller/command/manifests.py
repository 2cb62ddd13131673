"""Manifest files as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is six times quicker


def load(path: Path) -> list[dict[str, Any]]:
    """All documents of a YAML or JSON file, or of every such file in a folder.

    Raises:
        ConfigurationError: the path cannot be read or parsed; the message names it.
    """
    files = sorted(path.glob("*.yaml")) + sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ConfigurationError(f"{path} holds no .yaml or .json file")
    documents: list[dict[str, Any]] = []
    for file in files:
        try:
            loaded: list[Any] = list(yaml.load_all(file.read_bytes(), Loader=_Loader))
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise ConfigurationError(f"{file} is not valid YAML: {error}") from error
        documents += [document for document in loaded if isinstance(document, dict)]
    return documents
