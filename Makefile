# Every target makes its own virtual environment and installs what it needs there; nothing else has to
# be installed. PYTHON chooses the interpreter of a new environment.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
LOWEST := .venv-lowest
PIP_FLAGS := --quiet --disable-pip-version-check
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# The environment grows in stages: core is what `pip install vbstack` installs, every other stage adds
# extras to it. The tests of the benchmarks need the extra `bench`; mypy reads the types of pytest.
EXTRAS_test := test,bench
EXTRAS_lint := test,lint
EXTRAS_bench := bench
EXTRAS_docs := docs
EXTRAS_browser := test,browser

.PHONY: help demo demo-pyvbmc test test-fast test-lowest coverage lint docs browser bench paper \
	paper-smoke runs fuzz clean

help:
	@echo "make demo   ten VBMC runs of a hard target on all cores, stacked; summary and figure"
	@echo "make demo-pyvbmc  the same with pyvbmc as the engine (minutes)"
	@echo "make test   run the tests"
	@echo "make test-fast  the tests without those marked slow"
	@echo "make test-lowest  most tests with the lowest versions that pyproject.toml allows"
	@echo "make coverage  run the tests and count the lines of src that they execute (95 % demanded)"
	@echo "make lint   ruff and mypy"
	@echo "make docs   build the documentation: open site/index.html (its search needs a server)"
	@echo "make browser  test the HTML report in Chromium, which has to be installed"
	@echo "make bench  race the stacking against pyvbmc and svbmc (20 minutes; installs torch)"
	@echo "make paper  the paper's tables and figures from the archives (16 minutes)"
	@echo "make fuzz   mutated files, flipped bits and killed fits, counted (10 minutes)"
	@echo "make runs   make the archived VBMC runs again (hours)"

$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -e .
	touch $@

$(VENV)/.%: $(VENV)/.core
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -e ".[$(EXTRAS_$*)]"
	touch $@

$(PEERS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install $(PIP_FLAGS) torch==2.13.0
	$(PEERS)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt svbmc==0.1.2 -e .
	touch $@

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install $(PIP_FLAGS) -c constraints-lowest.txt -e ".[test]"
	touch $@

demo: $(VENV)/.core
	$(VENV)/bin/python -m examples.demo

demo-pyvbmc: $(VENV)/.core
	$(VENV)/bin/python -m examples.demo pyvbmc

test: $(VENV)/.test
	$(VENV)/bin/python -m pytest -n auto

test-fast: $(VENV)/.test
	$(VENV)/bin/python -m pytest -n auto -m "not slow"

test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest -n auto tests/unit tests/system/test_launch.py tests/system/test_cli.py
	$(LOWEST)/bin/vbstack fit --help > /dev/null

# Processes that the tests kill leave files behind, which must not count the next time.
coverage: $(VENV)/.test $(VENV)/.browser
	$(VENV)/bin/coverage erase
	$(VENV)/bin/python -m pytest -n auto --cov --cov-fail-under=95

lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

browser: $(VENV)/.browser
	VBSTACK_REQUIRE_BROWSER=1 $(VENV)/bin/python -m pytest tests/browser

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

bench: $(PEERS)/.ready
	$(PEERS)/bin/python -m benchmarks race-stacking
	$(PEERS)/bin/python -m benchmarks dimensions
	$(PEERS)/bin/python -m benchmarks profile-stacking
	$(PEERS)/bin/python -m benchmarks race-end-to-end

paper: $(VENV)/.bench
	$(VENV)/bin/python -m benchmarks paper

paper-smoke: $(VENV)/.test
	$(VENV)/bin/python -m pytest tests/system/test_paper.py

fuzz: $(VENV)/.core
	$(VENV)/bin/python -m benchmarks faults

runs: $(VENV)/.bench
	$(VENV)/bin/python -m benchmarks make-runs --runs 60 --problem gmm --problem ring --problem unequal
	$(VENV)/bin/python -m benchmarks make-runs --runs 40 --problem gmm_noisy --problem ring_noisy \
		--problem multisensory --problem neuronal
	$(VENV)/bin/python -m benchmarks make-runs --runs 10 --problem banana6 --problem banana10
	$(VENV)/bin/python -m benchmarks make-runs --runs 20 --problem gaussian2 --problem rosenbrock2 \
		--problem at_a_bound --problem student_t --problem two_modes --problem gaussian5 --problem gaussian10 \
		--problem rosenbrock4 --problem rosenbrock6 --problem multisensory_exact --problem wave --problem cross \
		--problem vee --problem crescent --problem lognormal --problem contaminated --problem split \
		--problem hyperbolic --problem bent --problem skew_normal --problem copula --problem funnel \
		--problem plateau --problem skewed

clean:
	rm -rf $(VENV) $(PEERS) $(LOWEST) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
