"""A plugin runs before its credential expires, not too often, and may fail."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from controller.kube import credentials as module
from controller.kube.credentials import ExecCredential, ExecCredentialRefresher
from controller.kube.errors import ConfigurationError, NotSent

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0


def now() -> datetime:
    return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())


class FakeProgram:
    """Returns numbered tokens valid for `life` seconds; fails while `broken`."""

    def __init__(self, life: float | None = HOUR, takes: float = 0.0) -> None:
        self.life = life
        self.takes = takes
        self.broken = False
        self.runs: list[float] = []

    async def __call__(self) -> ExecCredential:
        self.runs.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes)
        if self.broken:
            raise ConfigurationError("login expired")
        expires = None if self.life is None else now() + timedelta(seconds=self.life)
        return ExecCredential(f"Bearer {len(self.runs)}", expires=expires)


async def started(program: FakeProgram) -> ExecCredentialRefresher:
    plugin = ExecCredentialRefresher(program, clock=asyncio.get_running_loop(), wall=now)
    await plugin.start()
    return plugin


async def token(plugin: ExecCredentialRefresher) -> str:
    return (await plugin.current()).authorization


async def test_before_expiry_it_is_run_in_the_background_while_the_old_token_is_used():
    program = FakeProgram(takes=2.0)
    plugin = await started(program)
    await asyncio.sleep(HOUR - 200)
    before = asyncio.get_running_loop().time()
    assert [await token(plugin) for _ in range(5)] == ["Bearer 1"] * 5
    assert asyncio.get_running_loop().time() == before, "nobody waited for the plugin"
    await asyncio.sleep(3)
    assert await token(plugin) == "Bearer 2"
    assert len(program.runs) == 2


async def test_a_plugin_that_keeps_failing_is_run_less_and_less_often():
    program = FakeProgram()
    plugin = await started(program)
    program.broken = True
    await asyncio.sleep(HOUR + 1)
    for _ in range(600):
        with pytest.raises(NotSent, match="cannot be renewed: login expired"):
            await token(plugin)
        await asyncio.sleep(1)
    assert len(program.runs) - 1 <= 16
    program.broken = False
    await asyncio.sleep(module.LONGEST_INTERVAL)
    assert (await token(plugin)).startswith("Bearer")


async def test_an_expired_token_is_waited_for_by_all_and_the_plugin_run_once():
    program = FakeProgram(takes=1.0)
    plugin = await started(program)
    await asyncio.sleep(HOUR + 1)
    assert await asyncio.gather(*(token(plugin) for _ in range(10))) == ["Bearer 2"] * 10
    assert len(program.runs) == 2


async def test_a_cancelled_request_does_not_cancel_the_plugin_for_the_others():
    program = FakeProgram(takes=5.0)
    plugin = await started(program)
    await asyncio.sleep(HOUR + 1)
    impatient = asyncio.create_task(token(plugin))
    patient = asyncio.create_task(token(plugin))
    await asyncio.sleep(1)
    impatient.cancel()
    assert await patient == "Bearer 2"


async def test_a_refused_token_without_expiry_is_replaced_but_not_in_a_hot_loop():
    program = FakeProgram(life=None)
    plugin = await started(program)
    await plugin.refresh()
    assert await token(plugin) == "Bearer 2"
    for _ in range(5):
        await plugin.refresh()
    assert await token(plugin) == "Bearer 2"
    await asyncio.sleep(module.REFUSED_INTERVAL)
    await plugin.refresh()
    assert await token(plugin) == "Bearer 3"


async def test_a_plugin_that_hangs_is_given_up():
    program = FakeProgram(takes=1e4)
    with pytest.raises(ConfigurationError, match="took more than 120 s"):
        await started(program)


async def test_closing_ends_a_running_plugin():
    program = FakeProgram(takes=2.0)
    plugin = await started(program)
    await asyncio.sleep(HOUR - 10)
    await token(plugin)
    await asyncio.sleep(0.1)
    await plugin.aclose()
    assert len(asyncio.all_tasks()) == 1
