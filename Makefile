# One virtual environment, in the checkout. Every verb works after `make setup`.
VENV ?= .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1

.PHONY: setup check format test test-slow test-deepinv bench-deepinv test-diffusers test-azula test-sbi test-nufft mutate docs bench release

setup:  ## install the package with all extras and the developers' tools
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet -e '.[dev,docs]'

check:  ## format, lint, types, import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format:
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test:  ## tests, docstring examples, README examples, on all cores
	$(BIN)/pytest --numprocesses auto --dist loadfile --durations 40

test-slow:
	$(BIN)/pytest -m slow

test-deepinv: OTHER := .venv-deepinv/bin
test-deepinv:  ## with deepinv, whose torchvision needs another torch: an environment of its own
	test -x $(OTHER)/python || python3 -m venv .venv-deepinv
	$(OTHER)/python -m pip install --quiet torch==2.14.1 torchvision==0.29.1 deepinv
	$(OTHER)/python -m pip install --quiet -e '.[data]' hypothesis pytest sybil
	$(OTHER)/pytest tests/operators/test_adapters.py tests/reconstruction/test_reconstructor.py
	$(OTHER)/bcdm benchmark deepinv --json benchmarks/deepinv.json

bench-deepinv: OTHER := .venv-deepinv/bin
bench-deepinv: test-deepinv  ## every physics of deepinv reconstructed: minutes each
	$(OTHER)/bcdm benchmark deepinv --fallback --json benchmarks/deepinv-fallback.json

test-diffusers: OTHER := .venv-diffusers/bin
test-diffusers:  ## with diffusers, in an environment of its own
	test -x $(OTHER)/python || python3 -m venv .venv-diffusers
	$(OTHER)/python -m pip install --quiet torch==2.13.0 diffusers
	$(OTHER)/python -m pip install --quiet -e . hypothesis pytest sybil
	$(OTHER)/pytest tests/diffusion/test_pretrained.py

test-azula: OTHER := .venv-azula/bin
test-azula:  ## with azula, whose torchvision needs another torch: its methods take the exam
	test -x $(OTHER)/python || python3 -m venv .venv-azula
	$(OTHER)/python -m pip install --quiet torch==2.14.1 torchvision==0.29.1 azula
	$(OTHER)/python -m pip install --quiet -e . hypothesis pytest sybil
	$(OTHER)/pytest tests/plugin/test_azula.py
	PYTHONPATH=examples/azula $(OTHER)/bcdm benchmark mixture --method azula_methods:MMPS --method azula_methods:TMPD --calls 50 \
	    --case 8/1 --case 8/2 --case 8/4 --json benchmarks/azula.json

test-nufft: OTHER := .venv-nufft/bin
test-nufft:  ## with mri-nufft, which wants a newer numpy: an environment of its own
	test -x $(OTHER)/python || python3 -m venv .venv-nufft
	$(OTHER)/python -m pip install --quiet torch==2.13.0
	$(OTHER)/python -m pip install --quiet -e '.[nufft]' hypothesis pytest sybil
	$(OTHER)/pytest tests/operators/test_trajectories.py

test-sbi: OTHER := .venv-sbi/bin
test-sbi:  ## with sbi, in an environment of its own: its flow takes the exam
	test -x $(OTHER)/python || python3 -m venv .venv-sbi
	$(OTHER)/python -m pip install --quiet torch==2.13.0 sbi
	$(OTHER)/python -m pip install --quiet -e . hypothesis pytest sybil
	$(OTHER)/pytest tests/plugin/test_sbi.py
	PYTHONPATH=examples/sbi $(OTHER)/bcdm benchmark mixture --method sbi_methods:NPE --calls 1 \
	    --case 8/1 --case 8/2 --case 8/4 --json benchmarks/sbi.json

mutate:  ## do the tests notice small changes to the code? Record in benchmarks/mutation.json
	$(BIN)/python tools/mutation

docs:  ## the site, in site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

release:  ## wheels and sdists in dist/, tried in an environment of their own
	.ci/release

bench:  ## every benchmark, records in benchmarks/
	$(BIN)/bcdm benchmark moments --json benchmarks/moments.json
	$(BIN)/bcdm benchmark overhead --json benchmarks/overhead.json
	$(BIN)/bcdm benchmark mixture --json benchmarks/mixture.json
	$(BIN)/bcdm benchmark learned --json benchmarks/learned.json
	$(BIN)/bcdm benchmark service --json benchmarks/service.json
