"""Which part of a server's environment travels with a job."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = frozenset({
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH",
    "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "PYTHONHASHSEED",
    "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NO_PROXY", "no_proxy",
    "CLAUDE_PROJECT_DIR",
})  # fmt: skip
_PREFIXES = (
    "KFORGE_", "CUDA_", "NVIDIA_", "NCCL_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "HF_", "HUGGINGFACE_",
    "TRANSFORMERS_", "TORCH", "PYTORCH_", "ATEN_", "TRITON_", "XDG_", "LC_",
)  # fmt: skip
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY")


def travelling(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide how the user's model runs: paths, locale, thread counts, devices, caches.

    They are stored with the job, so names that sound like a secret stay behind, `HF_TOKEN` too: the Hugging Face
    libraries find a token in the user's home folder.
    """
    return {name: value for name, value in sorted(environment.items()) if _travels(name)}


def _travels(name: str) -> bool:
    if any(word in name.upper() for word in _SECRET):
        return False
    return name in _NAMES or name.startswith(_PREFIXES)
