# The two commands: `make run` and `make test`. Everything else is for people who change Foretide.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOAK_MINUTES ?= 30
SOAK_SEED ?= 1
PIP_INSTALL := sh scripts/install.sh $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.PHONY: run test test-fast soak check format bench experiments docs clean

run: $(VENV)/.run
	@echo "Starting the demonstration; it takes about two minutes ..."
	@$(BIN)/foretide demo url-count --dashboard

test: $(VENV)/.dev
	@sh scripts/test.sh $(BIN)/python

test-fast: $(VENV)/.dev
	@$(BIN)/python -m pytest -m "not spark and not soak"

soak: $(VENV)/.dev
	@$(BIN)/foretide soak --minutes $(SOAK_MINUTES) --seed $(SOAK_SEED)
	@$(BIN)/python -m pytest -m soak

check: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks

experiments: $(VENV)/.dev
	@$(BIN)/foretide bench --resume

docs: $(VENV)/.dev
	@$(BIN)/python scripts/reference.py
	@$(BIN)/python scripts/rest_reference.py
	@$(BIN)/python scripts/grafana.py
	@$(BIN)/python -m benchmarks.experiments.markdown
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "docs: open site/index.html"

clean:
	rm -rf $(VENV) site build dist

$(VENV)/.run: pyproject.toml constraints.txt
	@sh scripts/preflight.sh "$(PYTHON)"
	@echo "Setting up $(VENV) (once; PySpark is a 450 MB download) ..."
	@test -x $(BIN)/python || sh scripts/install.sh "$(PYTHON)" -m venv $(VENV)
	@$(PIP_INSTALL) -e '.[dashboard,kafka,plot]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "Adding the tools for development ..."
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@
