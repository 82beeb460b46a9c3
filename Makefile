# Two commands on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
# The environment lives in .venv and is made once; it is made again only when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DOCS_STAMP := .venv/.docs

.DEFAULT_GOAL := help
.PHONY: help env demo test check format docs bench clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-8s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Rankwright needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up .venv (once, about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

env: $(STAMP) ## make .venv and install what is needed

demo: $(STAMP) ## from text to learned rankers, compared with BM25, in about a minute
	@$(BIN)/rankwright demo --out demo

test: $(STAMP) ## run the tests
	@$(BIN)/python -m pytest

check: $(STAMP) ## format check, lint, types, import rules, tests: what CI runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

format: $(STAMP) ## format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(DOCS_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: $(DOCS_STAMP) ## build the documentation site into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in site/index.html"

bench: $(STAMP) ## run the benchmarks and print ratios to the peers
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean: ## remove .venv and caches
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
