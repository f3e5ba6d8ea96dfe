# Short targets: the `stunwatch` command does the work (.venv/bin/stunwatch --help).

UV_VERSION := 0.13.8
UV := build/uv/bin/uv
STUNWATCH := .venv/bin/stunwatch
PYTHON := .venv/bin/python
# More workers than cores, because tests of a pipeline wait. See tests/README.md.
PYTEST := $(PYTHON) -m pytest --numprocesses 3 --dist loadgroup --no-loadscope-reorder
SEED ?= 1

.PHONY: demo test test-unit test-slow test-release up down bench score generate docs lint format

demo: .venv/pipeline ## start the pipeline, replay an incident, feed live lines, show what was found
	$(STUNWATCH) demo

test: .venv/ready ## unit tests and those of one shared pipeline, five minutes
	$(PYTEST)

test-unit: .venv/ready ## tests that start nothing, one minute: on every save
	$(PYTEST) --numprocesses 2 --tier unit

test-slow: .venv/ready ## kills, a full disk, the browser, simulated nights
	$(PYTEST) --numprocesses 2 --tier slow

test-release: .venv/ready ## a large fleet, a year, runbooks, the secured variant: before a release
	$(PYTHON) -m pytest --tier release
	$(PYTHON) -m pytest --tier integration,slow tests/end_to_end --secure

up: .venv/pipeline
	$(STUNWATCH) up

down: .venv/pipeline
	$(STUNWATCH) down

bench: .venv/ready ## speeds as ratios, into build/bench.json
	$(PYTHON) -m tools.bench

score: .venv/ready ## simulate, replay, compare with the truth: make score SEED=7
	$(PYTHON) -m tools.score --seed $(SEED)

generate: .venv/ready ## JSON Schemas and SQL from the definitions in schemas/
	$(PYTHON) -m tools.generate

docs: generate ## the pages that are made of the folders
	$(PYTHON) -m tests.documentation.accept

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/sqlfluff lint sql
	.venv/bin/yamllint --strict .
	$(PYTHON) -m tests.documentation.plain

format: .venv/ready
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# One environment from the lock file; pip installs only uv. The packages for tests and lint are added when
# one of them first runs. The packages of the pipeline are not compiled here: Python compiles the modules that
# it imports, and most are never imported.
.venv/ready: pyproject.toml uv.lock .venv/pipeline
	$(UV) sync --frozen --quiet --compile-bytecode --extra pipeline
	touch $@

.venv/pipeline: pyproject.toml uv.lock
	test -x $(UV) || python3 -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) sync --frozen --quiet --inexact --no-dev --extra pipeline
	touch $@
