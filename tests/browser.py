"""A headless Chromium, spoken to by its own protocol: what tests and pictures need of it."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any, Literal

import aiohttp
import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip

needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="SKIP: no chromium on this machine")


class Browser:
    """One tab.

    Attributes:
        complaints: errors and warnings of the console.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []

    async def listen(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] == "Page.loadEventFired":
                self._loaded.set()
            elif told["method"] == "Log.entryAdded":
                entry = told["params"]["entry"]
                if entry["level"] in {"error", "warning"}:
                    self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
            elif told["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(told["params"]))

    async def send(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(60):
            told = await answer
        assert "error" not in told, told
        return told["result"]

    async def open(self, url: str, *, dark: bool = False, size: tuple[int, int] = (1280, 900)):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=size[0], height=size[1], deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        async with self.navigation():
            await self.send("Page.navigate", url=url)

    @asynccontextmanager
    async def navigation(self) -> AsyncGenerator[None]:
        """Wait until the page is complete to which the block leads."""
        self._loaded.clear()
        yield
        async with asyncio.timeout(60):
            await self._loaded.wait()

    async def evaluate(self, expression: str) -> Any:
        told = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def press(self, key: Literal["Tab", "Enter"]) -> None:
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    async def picture(self) -> bytes:
        told = await self.send("Page.captureScreenshot", format="png")
        return base64.b64decode(told["data"])


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    """Start a browser with a profile of its own, and end it at the end."""
    assert CHROMIUM
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank",
            stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stderr
        try:
            async with asyncio.timeout(60):
                async for line in process.stderr:
                    if b"DevTools listening on" in line:
                        address = line.decode().split()[-1]
                        break
                else:
                    raise AssertionError("chromium has ended")
            draining = asyncio.create_task(process.stderr.read())
            base = address.replace("ws://", "http://").partition("/devtools")[0]
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{base}/json/list") as answer:
                    tabs = await answer.json()
                tab = next(each for each in tabs if each["type"] == "page")
                async with session.ws_connect(
                    tab["webSocketDebuggerUrl"], max_msg_size=0
                ) as socket:
                    browser = Browser(socket)
                    listening = asyncio.create_task(browser.listen())
                    for domain in ("Page", "Runtime", "Log"):
                        await browser.send(f"{domain}.enable")
                    yield browser
                    await browser.send("Browser.close")
                    await listening
            await draining
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
