# Makes its own environments; needs Python 3.11 or newer, a C++ compiler and make.
PYTHON ?= python3
SERVER := .venv
MODEL := .venv-model
export KFORGE_PYTHON := $(CURDIR)/$(MODEL)/bin/python
export OMP_WAIT_POLICY := passive

.PHONY: setup demo test test-server test-runtime lint format bench bench-gpu clean

setup: $(SERVER)/.ready $(MODEL)/.ready

$(SERVER)/.ready: pyproject.toml constraints.txt constraints-cuda.txt
	@echo "making $(SERVER): the server, its tests and NVRTC, about 0.5 GB"
	$(PYTHON) -m venv $(SERVER)
	$(SERVER)/bin/python -m pip install -q -c constraints.txt -c constraints-cuda.txt -e '.[dev]'
	touch $@

$(MODEL)/.ready: constraints.txt
	@echo "making $(MODEL): torch and transformers; the torch of PyPI brings CUDA's libraries, several GB"
	$(PYTHON) -m venv $(MODEL)
	$(MODEL)/bin/python -m pip install -q -c constraints.txt torch transformers diffusers pytest pytest-timeout hypothesis
	touch $@

demo: setup
	$(SERVER)/bin/kforge-mcp demo

test: setup test-runtime test-server

test-runtime: setup
	$(MODEL)/bin/python -m pytest tests/runtime

test-server: setup
	$(SERVER)/bin/python -m pytest tests --ignore=tests/runtime

lint: setup
	$(SERVER)/bin/ruff check .
	$(SERVER)/bin/ruff format --check .
	$(SERVER)/bin/lint-imports
	$(SERVER)/bin/pyright

format: setup
	$(SERVER)/bin/ruff check --fix .
	$(SERVER)/bin/ruff format .

bench: setup
	for file in $(filter-out %gpu.py,$(wildcard benchmarks/bench_*.py)); do $(SERVER)/bin/python $$file || exit; done

# On a machine with a GPU; KFORGE_PYTHON needs a torch with CUDA, and what the workloads import.
bench-gpu: $(SERVER)/.ready
	for file in benchmarks/bench_*gpu.py; do $(SERVER)/bin/python $$file || exit; done

clean:
	rm -rf $(SERVER) $(MODEL) .pytest_cache .ruff_cache .hypothesis build dist
