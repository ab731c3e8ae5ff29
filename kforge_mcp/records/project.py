"""A captured workload and where it runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kforge_mcp.records.base import Moment, Record

Target = Literal["cpu", "cuda"]


class Interpreter(Record):
    """The Python that has torch and the model's dependencies."""

    executable: str
    found_by: str
    """`python argument`, `KFORGE_PYTHON`, `nearest .venv`, `VIRTUAL_ENV`, `CONDA_PREFIX` or `server`."""
    python_version: str
    torch_version: str
    cuda_version: str = ""


class Ceilings(Record):
    """Measured limits of the device, for speed-of-light times."""

    bandwidth_gbs: dict[int, float]
    """GB/s (1e9 bytes, read plus write) of a copy, by working set in bytes."""
    gflops: dict[str, float]
    """1e9 floating point operations a second of a matrix product, by dtype; of a GPU also `tf32`."""

    def bandwidth(self, working_set: int) -> float:
        """Best bandwidth in GB/s that a working set of this many bytes may reach: the fastest cache level that
        could hold half of it."""
        sizes = sorted(self.bandwidth_gbs)
        fitting = [self.bandwidth_gbs[size] for size in sizes if size >= working_set // 2]
        return max(fitting) if fitting else self.bandwidth_gbs[sizes[-1]]


class DeviceInfo(Record):
    """The device a workload was captured on."""

    target: Target
    name: str
    uuid: str = ""
    threads: int = 0
    """Threads that eager used (cpu)."""
    cpu_capability: str = ""
    memory_bytes: int = 0
    arch: str = ""
    """What is compiled for it, such as `sm_90a` (cuda)."""
    sm_count: int = 0
    """Multiprocessors (cuda)."""
    l2_bytes: int = 0
    driver: str = ""
    """Release of the driver and the newest CUDA it runs (cuda)."""
    ceilings: Ceilings | None = None

    @property
    def architectures(self) -> tuple[str, ...]:
        """What candidates are compiled for to run on it; empty: whatever the machine has."""
        return (self.arch,) if self.arch else ()


class Project(Record):
    """One captured workload: model, sample calls, device and model interpreter."""

    project_id: str
    name: str
    entry: str
    entry_path: str
    """The resolved path behind `entry`; of a library's model the entry itself."""
    resolved_entry: str = ""
    """`entry` with its path resolved, as the runtime takes it."""
    project_dir: str
    target: Target
    interpreter: Interpreter
    device: DeviceInfo
    workload_us: float
    """Median wall time of one run of the workload in eager mode, microseconds."""
    workload_calls: int = 1
    idle_share: float = 0.0
    """Part of that time outside of torch operators, in Python, where no kernel can help; of a GPU the part in which
    it waits for launches."""
    backend_flags: dict[str, bool | int | str] = Field(default_factory=dict)
    created_at: Moment
    log: str = ""
    """Blob with what the model's code printed during capture."""

    @property
    def device_key(self) -> str:
        """The name of the device among the locks of this machine."""
        return (self.device.uuid or "cuda") if self.target == "cuda" else "cpu"
