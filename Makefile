# The one door. `make help` lists what there is.

PYTHON ?= python3
HOST   ?= 127.0.0.1
PORT   ?= 8050
SECONDS ?= 600

venv   := .venv
python := $(venv)/bin/python
pip    := $(python) -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test check fmt oracle fuzz bench bench-browser traces browser clean

help:  ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: $(venv)/runtime  ## start the app on http://127.0.0.1:8050 (PORT=… HOST=…)
	HOST=$(HOST) PORT=$(PORT) $(python) app.py

test: $(venv)/dev browser  ## set up everything and run every test
	@$(python) -m pytest -m "not browser"; first=$$?; \
	$(python) -m pytest -m browser; second=$$?; \
	exit $$((first | second))

check: $(venv)/dev  ## lint, types and import contracts
	$(venv)/bin/ruff check .
	$(venv)/bin/ruff format --check .
	$(venv)/bin/mypy
	$(venv)/bin/lint-imports

fmt: $(venv)/dev  ## format the code
	$(venv)/bin/ruff format .
	$(venv)/bin/ruff check --fix .

oracle: $(venv)/dev  ## score the colocation engine against TensorFlow itself
	$(python) -m tests.oracle

fuzz: $(venv)/dev  ## change files at random for ten minutes and read them (SECONDS=…)
	$(pip) install --quiet --group fuzz
	$(python) -m tests.fuzz $(SECONDS)

bench: $(venv)/dev browser  ## measure, and print what was measured
	$(python) -m benchmarks.bench

bench-browser: $(venv)/dev browser  ## measure the timeline in a browser against its goals
	$(python) -m benchmarks.browser

traces: $(venv)/runtime  ## capture the sample runs in traces/ anew
	$(python) traces/programs/make_traces.py

browser:  ## install Debian's chromium and its driver, where that is allowed
	@if command -v chromedriver >/dev/null || ! command -v apt-get >/dev/null; then :; \
	elif [ "$$(id -u)" != 0 ]; then \
	    echo 'browser tests need: apt-get install chromium chromium-driver'; \
	else \
	    apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium chromium-driver \
	        >/dev/null || echo 'chromium could not be installed; its tests are skipped'; \
	fi

clean:  ## remove the virtual environment and caches
	rm -rf $(venv) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Debian keeps ensurepip in a package of its own.
$(venv)/bin/python:
	$(PYTHON) -m venv $(venv) || { rm -rf $(venv); \
	    apt-get update -qq && apt-get install -qq -y python3-venv && \
	    $(PYTHON) -m venv $(venv); }
	$(pip) install --quiet --upgrade pip

$(venv)/runtime: requirements.txt | $(venv)/bin/python
	$(pip) install --quiet -r requirements.txt
	@touch $@

$(venv)/dev: pyproject.toml $(venv)/runtime
	$(pip) install --quiet --group dev
	$(pip) install --quiet --no-deps --editable .
	@touch $@
