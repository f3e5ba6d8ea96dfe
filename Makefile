# Everything is thin: the work is in the `stunwatch` command (.venv/bin/stunwatch --help).

UV_VERSION := 0.13.8
UV := build/uv/bin/uv
STUNWATCH := .venv/bin/stunwatch
PYTHON := .venv/bin/python
SEED ?= 1

.PHONY: demo test test-slow test-scale test-runbooks up down bench score docs lint format

demo: .venv/ready ## start the pipeline, replay the bundled incident, show what was found
	$(STUNWATCH) demo

test: .venv/ready ## the tests, half an hour
	$(PYTHON) -m pytest

test-slow: .venv/ready ## faults, simulated evenings, the browser: twenty-five minutes
	$(PYTHON) -m pytest -m slow

test-scale: .venv/ready ## how fast over a large fleet, a year, ten seeds: on a machine that does nothing else
	$(PYTHON) -m pytest -m scale

test-runbooks: .venv/ready ## the commands of docs/runbooks while lines come in, seven minutes
	$(PYTHON) -m pytest -m runbooks

up: .venv/ready
	$(STUNWATCH) up

down: .venv/ready
	$(STUNWATCH) down

bench: .venv/ready ## speeds as ratios, into build/bench.json
	$(PYTHON) -m stunwatch.bench

score: .venv/ready ## simulate, replay, compare with the truth: make score SEED=7
	$(PYTHON) -m stunwatch.score --seed $(SEED)

docs: .venv/ready ## the pages that are made of the folders
	$(PYTHON) -m tests.documentation.accept

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/sqlfluff lint sql
	.venv/bin/yamllint --strict .

format: .venv/ready
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# One environment from the lock; uv is the only thing that pip installs.
.venv/ready: pyproject.toml uv.lock
	test -x $(UV) || python3 -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) sync --frozen --quiet --compile-bytecode
	touch $@
