"""The local Dask cluster: a scheduler and its workers in one process, on 127.0.0.1, behind TLS."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dask.config
from distributed import Client, Scheduler, Worker
from distributed.security import Security

THREADS = 4
"""Jobs that a worker runs at once: one that holds its device, and light ones."""

# This process shares its cores with what it times, so everything that only watches is off; and no configuration file
# of the user, meant for other clusters, may open a port or move work.
_SETTINGS: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.preload": [],
    "distributed.scheduler.idle-timeout": None,
    "distributed.admin.low-level-log-length": 100,
    "distributed.worker.preload": [],
    "distributed.worker.profile.enabled": False,
    "distributed.worker.lifetime.duration": None,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.diagnostics.nvml": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "60s",
    "distributed.comm.retry.count": 0,
}


def gpu_count(proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> int:
    """GPUs that NVIDIA's driver shows, without touching one; WSL2 shows one device for all."""
    folders = proc / "driver" / "nvidia" / "gpus"
    if folders.is_dir():
        return sum(1 for _ in folders.iterdir())
    return 1 if (dev / "dxg").exists() else 0


@asynccontextmanager
async def local_cluster(folder: Path, security: Security, gpus: int) -> AsyncIterator[Client]:
    """A running cluster: a worker for the CPU and one per GPU, each advertising its device as a resource.

    `folder` takes Dask's temporary files.
    """
    resources = [("cpu", {"CPU": 1.0})] + [(f"gpu-{index}", {"GPU": 1.0}) for index in range(gpus)]
    with dask.config.set(_SETTINGS):
        async with contextlib.AsyncExitStack() as stack:
            scheduler = await stack.enter_async_context(
                Scheduler(
                    host="127.0.0.1",
                    port=0,
                    protocol="tls://",
                    security=security,
                    dashboard=False,
                    dashboard_address="127.0.0.1:0",
                )
            )
            scheduler.http_server.stop()
            for name, has in resources:
                worker = await stack.enter_async_context(
                    Worker(
                        scheduler.address,
                        host="127.0.0.1",
                        security=security,
                        name=name,
                        nthreads=THREADS,
                        resources=has,
                        memory_limit=0,
                        local_directory=str(folder),
                        dashboard=False,
                        dashboard_address="127.0.0.1:0",
                    )
                )
                worker.http_server.stop()
            client = await stack.enter_async_context(
                Client(scheduler.address, security=security, asynchronous=True, set_as_default=False)
            )
            yield client


@asynccontextmanager
async def joined_cluster(address: str) -> AsyncIterator[Client]:
    """A client of a cluster elsewhere; its TLS settings come from Dask's own configuration.

    Its workers must have this package and see the workspace under the same path.
    """
    async with Client(address, asynchronous=True, set_as_default=False) as client:
        yield client


async def advertised(client: Client) -> frozenset[str] | None:
    """The resources that the cluster's workers have; None while it has no worker."""
    assert client.scheduler is not None
    identity: Any = await client.scheduler.identity(n_workers=-1)
    workers = identity["workers"].values()
    if not workers:
        return None
    return frozenset(name for worker in workers for name, amount in worker["resources"].items() if amount > 0)
