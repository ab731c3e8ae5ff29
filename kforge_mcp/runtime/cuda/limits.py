"""Whether a launch is within what its kernel and the device allow: said before it is tried."""

from __future__ import annotations

import math
from typing import Any

from .driver import Driver, Function, launch_config
from .library import DriverError

PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every device with clusters takes."""
_DEFAULT_SHARED_BYTES = 48 * 1024


def excess(driver: Driver, launch: dict[str, Any], function: Function) -> str:
    """Which limit a bound launch exceeds, with both numbers; empty if none."""
    return (
        _shape_excess(driver, launch)
        or _thread_excess(launch, function)
        or _shared_excess(driver, launch, function)
        or _cluster_excess(driver, launch, function)
        or _residence_excess(driver, launch, function)
    )


def opt_in(driver: Driver, launches: list[dict[str, Any]], function: Function) -> None:
    """Allow a kernel the shared memory and clusters of its launches, those beyond the device's left out."""
    room = driver.attribute("shared_bytes_per_block_optin") - function.static_shared_bytes
    wanted = max((one["shared_bytes"] for one in launches if one["shared_bytes"] <= room), default=0)
    if wanted + function.static_shared_bytes > _DEFAULT_SHARED_BYTES:
        driver.allow_dynamic_shared(function, wanted)
    if any(math.prod(one["cluster"]) > PORTABLE_CLUSTER for one in launches) or (
        math.prod(function.cluster) > PORTABLE_CLUSTER
    ):
        try:
            driver.allow_large_clusters(function)
        except DriverError as error:
            # A device without such clusters: `excess` says so.
            if error.sticky:
                raise


def _shape_excess(driver: Driver, launch: dict[str, Any]) -> str:
    for what in ("grid", "block"):
        for axis, value in zip("xyz", launch[what], strict=True):
            most = driver.attribute(f"max_{what}_{axis}")
            if value > most:
                return f"a {what} of {value} in {axis}; this device takes at most {most}"
    threads, most = math.prod(launch["block"]), driver.attribute("max_threads_per_block")
    return f"a block of {threads} threads; this device takes at most {most}" if threads > most else ""


def _thread_excess(launch: dict[str, Any], function: Function) -> str:
    threads = math.prod(launch["block"])
    if threads <= function.max_threads:
        return ""
    return (
        f"a block of {threads} threads; the kernel takes at most {function.max_threads}, by its {function.registers} "
        "registers a thread or by its __launch_bounds__"
    )


def _shared_excess(driver: Driver, launch: dict[str, Any], function: Function) -> str:
    dynamic, static = launch["shared_bytes"], function.static_shared_bytes
    most = driver.attribute("shared_bytes_per_block_optin")
    if dynamic + static <= most:
        return ""
    parts = f"{dynamic} dynamic and {static} static" if static else f"{dynamic}"
    return f"{parts} bytes of shared memory; this device has at most {most} a block"


def _cluster_excess(driver: Driver, launch: dict[str, Any], function: Function) -> str:
    cluster = tuple(launch["cluster"])
    fixed = function.cluster
    if math.prod(fixed) and cluster not in ((1, 1, 1), fixed):
        return f"a cluster of {_times(cluster)}; the kernel's __cluster_dims__ are {_times(fixed)}"
    if cluster == (1, 1, 1) and math.prod(fixed):
        cluster = fixed
    if cluster == (1, 1, 1):
        return ""
    if not driver.attribute("cluster_launch"):
        return "a cluster; this device has none, they begin with compute capability 9.0"
    for axis, blocks, together in zip("xyz", launch["grid"], cluster, strict=True):
        if blocks % together:
            return f"a grid of {blocks} in {axis}, which the cluster's {together} blocks do not divide"
    if math.prod(cluster) > PORTABLE_CLUSTER and not driver.active_clusters(function, configured(launch)):
        return f"a cluster of {math.prod(cluster)} blocks; for this kernel the device takes at most {PORTABLE_CLUSTER}"
    return ""


def _residence_excess(driver: Driver, launch: dict[str, Any], function: Function) -> str:
    threads, shared = math.prod(launch["block"]), launch["shared_bytes"]
    blocks = driver.blocks_per_sm(function, threads, shared)
    if blocks == 0:
        return (
            f"not one block fits on a multiprocessor: {threads} threads of {function.registers} registers, "
            f"{shared + function.static_shared_bytes} bytes of shared memory"
        )
    if math.prod(launch["cluster"]) > 1 and not driver.active_clusters(function, configured(launch)):
        return f"not one cluster of {math.prod(launch['cluster'])} blocks fits on the device at a time"
    most = blocks * driver.attribute("sm_count")
    if launch["cooperative"] and math.prod(launch["grid"]) > most:
        return (
            f"a cooperative grid of {math.prod(launch['grid'])} blocks; this device holds {most} at a time, {blocks} "
            f"on each of {driver.attribute('sm_count')} multiprocessors"
        )
    return ""


def configured(launch: dict[str, Any]) -> Any:
    """A bound launch as the driver takes it."""
    return launch_config(
        launch["grid"],
        launch["block"],
        launch["shared_bytes"],
        launch["cluster"],
        cooperative=launch["cooperative"],
    )


def _times(sizes: tuple[int, ...]) -> str:
    return " * ".join(str(size) for size in sizes)
