# Two commands do everything on a machine with Python 3.11+, make and git:
#   make rehearse    set-up, the first move, and the plan of a sample estate
#   make test        set-up and all tests
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CACHE := .cache
INPUT ?=
ARGS ?=

.PHONY: setup rehearse test lint bench soak e2e rows check-gpu oracles lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) scripts/check_machine.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

rehearse: setup
ifeq ($(INPUT),)
	$(BIN)/regauge rehearse $(ARGS)
	$(BIN)/regauge rehearse sample --plan auto
else
	$(BIN)/regauge rehearse $(INPUT) $(ARGS)
endif

# One more than two processors: many tests wait for a kubelet, a lease or a timer.
test: setup
	$(BIN)/pytest -n 3 --dist worksteal $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m bench $(ARGS)

soak: setup
	$(BIN)/pytest -m soak --timeout 7200 $(ARGS)

# On a node, as root: REGAUGE_KUBECONFIG and REGAUGE_KUBELET_DIR say which; see docs/driver.md.
e2e: setup
	$(BIN)/pytest -v tests/e2e $(ARGS)

# How much of upstream's allocator the random cases reach; needs Go.
coverage: setup
	$(BIN)/python scripts/upstream_coverage.py $(ARGS)

rows: setup
	$(BIN)/python scripts/rows.py $(ARGS)

# On a machine with NVIDIA GPUs: what NVML tells of them, recorded, and the tests on the recording.
check-gpu: setup
	$(BIN)/python scripts/check_gpu.py --write tests/fixtures/kinds/nvidia/recordings/this-machine.json $(ARGS)
	$(BIN)/pytest tests/unit/driver/kinds/test_nvidia.py

# The reference programs, on upstream's own libraries: needs Go; the first build downloads and takes minutes. Then the
# programs that views are tested with: Prometheus and Chromium, from Debian's packages.
oracles:
	bash scripts/build_oracles.sh $(CACHE)/oracles
	bash scripts/get_programs.sh $(CACHE)/programs

lock: setup
	bash scripts/lock.sh

clean:
	rm -rf $(VENV) $(CACHE) build dist out
