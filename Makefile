# The one door to the project. `make` alone lists what it can do.

PYTHON ?= python3
ARGS   ?=

VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/.ready
PIP   := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup run quick test check format bench reference golden soak lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  ARGS= is handed on to run, test, bench, soak and lock: make test ARGS='-k codec -x'"

setup: $(READY) ## Create .venv and install the pinned tools; does nothing when nothing changed

# The build backend goes in first and the build is not isolated: only so do the pins hold for the backend too.
$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

run: $(READY) ## Run a platform, three regions and their nodes on this machine, until Ctrl-C
	@exec $(BIN)/holdfast dev $(ARGS)

quick: $(READY) ## Lint, and the tests of the core, the ports' contracts and the architecture: under a minute
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/pytest -n 2 --dist loadfile --quiet tests/core tests/contract tests/architecture $(ARGS)

test: $(READY) ## Run every test except the soak tests
	$(BIN)/pytest -n 2 --dist loadfile --durations=10 $(ARGS)

check: $(READY) ## Lint, formatting, types, layers, architecture
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src tests
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest --quiet tests/architecture

format: $(READY) ## Sort imports, fix what can be fixed, format
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: $(READY) ## Run every benchmark: the core, a ledger on SQLite, the store, the API, the road, the scheduler, several schedulers, agents, limits, the simulator
	$(BIN)/holdfast bench core $(ARGS)
	$(BIN)/holdfast bench ledger $(ARGS)
	$(BIN)/holdfast bench store $(ARGS)
	$(BIN)/holdfast bench api $(ARGS)
	$(BIN)/holdfast bench road $(ARGS)
	$(BIN)/holdfast bench schedule $(ARGS)
	$(BIN)/holdfast bench sharing $(ARGS)
	$(if $(TRACES),$(BIN)/holdfast bench openb --traces $(TRACES) $(ARGS),@echo "holdfast bench openb needs the cluster trace: make bench TRACES=FOLDER")
	$(BIN)/holdfast bench agent $(ARGS)
	$(BIN)/holdfast bench limits $(ARGS)
	$(BIN)/holdfast bench sim $(ARGS)

reference: $(READY) ## Write the generated pages under docs/reference anew
	$(BIN)/python -m tests.support.generated.reference
	$(BIN)/python -m tests.support.generated.settings_reference
	$(BIN)/python -m tests.support.generated.cli_reference
	$(BIN)/python -m tests.support.generated.rules_map
	$(BIN)/python -m tests.support.generated.access_tables

golden: $(READY) ## Record a golden log where the newest is not what is written today
	$(BIN)/python -m tests.support.generated.golden_logs

soak: $(READY) ## Run the longer proofs
	HOLDFAST_HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m soak --timeout=3600 --durations=10 $(ARGS)

lock: $(READY) ## Pin again after a change of dependencies; ARGS=--upgrade moves to the newest versions
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --no-header \
		--no-emit-index-url --no-emit-find-links $(ARGS) --output-file constraints.txt pyproject.toml

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
