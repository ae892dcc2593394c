# One vocabulary for people and CI. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.gpuyard-stamp
# Three on two cores: tests wait, too, for programs that start and for time-outs (387 s, not 539).
PYTEST_FLAGS ?= -n 3 --dist worksteal

# Modules are compiled once: where that is off, each of hundreds of processes does it anew.
unexport PYTHONDONTWRITEBYTECODE

# Equal runs everywhere: fixed hashes, one thread a process, nothing sent out.
export PYTHONHASHSEED := 0
export OMP_NUM_THREADS := 1
export RAY_USAGE_STATS_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help setup demo reproduce test check ray-test page-test browser unit lint type arch warm warm-kernel \
    warm-queues warm-scores warm-rare docs fmt census lock

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

setup: $(STAMP)  ## make .venv with the locked versions and this project (skipped when up to date)

# A package that is new since the installation has to be made known, hence the packages here.
PACKAGES := $(wildcard $(addsuffix /__init__.py,sim interference gnn marl gpuyard))

# pip unpacks and compiles on one core: the locked packages are told it in parts, side by side; what
# another kind of machine needs besides comes with the second call. Modules are compiled on the side,
# 25 s of two cores, but for what no program of ours loads; what is imported sooner compiles itself.
UNUSED := -x '/(tests?|graph_objs|lexers|_inductor|testing|pip|mypyc?)/'
$(STAMP): requirements.lock setup.cfg pyproject.toml $(PACKAGES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "Python 3.11 or newer is needed; name one with: make setup PYTHON=python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV); the first time takes a minute or two"
	grep == requirements.lock | xargs -n 25 -P 2 $(BIN)/python -m pip install -qq --no-compile --no-deps
	$(BIN)/python -m pip install -qq --no-compile --requirement requirements.lock
	$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@
	@nice -n 19 $(BIN)/python -m compileall -qq -j 0 $(UNUSED) $(VENV)/lib < /dev/null > /dev/null 2>&1 &

demo: setup  ## fit, learn for a few minutes, compare: table and figures in runs/demo
	$(BIN)/python scripts/demo.py

reproduce: setup  ## list tables and figures of papers; ID=<id> runs one, and goes on where it was stopped
	$(BIN)/python scripts/reproduce.py $(if $(ID),experiment=$(ID)) $(ARGS)

# Compiling takes minutes, and two test processes that need the same function would both compile it:
# so it is done before, the event kernel first and then what is built on it, beside the checks of types.
test check ray-test page-test unit warm-kernel warm-queues warm-scores warm-rare: export NUMBA_NUM_THREADS := 1
test: setup  ## everything CI checks
	$(MAKE) --no-print-directory -j2 --output-sync=target lint type arch browser warm
	$(MAKE) --no-print-directory unit

check: export PYTEST_MARKS := -m "not ray_cluster"
check: test  ## the same with the slow tests

ray-test: setup  ## train on a real cluster of loopback nodes: one is killed, one joins, the driver dies and resumes
	$(BIN)/python -m pytest -m ray_cluster tests/marl/test_ray_cluster.py \
	    tests/training/test_learn_cluster.py

page-test: browser  ## open report.html in a headless Chromium, large ones too
	$(BIN)/python -m pytest -m browser tests/pages/test_browser.py

browser: setup  # for tests of pages: one that is there, else the distribution's, else Playwright's own
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null \
	  || command -v google-chrome > /dev/null || test -x "$$GPUYARD_CHROMIUM" \
	  || { test "$$(id -u)" = 0 && apt-get -qq update && apt-get -qq install -y chromium; } > /dev/null 2>&1 \
	  || $(BIN)/playwright install chromium > /dev/null 2>&1 \
	  || { echo "error: no browser for the tests of pages: apt-get install chromium, or set GPUYARD_CHROMIUM to its path" >&2; exit 1; }

lint: setup  ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: setup  ## types, strictly
	$(BIN)/mypy

arch: setup  ## which package may import which
	$(BIN)/lint-imports

WARM = $(BIN)/python scripts/simulate.py workload.num_jobs=50 hydra.run.dir=runs/$@ > /dev/null

warm: warm-queues warm-scores warm-rare  ## compile the simulator; the result is kept beside the sources

warm-kernel: setup
	$(WARM) compiled=false

warm-queues: warm-kernel  # one engine plays every queue scheduler, so any of them compiles it
	$(WARM) scheduler=sjf
	$(WARM) scheduler=marl scheduler.checkpoint=pretrained agents.count=2

warm-scores: warm-kernel
	$(WARM) scheduler=linear_score agents.count=2
	$(WARM) scheduler=linear_score agents.count=2 compiled=false

warm-rare: warm-kernel  # links that jobs share, placers that look at more than free GPUs
	$(WARM) scheduler=lif network=max_min

PYTEST_MARKS ?= -m "not slow and not ray_cluster"
unit: setup  ## tests without the slow ones
	$(BIN)/python -m pytest $(PYTEST_FLAGS) $(PYTEST_MARKS)

docs: export NO_MKDOCS_2_WARNING := 1
docs: setup  ## the page of keys, and the site in build/site (MkDocs is installed the first time)
	$(BIN)/python -m gpuyard.documentation
	test -x $(BIN)/mkdocs || $(BIN)/python -m pip install -qq --constraint requirements.lock 'mkdocs-material >= 9.6'
	$(BIN)/mkdocs build --quiet --strict

census: setup  ## how large the house is: lines, files, rooms, words
	$(BIN)/python benchmarks/census.py

fmt: setup  ## reformat, and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup  ## write requirements.lock anew from .venv
	{ sed '/^[^#]/d' requirements.lock; \
	  $(BIN)/python -m pip freeze --all --exclude-editable \
	  | sed -E 's/\+[a-z0-9.]+$$//' | grep -ivE '^(pip|gpuyard)==' | LC_ALL=C sort -f; \
	} > requirements.lock.new
	mv requirements.lock.new requirements.lock
