# Two commands on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
# The environment lives in .venv. Each stamp file marks one set of installed packages: the package itself, the tools for
# the checks, the tools for the documentation. Stamps are renewed only when pyproject.toml changes.
PYTHON ?= python3
PYTHONS ?= $(PYTHON)
WORKERS ?= auto
FUZZ_MINUTES ?= 5
BIN := .venv/bin
PACKAGE := .venv/.package
STAMP := .venv/.installed
DOCS_STAMP := .venv/.docs
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -e

.DEFAULT_GOAL := help
.PHONY: help env demo test lint check format docs wheel bench results results-check pages fuzz clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-13s %s\n", $$1, $$2}'

$(PACKAGE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Rankwright needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up .venv (once, about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(INSTALL) .
	@touch $@

$(STAMP): $(PACKAGE)
	@echo "Installing the tools for the checks (once) ..."
	@$(INSTALL) '.[dev]'
	@touch $@

env: $(STAMP) ## set up .venv with the tools for the checks

demo: $(PACKAGE) ## from text to learned rankers, compared with BM25, in about a minute
	@$(BIN)/rankwright demo -o demo

test: $(STAMP) ## run the tests on all cores
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: $(STAMP) ## format check, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## what CI runs: lint, then the tests

format: $(STAMP) ## format the code and apply the linter's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(DOCS_STAMP): $(STAMP)
	@$(INSTALL) '.[docs]'
	@touch $@

docs: $(DOCS_STAMP) ## build the documentation site into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in site/index.html"

wheel: ## build the wheel and try it in an empty environment without write access, for PYTHONS
	@$(PYTHON) benchmarks/check_wheel.py $(PYTHONS)

bench: $(STAMP) ## run the benchmarks and print speed ratios
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

results: $(STAMP) ## rerun the figures that are out of date (DATA=folder or RANKWRIGHT_DATA), then make the pages
	@$(BIN)/python benchmarks/results.py run $(if $(DATA),--data $(DATA))

results-check: $(STAMP) ## list the figures that are older than the code behind them; runs nothing
	@$(BIN)/python benchmarks/results.py check

pages: $(STAMP) ## make the pages from the figures that there are; after a change of code or of a template
	@$(BIN)/python benchmarks/results.py pages

fuzz: $(STAMP) ## damaged inputs of every kind for FUZZ_MINUTES (5); goes on where the last run stopped
	@$(BIN)/python benchmarks/fuzz.py --minutes $(FUZZ_MINUTES)

clean: ## remove .venv and caches
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
