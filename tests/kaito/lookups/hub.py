"""Stands in for Hugging Face."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controller.kaito.lookups.huggingface import Document

GIB = 1 << 30
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 4096,
    "hidden_size": 2048,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
}
TREE = [
    {"type": "file", "path": "model.safetensors", "size": 2 * GIB, "oid": "x"},
    {"type": "directory", "path": "onnx", "size": 0},
]


def document(content: Any) -> Document:
    return Document(200, json.dumps(content).encode())


@dataclass
class FakeHub:
    """Answers as a `WebReader` does, after a second.

    Attributes:
        documents: by the end of the path: `tree/main`, `config.json`.
        fault: gives another answer, or raises; None for none.
        silent: whether it answers nobody who asks from now on.
        asked: paths, and the tokens that came with them.
    """

    documents: dict[str, Document] = field(
        default_factory=lambda: {"tree/main": document(TREE), "config.json": document(CONFIG)}
    )
    fault: Callable[[str, str], Document | None] | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    silent: bool = False
    closed: bool = False

    async def get(self, path: str, *, token: str = "", limit: int) -> Document:
        self.asked.append((path, token))
        await asyncio.sleep(1e6 if self.silent else 1)
        if self.fault is not None and (found := self.fault(path, token)) is not None:
            return found
        end = next((each for each in self.documents if each in path), "")
        return self.documents.get(end, Document(404))

    async def aclose(self) -> None:
        self.closed = True
