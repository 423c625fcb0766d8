# Every target makes its own virtual environment; nothing else has to be installed.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
PIP_FLAGS := --quiet --disable-pip-version-check
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help demo test lint bench runs paper paper-smoke clean

help:
	@echo "make demo   stack archived runs of the ring and the GMM; prints a summary, writes a figure"
	@echo "make test   run the tests"
	@echo "make lint   ruff and mypy"
	@echo "make bench  race the stacking against pyvbmc and svbmc (20 minutes; installs torch)"
	@echo "make paper  the paper's tables and figures from the archives (20 minutes)"
	@echo "make runs   make the archived VBMC runs again (hours)"

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -e ".[test,lint,bench]"
	touch $@

$(PEERS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install $(PIP_FLAGS) torch==2.13.0
	$(PEERS)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt svbmc==0.1.2 -e .
	touch $@

demo: $(VENV)/.ready
	$(VENV)/bin/python -m examples.demo

test: $(VENV)/.ready
	$(VENV)/bin/python -m pytest -n auto

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(PEERS)/.ready
	$(PEERS)/bin/python -m benchmarks.race_stacking
	$(PEERS)/bin/python -m benchmarks.dimensions
	$(PEERS)/bin/python -m benchmarks.profile_stacking

paper: $(VENV)/.ready
	$(VENV)/bin/python -m benchmarks all

paper-smoke: $(VENV)/.ready
	$(VENV)/bin/python -m pytest tests/system/test_paper.py

runs: $(VENV)/.ready
	$(VENV)/bin/python -m benchmarks.make_runs --runs 40 --problem gmm --problem ring \
		--problem gmm_noisy --problem ring_noisy
	$(VENV)/bin/python -m benchmarks.make_runs --runs 10 --problem banana6 --problem banana10

clean:
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
