# Everything here runs in .venv, which the first command makes; `make help` lists the commands.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast lint format lock clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

install: $(INSTALLED)  ## create .venv with everything at pinned versions

# torch first and with its own dependencies, which differ between platforms; all else is in the
# lock, OpenNMT-py too, whose own pin of torch is out of date.
$(INSTALLED): requirements.lock pyproject.toml onmt_define.pth
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 12) else "error: $(PYTHON) is Python %d.%d, expected 3.11 or 3.12; say which to use: make PYTHON=python3.12 ..." % v)'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' requirements.lock)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(INSTALLED)  ## train and score two small models on a generated corpus (minutes, CPU)
	$(BIN)/snakemake --cores all --configfile configs/demo.yaml

# Two processes more than there are cores, since many tests wait, with one thread each; tests of a
# file share what takes long to make.
test: $(INSTALLED)  ## run all tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 2)) --maxprocesses 6 \
		--dist loadfile --no-loadscope-reorder

test-fast: $(INSTALLED)  ## run the tests that take seconds
	$(BIN)/pytest -m "not slow"

lint: $(INSTALLED)  ## check the style of code and rules, as CI does
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules

format: $(INSTALLED)  ## bring code and rules into the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

lock: $(INSTALLED)  ## write requirements.lock anew from the ranges in pyproject.toml
	sh scripts/lock.sh "$(PYTHON)" "$$(grep '^torch==' requirements.lock)" > requirements.lock.new
	mv requirements.lock.new requirements.lock

clean:  ## delete .venv, data and results
	rm -rf $(VENV) data results .snakemake dist
