"""All runs of one container: started, probed, stopped, restarted after a back-off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.errors import KubeError
from devcluster.nodes import containers
from devcluster.nodes.pods import ReportedContainerStatus
from devcluster.processes.container_process import (
    RECHECK_SECONDS,
    ContainerProbes,
    ContainerProcess,
    GracePeriod,
    run_action,
    wait_at_most,
)
from devcluster.processes.environment import (
    Image,
    InvalidConfiguration,
    Invocation,
    UnknownImage,
    env_sources,
    invocation,
)
from devcluster.processes.output import Output
from devcluster.processes.pod_managers import ContainerContext, StartSlot, oom_kills
from devcluster.processes.pod_sandbox import ContainerConfig, ContainerDir, Mount
from devcluster.processes.specification import ContainerSpecification

_FORGIVEN_AFTER = 2.0  # times the longest pause


class RestartBackoff(Struct, frozen=True):
    """The restart back-off of one container, in seconds.

    Attributes:
        crashes: number of ends of the container since the last reset.
    """

    first: float
    longest: float
    crashes: int = 0

    def after_run(self, seconds: float) -> RestartBackoff:
        """Return the back-off after one more run of that many seconds."""
        forgiven = seconds > _FORGIVEN_AFTER * self.longest
        return RestartBackoff(self.first, self.longest, 1 if forgiven else self.crashes + 1)

    @property
    def pause(self) -> float:
        """Seconds from the end of the last run to the next start."""
        if self.crashes <= 1:
            return 0.0
        return min(self.first * 2.0 ** min(self.crashes - 2, 32), self.longest)


_LEAST_AFTER_HOOK = 2.0
"""Seconds between SIGTERM and SIGKILL, even if a hook used up the grace period."""

_READ_AGAIN = 2.0  # seconds until the API server is read again
_LONGEST_MESSAGE = 4096
_MESSAGE_OF_LOG = 2048
_START_ERROR, _KILLED = 128, 137


class ContainerRuns:
    """All runs of one container.

    Attributes:
        has_started: set while the container runs and its startup probe has succeeded.
    """

    def __init__(
        self,
        context: ContainerContext,
        container: ContainerSpecification,
        status: ReportedContainerStatus,
    ) -> None:
        self.container = container
        self.status = status
        self.has_started = asyncio.Event()
        self._context = context
        self._is_step = container in context.pod.spec.init_containers and not container.is_sidecar
        settings = context.runtime.settings
        self._backoff = RestartBackoff(settings.crash_back_off, settings.crash_back_off_cap)
        self._run: ContainerProcess | None = None
        self._output: Output | None = None
        self._message: Path | None = None
        self._restarts = 0
        self._began = 0.0
        self._oom_kills = 0
        self._slot: StartSlot | None = None

    @property
    def running(self) -> ContainerProcess | None:
        """The process of the present run; None while there is none."""
        return None if self._run is None or self._run.exited.done() else self._run

    async def supervise(self, restarts: Callable[[int], bool]) -> int:
        """Run it until an end after which it is not restarted; return that exit code."""
        while True:
            run = await self._start()
            code = await self._watch(run)
            if not restarts(code):
                return code
            await self._pause(self._backoff.pause)

    async def stop(self, grace: GracePeriod) -> None:
        """Stop it if it runs. `supervise` must have been cancelled."""
        run = self._run
        if run is None:
            return
        if not run.exited.done():
            self._record_event("Normal", "Killing", f"Stopping container {self.container.name}")
            await self._end(run, grace)
        await self._finish(run)

    # Start.

    async def _start(self) -> ContainerProcess:
        wanted = env_sources(self.container)
        runtime, namespace = self._context.runtime, self._context.pod.metadata.namespace
        image = await self._image()
        while True:
            with runtime.sources.watch(namespace, wanted) as changed:
                try:
                    await self._take_slot()
                    data = await runtime.sources.read(namespace, wanted)
                    call = invocation(
                        self._context.pod,
                        self.container,
                        image,
                        downward=self._context.downward,
                        sources=data,
                        given=runtime.access.variables if runtime.access else {},
                    )
                    return await self._launch(call, image)
                except InvalidConfiguration as error:
                    self._report_waiting(containers.CONFIG_ERROR, str(error))
                    await wait_at_most(changed, RECHECK_SECONDS)
                except KubeError as error:
                    self._report_waiting(
                        containers.CONFIG_ERROR, f"cannot read what env refers to: {error}"
                    )
                    await asyncio.sleep(_READ_AGAIN)
                except OSError as error:
                    self._report_waiting("CreateContainerError", str(error))
                    self._backoff = self._backoff.after_run(0.0)
                    await asyncio.sleep(max(self._backoff.pause, _READ_AGAIN))

    async def _image(self) -> Image:
        """Return the environment for its image; wait for ever if there is none."""
        try:
            return self._context.runtime.images.find(self.container.image)
        except UnknownImage as error:
            if self.container.image_pull_policy == "Never":
                self._report_waiting("ErrImageNeverPull", str(error))
            else:
                self._report_waiting(containers.IMAGE_ERROR, str(error))
                await asyncio.sleep(self._context.runtime.settings.image_back_off)
                text = f'Back-off pulling image "{self.container.image}": {error}'
                self._report_waiting(containers.IMAGE_BACK_OFF, text)
            await asyncio.Event().wait()
            raise

    async def _take_slot(self) -> None:
        """Wait for its turn. Init containers and sidecars need none: others wait for them."""
        if self.container not in self._context.pod.spec.init_containers:
            self._slot = await self._context.runtime.start_slots.take()

    def _release_slot(self) -> None:
        if self._slot is not None:
            self._slot.release()

    def _report_waiting(self, reason: str, message: str) -> None:
        self._release_slot()
        if reason == containers.IMAGE_BACK_OFF:
            self._record_event("Normal", "BackOff", message)
        else:
            self._record_event("Warning", "Failed", f"Error: {message}")
        self._set(containers.blocked(self.status, reason, message))

    async def _launch(self, call: Invocation, image: Image) -> ContainerProcess:
        context, name = self._context, self.container.name
        self._message = context.sandbox.root / f"m-{name}-{self._restarts}"
        self._message.touch()
        mounts = context.volumes.mounts(self.container, call.env)
        mounts.append(Mount(self._message, self.container.termination_message_path))
        config = ContainerConfig(call.cwd, call.env, mounts)
        container_dir = context.sandbox.create_container_dir(config)
        try:
            run = await self._spawn(container_dir, call)
        except BaseException:
            await container_dir.close()
            raise
        loop = asyncio.get_running_loop()
        self._run, self._began, self._oom_kills = run, loop.time(), oom_kills()
        self._record_event("Normal", "Pulled", f'Image "{self.container.image}" is {image.path}')
        self._record_event("Normal", "Started", f"Started container {name}")
        uid, now = context.pod.metadata.uid, self._now()
        image_id, restarts = f"local://{image.path}", self._restarts
        container_id = f"process://{containers.digest(uid, name, str(restarts))}"
        status = containers.running(self.status, container_id, image_id, restarts, now)
        has_begun = not (self.container.startup_probe or self.container.lifecycle.post_start)
        is_ready = has_begun and not self.container.readiness_probe
        self._restarts += 1
        self._set(replace(status, started=has_begun, ready=is_ready and not self._is_step))
        return run

    async def _spawn(self, container_dir: ContainerDir, call: Invocation) -> ContainerProcess:
        uid, name = self._context.pod.metadata.uid, self.container.name
        output = self._context.runtime.outputs.begin(uid, name)
        try:
            run = await ContainerProcess.start(container_dir, call.argv, output)
        except BaseException:
            self._context.runtime.outputs.abandon(uid, name)
            raise
        self._output = output
        return run

    # While it runs.

    async def _watch(self, run: ContainerProcess) -> int:
        """Probe it until it has ended or must be stopped."""
        checks = asyncio.create_task(self._check(run))
        try:
            await asyncio.wait({run.exited, checks}, return_when=asyncio.FIRST_COMPLETED)
            if not run.exited.done():
                why, seconds = checks.result()
                self._record_event("Normal", "Killing", f"Container {self.container.name} {why}")
                await self._end(run, GracePeriod(seconds))
        finally:
            checks.cancel()
            await asyncio.wait({checks})  # to await it itself would swallow our own cancellation
        code = await self._finish(run)
        ran = asyncio.get_running_loop().time() - self._began
        self._backoff = self._backoff.after_run(ran)
        return code

    async def _check(self, run: ContainerProcess) -> tuple[str, float]:
        """Run hook and probes; return why to stop it, and the grace period in seconds."""
        grace = self._context.pod.spec.termination_grace_period_seconds
        hook = self.container.lifecycle.post_start
        if hook:
            result = await run_action(
                hook, self.container, run, self._context.downward.pod_ip, None
            )
            if not result.is_good:
                self._record_event(
                    "Warning", "FailedPostStartHook", f"PostStartHook failed: {result.text}"
                )
                return "failed its postStart hook, will be restarted", grace
        checks = ContainerProbes(
            self.container,
            run,
            self._context.downward.pod_ip,
            self._probed,
            self._unhealthy,
            pace=self._context.runtime.settings.probe_pace,
        )
        failed = await checks.watch()
        own = failed.probe.termination_grace_period_seconds
        why = f"failed {failed.name} probe, will be restarted"
        return why, grace if own is None else own

    def _probed(self, *, started: bool, ready: bool) -> None:
        if started:
            self.has_started.set()
        ready = ready and not self._is_step
        self._set(replace(self.status, started=started, ready=ready))

    def _unhealthy(self, name: str, text: str) -> None:
        self._record_event("Warning", "Unhealthy", f"{name.capitalize()} probe failed: {text}")

    # End.

    async def _end(self, run: ContainerProcess, grace: GracePeriod) -> None:
        """Run the hook, send SIGTERM, and SIGKILL after the grace period."""
        hook = self.container.lifecycle.pre_stop
        if hook and grace.remaining:
            doing = asyncio.ensure_future(
                run_action(hook, self.container, run, self._context.downward.pod_ip, None)
            )
            try:
                if await grace.passes_before(doing):
                    self._record_event("Warning", "FailedPreStopHook", "PreStopHook took too long")
                elif not doing.result().is_good:
                    text = f"PreStopHook failed: {doing.result().text}"
                    self._record_event("Warning", "FailedPreStopHook", text)
            finally:
                doing.cancel()
                await asyncio.wait({doing})
        least = _LEAST_AFTER_HOOK if hook else 0.0
        if grace.remaining or least:
            run.terminate()
            if not await grace.passes_before(run.exited, least=least):
                return
        await run.kill()

    async def _finish(self, run: ContainerProcess) -> int:
        if self._run is not run:
            return self.status.state.terminated.exit_code if self.status.state.terminated else 0
        self._run = None
        self._release_slot()
        self.has_started.clear()
        code, reason, message = (
            run.exited.result(),
            "",
            self._termination_message(run.exited.result()),
        )
        if problem := run.start_error:
            code, reason, message = _START_ERROR, "StartError", problem
        elif code == _KILLED and not run.was_killed and oom_kills() > self._oom_kills:
            reason = "OOMKilled"
        now = self._now()
        self._set(containers.terminated(self.status, code, now, reason=reason, message=message))
        if self._output:
            self._output.close()
        if self._message:
            self._message.unlink(missing_ok=True)
        await run.close()
        return code

    def _termination_message(self, code: int) -> str:
        text = b""
        with suppress(OSError):
            if self._message:
                text = self._message.read_bytes()[:_LONGEST_MESSAGE]
        wants_log = self.container.termination_message_policy == "FallbackToLogsOnError"
        if not text and code and wants_log and self._output:
            text = self._output.last_bytes(_MESSAGE_OF_LOG)
        return text.decode(errors="replace")

    async def _pause(self, seconds: float) -> None:
        if not seconds:
            return
        meta, name = self._context.pod.metadata, self.container.name
        where = f"container={name} pod={meta.name}_{meta.namespace}({meta.uid})"
        message = f"back-off {seconds:g}s restarting failed {where}"
        self._record_event("Warning", "BackOff", message[0].upper() + message[1:])
        self._set(containers.blocked(self.status, containers.CRASH_LOOP, message))
        await asyncio.sleep(seconds)

    def _set(self, status: ReportedContainerStatus) -> None:
        if status.ready:
            self._release_slot()
        if status != self.status:
            self.status = status
            self._context.changed()

    def _record_event(self, kind: str, reason: str, message: str) -> None:
        self._context.record_event(kind, reason, message, self.container)

    def _now(self) -> str:
        return rfc3339(self._context.runtime.wall())
