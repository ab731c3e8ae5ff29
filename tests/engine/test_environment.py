import subprocess
import sys

from kforge_mcp.engine.environment import travelling


def test_what_decides_how_a_model_runs_travels() -> None:
    environment = {
        "PATH": "/bin",
        "LD_LIBRARY_PATH": "/lib",
        "OMP_NUM_THREADS": "2",
        "KFORGE_PYTHON": "/p",
        "CUDA_VISIBLE_DEVICES": "1",
        "HF_HOME": "/cache",
        "TORCH_HOME": "/torch",
        "VIRTUAL_ENV": "/venv",
    }
    assert travelling(environment) == environment


def test_secrets_and_the_rest_stay_behind() -> None:
    environment = {
        "HF_TOKEN": "hf_x",
        "KFORGE_HTTP_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "KFORGE_API_KEY": "x",
        "SSH_AUTH_SOCK": "/s",
        "EDITOR": "vi",
    }
    assert travelling(environment) == {}


def test_a_server_that_submits_imports_neither_dask_nor_the_database_early() -> None:
    script = (
        "import kforge_mcp.engine.jobs, kforge_mcp.engine.context, kforge_mcp.engine.interpreter, sys\n"
        "sys.exit(bool({'distributed', 'dask', 'sqlalchemy', 'scipy', 'filelock'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
