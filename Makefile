# `make demo` and `make test` set everything up by themselves: .venv, requirements, the extension.
# What they take from outside:
#   PYTHON=python3.12        the Python that .venv is made with
#   USE_VENV=0               no .venv: use PYTHON as it is, with what is installed there
#   ARGS="..."               handed on to the program that the target runs; test: "-k sum -x"
#   TORCH_CUDA_ARCH_LIST=9.0a, MAX_JOBS=4, SMEM_CUDA=0      handed on to the build

PYTHON ?= python3
USE_VENV ?= 1
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

ifeq ($(USE_VENV),0)
PY := $(PYTHON)
CLANG_FORMAT := clang-format
READY :=
else
PY := .venv/bin/python
CLANG_FORMAT := .venv/bin/clang-format
READY := .venv/.ready
endif

CPP = $(shell find csrc tests bench -name '*.h' -o -name '*.cuh' -o -name '*.cu' -o -name '*.cpp')

.PHONY: help
help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: extension  ## train a model on real images with these ops, beside torch's
	$(PY) -m torch_smem_gemm demo $(ARGS)

# In as many processes as there are cores; ARGS="-n 0" runs them in one, for a debugger, say.
PYTEST := $(PY) -m pytest -n auto --dist loadscope

.PHONY: test
test: extension  ## run the test suite but for its wide sweeps: some minutes
	$(PYTEST) $(ARGS)

.PHONY: test-all
test-all: extension  ## run the whole test suite
	$(PYTEST) --sweep $(ARGS)

.PHONY: test-gpu
test-gpu: extension  ## run all tests that need a GPU
	$(PYTEST) --sweep -m gpu $(ARGS)

.PHONY: sanitize
sanitize: extension  ## let compute-sanitizer watch every kernel on this GPU
	for tool in memcheck racecheck synccheck initcheck; do \
	  compute-sanitizer --tool $$tool --error-exitcode 1 $(PY) tests/sanitize.py || exit 1; \
	done

.PHONY: bench
bench: extension  ## time every op on this GPU beside torch: the whole picture
	$(PY) -m torch_smem_gemm bench all $(ARGS)

.PHONY: docs
docs: extension  ## write README's tables and docs/*.md: from bench/results, and from docstrings
	$(PY) -m torch_smem_gemm bench report
	PYTHONPATH=. $(PY) bench/claims.py
	PYTHONPATH=. $(PY) bench/accuracy.py
	PYTHONPATH=. $(PY) bench/training.py
	PYTHONPATH=. $(PY) bench/invariance.py
	PYTHONPATH=. $(PY) bench/occupancy.py
	PYTHONPATH=. $(PY) docs/write_api.py

.PHONY: extension
extension: $(READY)  ## compile what has changed
	@# ninja prints whole command lines; the name of the file that each compiles is enough.
	@$(PY) setup.py -q build_ext --inplace 2>&1 | \
	  sed -uE '/^ninja: no work/d; s|^(\[[0-9]+/[0-9]+\]) .* -c $(CURDIR)/([^ ]+) .*|\1 \2|'

.PHONY: lint
lint: $(READY)  ## check style and types: ruff, mypy, clang-format
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(if $(CPP),@$(CLANG_FORMAT) --dry-run -Werror $(CPP))

.PHONY: format
format: $(READY)  ## rewrite the sources in that style
	$(PY) -m ruff check --fix --exit-zero
	$(PY) -m ruff format
	$(if $(CPP),@$(CLANG_FORMAT) -i $(CPP))

.PHONY: wheel
wheel: $(READY)  ## build dist/*.whl
	rm -rf build/lib* build/bdist*
	$(PY) -m build --wheel --no-isolation

.PHONY: check-wheel
check-wheel: wheel  ## install that wheel beside torch alone, and use it there
	rm -rf build/clean
	$(PY) -m venv build/clean
	build/clean/bin/python -m pip install --disable-pip-version-check -q \
	  $$(grep '^torch==' requirements.txt) dist/*.whl
	cd build/clean && bin/python -m torch_smem_gemm info
	cd build/clean && bin/python $(CURDIR)/examples/train_gpt.py --steps 3 --write 20

.PHONY: clean
clean:  ## remove all that was built; .venv stays
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	rm -f torch_smem_gemm/*.so torch_smem_gemm/_ptxas.json torch_smem_gemm/_sources.json
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.venv/.ready: requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --disable-pip-version-check -r requirements.txt
	@touch $@
