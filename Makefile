# Every target makes .venv first; nothing but git, make and Python 3.11 or newer is needed.

TORCH := 2.13.0
PYTEST_ARGS ?=
BENCH_ARGS ?=
WORKERS ?= 2
SECONDS ?= 600
FUZZ_ARGS ?=

# The first Python that is new enough and can make a virtual environment.
PYTHON ?= $(shell for p in python3.11 python3.13 python3.12 python3; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
FIND_PYTHON = python="$(PYTHON)"; [ -n "$$python" ] || \
	{ echo "error: no Python 3.11 or newer (with venv) found; name one: make $(or $(MAKECMDGOALS),venv) PYTHON=path/to/python3" >&2; exit 1; }

BIN := .venv/bin
STAMP := .venv/.complete
PIP := -m pip --disable-pip-version-check -qq
ONE_THREAD := OMP_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS)
# Tests marked plain run without jaxtyping's import hook: torch.compile cannot trace through it, and bad input must meet
# our own errors. Their files end in _plain.
PLAIN := $$(find tests -name '*_plain.py') -o addopts='--strict-markers --import-mode=importlib'

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-slow fuzz lint format bench speed docs serve lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

venv: $(STAMP) ## make .venv from requirements.lock, with hardmax installed in place

# The stamp is written last and removed first: without it .venv may be half made, and is made anew.
$(STAMP): requirements.lock pyproject.toml
	@$(FIND_PYTHON); [ -e $@ ] || "$$python" -m venv --clear .venv
	@rm -f $@
	@echo "installing the packages of requirements.lock into .venv (the first time takes minutes)"
	@$(BIN)/python $(PIP) install -r requirements.lock
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

demo: venv ## train four estimators on the embedded images and write hardmax-demo/report.html
	$(BIN)/hardmax demo

# Both calls always run. pytest's code 5, "nothing collected", is fine when PYTEST_ARGS selects tests.
test: venv ## run the tests; options for pytest in PYTEST_ARGS, such as PYTEST_ARGS="-k direct"
	@failed=0; allow() { [ $$? -eq 5 ] && [ -n '$(subst ','\'',$(PYTEST_ARGS))' ]; }; \
	$(PYTEST) $(PYTEST_ARGS) || allow || failed=1; \
	$(PYTEST) $(PLAIN) -m 'plain and not slow' $(PYTEST_ARGS) || allow || failed=1; \
	exit $$failed

test-slow: venv ## run only the tests marked slow
	@failed=0; \
	$(PYTEST) -m 'slow and not plain' $(PYTEST_ARGS) || [ $$? -eq 5 ] || failed=1; \
	$(PYTEST) $(PLAIN) -m 'slow and plain' $(PYTEST_ARGS) || [ $$? -eq 5 ] || failed=1; \
	exit $$failed

fuzz: venv ## try to break hardmax for SECONDS=600 s: mutated files, kills, full disks, hostile names; options in FUZZ_ARGS
	$(ONE_THREAD) $(BIN)/python -m tools.fuzz --seconds $(SECONDS) --workers $(WORKERS) $(FUZZ_ARGS)

lint: venv ## check style, formatting, types, the direction of imports, and words
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python tools/check_words.py

format: venv ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: venv ## run the benchmarks on one thread; their options in BENCH_ARGS
	$(ONE_THREAD) $(BIN)/python -m benchmarks $(BENCH_ARGS)

speed: venv ## compare our code with hand-written code on one thread; --save in BENCH_ARGS writes docs/results/speed.md
	$(ONE_THREAD) $(BIN)/python -m benchmarks.speed $(BENCH_ARGS)

docs: venv ## build the documentation into site/; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

serve: venv ## show the documentation at http://127.0.0.1:8000 and rebuild it on changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# torch first and by exact version, so that nothing else can choose another one.
lock: ## pin the newest versions of all packages in requirements.lock
	@$(FIND_PYTHON); set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir" requirements.lock.new' EXIT; \
	"$$python" -m venv "$$dir"; \
	"$$dir/bin/python" $(PIP) install torch==$(TORCH); \
	"$$dir/bin/python" $(PIP) install '.[dev,solvers]'; \
	"$$dir/bin/python" $(PIP) freeze --exclude hardmax > "$$dir/frozen"; \
	{ echo "# Every package for developing hardmax, pinned. Made by \`make lock\`: do not edit."; \
	  echo "# Used by \`make venv\`; the packages asked for stand in pyproject.toml (core and the extras dev and solvers)."; \
	  sed -E 's/^(torch==[^+]*)\+.*/\1/' "$$dir/frozen"; \
	} > requirements.lock.new; \
	mv requirements.lock.new requirements.lock

clean: ## remove everything made here, .venv too
	rm -rf .venv site build dist fuzz-defects .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
