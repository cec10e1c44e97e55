# Two commands do everything: `make demo` and `make test`. Set-up is tools/environment, and costs nothing the second time.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test fallback check fix fuzz sanitize mutants bench docs scoreboard wheel deb sbom audit lock clean

BIN := .venv/bin
ARGS ?=
SECONDS ?= 1200

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## set up, then see it work
	@tools/environment use
	@$(BIN)/tamis demo

# The order of sets is the same in every run, too; tools/fuzz varies it.
test: export PYTHONHASHSEED := 0
test: check ## set up, then everything that must hold: check, then all tests, in parallel; the same examples every time
	$(BIN)/pytest --numprocesses auto --dist worksteal --quiet $(ARGS)

fallback: export PYTHONHASHSEED := 0
fallback: export TAMIS_CORE := off
fallback: ## laws, models, kernels and mail without the compiled core, as on a machine without a compiler
	@tools/environment dev
	$(BIN)/pytest --numprocesses auto --dist worksteal --quiet tests/laws tests/models tests/kernels tests/mail $(ARGS)

check: ## format, lint, types, import contracts, examples in the docs
	@tools/environment dev
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/python tools/plain_names
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest --quiet --doctest-modules src README.md docs

fix: ## format, and mend what the linter can
	@tools/environment dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: ## run the properties with fresh seeds for SECONDS=1200 and keep failing examples in build/fuzz (ARGS="tests/models -k …")
	@tools/environment dev
	@$(BIN)/python tools/fuzz --seconds $(SECONDS) $(ARGS)

sanitize: ## run Python with a core that AddressSanitizer and UBSan observe (ARGS="-m benchmarks.fuzz_core --inputs 1000")
	@tools/environment dev
	@$(BIN)/python tools/sanitize $(ARGS)

mutants: ## plant small defects and list those that no test notices (ARGS="tamis.decide"; all modules take hours)
	@tools/environment dev
	@$(BIN)/python tools/mutants $(ARGS)

bench: ## time each case against its peer (ARGS="name … --repeats N")
	@tools/environment dev
	@$(BIN)/python -m benchmarks $(ARGS)

docs: ## build the pages into build/docs; a warning is an error
	@tools/environment dev
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto docs build/docs
	@echo build/docs/index.html

wheel: ## build the sdist and a wheel into dist/, audit it and try it in an empty environment (ARGS="python3.12 python3.13")
	@tools/environment dev
	@tools/wheel $(ARGS)

scoreboard: ## write docs/reference/scoreboard.md from benchmarks/results
	@tools/environment dev
	@$(BIN)/python -m benchmarks.scoreboard

deb: ## build Debian packages into dist/ (Debian only; sudo tools/try_deb tries them in a clean Debian)
	@tools/deb

sbom: ## write the bill of materials (CycloneDX) into dist/, and docs/reference/licences.md
	@tools/environment dev
	@$(BIN)/python tools/sbom

audit: sbom ## check the locked packages; with OSV's advisories for vulnerabilities, too (ARGS=all.zip)
	@$(BIN)/python tools/audit $(ARGS)

lock: ## write requirements/*.txt anew from pyproject.toml (needs uv; ARGS=--upgrade moves to newest versions)
	tools/lock $(ARGS)

clean: ## remove all that was made here, .venv included
	rm -rf .venv build dist docs/auto_gallery docs/sg_execution_times.rst .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
