# Two commands do everything on a machine with Python 3.11+, make and git:
#   make rehearse    set-up and the first move
#   make test        set-up and all tests
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CACHE := .cache
INPUT ?=
ARGS ?=

.PHONY: setup rehearse test lint bench soak rows check-gpu oracles lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) scripts/check_machine.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

rehearse: setup
	$(BIN)/regauge rehearse $(INPUT) $(ARGS)

test: setup
	$(BIN)/pytest -n 2 --dist worksteal $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m bench $(ARGS)

soak: setup
	$(BIN)/pytest -m soak --timeout 7200 $(ARGS)

rows: setup
	$(BIN)/python scripts/rows.py $(ARGS)

# On a machine with NVIDIA GPUs: what NVML tells of them, recorded, and the tests on the recording.
check-gpu: setup
	$(BIN)/python scripts/check_gpu.py --write tests/fixtures/kinds/nvidia/recordings/this-machine.json $(ARGS)
	$(BIN)/pytest tests/unit/driver/kinds/test_nvidia.py

# The reference programs, on upstream's own libraries: needs Go; the first build downloads and takes minutes.
oracles:
	bash scripts/build_oracles.sh $(CACHE)/oracles

lock: setup
	bash scripts/lock.sh

clean:
	rm -rf $(VENV) $(CACHE) build dist out
