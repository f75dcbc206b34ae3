# Every target does its own set-up: a clone, Python 3.11+, make and git are enough.

PYTHON ?= python3
VENV := .venv
DOCS_VENV := .venv-docs
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
LOCK := $(UV) pip compile --universal --python-version 3.11 --generate-hashes --quiet \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

# As pip and git do, trust the certificates of the machine: behind a company proxy only those are right.
export UV_SYSTEM_CERTS ?= true

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo telemetry check test test-full lint format types bench bench-full bench-check docs docs-serve lock \
	clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.installed ## make .venv with the locked versions and the project in it

demo: setup ## a table log of a million files, read before and after a metadata sidecar is built
	$(PY) examples/demo.py $(ARGS)

telemetry: setup ## telemetry is streamed in by Spark, and the last hour asked for while it streams
	$(PY) examples/telemetry/stream.py $(ARGS)

check: lint types ## lint, types and the quickest tests, while you work
	$(PY) -m pytest --tier check $(ARGS)

test: setup ## the tests that every change has to pass (ARGS='-k name' for some)
	PROPERTY_EFFORT=$${PROPERTY_EFFORT:-0.3} $(PY) -m pytest --tier test --durations 50 $(ARGS)

test-full: setup ## every test, with more effort
	PROPERTY_EFFORT=$${PROPERTY_EFFORT:-1} $(PY) -m pytest --tier full --durations 50 $(ARGS)

lint: setup ## check style, formatting and that the locks hold no addresses
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	@! grep -nE '://|--index-url|--find-links|file:|@ ' requirements/*.txt

format: setup ## format the code and apply the safe fixes
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

types: setup ## check types, strictly
	$(VENV)/bin/mypy

bench: setup ## measure beside other readers, in one run: 10 minutes (ARGS=... is passed on)
	$(PY) -m bench $(ARGS)

bench-full: setup ## the same with all tables, readers and suites: hours, and 30 GB of disk
	$(PY) -m bench --full $(ARGS)

bench-check: setup ## fail where reading logs has become slower than it was (ARGS=--update stores how fast it is)
	$(PY) -m bench.check $(ARGS)

docs: $(DOCS_VENV)/.installed ## build the documentation into site/
	$(DOCS_VENV)/bin/mkdocs build --strict
	@echo "site/index.html (its search works over http: make docs-serve)"

docs-serve: $(DOCS_VENV)/.installed ## show the documentation at http://127.0.0.1:8000, with its search
	$(DOCS_VENV)/bin/mkdocs serve --strict $(ARGS)

lock: $(VENV)/.uv ## write the locks again from pyproject.toml (UPGRADE=1 moves versions)
	$(LOCK) --group uv --output-file requirements/uv.txt
	$(LOCK) pyproject.toml --group dev --output-file requirements/dev.txt
	$(LOCK) --group docs --output-file requirements/docs.txt
	$(LOCK) --group duckdb-delta --output-file requirements/duckdb-delta.txt

clean: ## remove everything that make has made
	rm -rf $(VENV) $(DOCS_VENV) site dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv comes first, by pip and pinned by hash; it then installs the rest.
$(VENV)/.uv: requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "delta-sidecar needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
			"Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.uv requirements/dev.txt pyproject.toml
	$(UV) pip sync --quiet --python $(PY) --require-hashes requirements/dev.txt
	$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS_VENV)/.installed: $(VENV)/.uv requirements/docs.txt
	$(UV) venv --quiet --allow-existing --python $(PY) $(DOCS_VENV)
	$(UV) pip sync --quiet --python $(DOCS_VENV)/bin/python --require-hashes requirements/docs.txt
	@touch $@
