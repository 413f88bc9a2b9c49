# `make demo` and `make test` set everything up by themselves: .venv, requirements, the extension.
# What they take from outside:
#   PYTHON=python3.12        the Python that .venv is made with
#   USE_VENV=0               no .venv: use PYTHON as it is, with what is installed there
#   ARGS="..."               handed on to the program that the target runs; test: "-k sum -x"
#   ARCHS=native             GPUs to compile for: native (this machine's; wheels: all), all, or a list
#                            such as "8.0 9.0a"; TORCH_CUDA_ARCH_LIST says the same
#   MAX_JOBS=4, SMEM_CUDA=0  handed on to the build

PYTHON ?= python3
USE_VENV ?= 1
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

ifeq ($(USE_VENV),0)
PY := $(PYTHON)
CLANG_FORMAT := clang-format
READY :=
READY_DEV :=
else
PY := .venv/bin/python
CLANG_FORMAT := .venv/bin/clang-format
READY := .venv/.ready
READY_DEV := .venv/.ready-dev
endif

ARCHS := $(or $(ARCHS),$(TORCH_CUDA_ARCH_LIST))

CPP = $(shell find csrc tests bench torch_smem_gemm/exercises -name '*.h' -o -name '*.cuh' -o -name '*.cu' -o -name '*.cpp')

.PHONY: help
help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: extension  ## train a model on real images with these ops, beside torch's
	$(PY) -m torch_smem_gemm demo $(ARGS)

# In as many processes as there are cores; ARGS="-n 0" runs them in one, for a debugger, say.
PYTEST := $(PY) -m pytest -n auto --dist loadscope

.PHONY: test
test: extension $(READY_DEV)  ## run the test suite but for its wide sweeps: some minutes
	$(PYTEST) $(ARGS)

.PHONY: test-all
test-all: extension $(READY_DEV)  ## run the whole test suite
	$(PYTEST) --sweep $(ARGS)

.PHONY: test-gpu
test-gpu: extension $(READY_DEV)  ## run all tests that need a GPU
	$(PYTEST) --sweep -m gpu $(ARGS)

.PHONY: other-builds
other-builds: $(READY)  ## build for other GPUs than this one, to test what is missing then
	for archs in 7.5+PTX 8.0+PTX 9.0; do \
	  TORCH_CUDA_ARCH_LIST=$$archs $(PY) setup.py -q build --build-base build/other/$$archs/base \
	    --build-lib build/other/$$archs || exit 1; \
	done

.PHONY: sanitize
sanitize: extension  ## let compute-sanitizer watch every kernel on this GPU
	for tool in memcheck racecheck synccheck initcheck; do \
	  compute-sanitizer --tool $$tool --error-exitcode 1 $(PY) tests/sanitize.py || exit 1; \
	done

.PHONY: bench
bench: extension  ## time every op on this GPU beside torch: the whole picture
	$(PY) -m torch_smem_gemm bench all $(ARGS)

.PHONY: docs
docs: $(READY)  ## build the site of docs/ in site/; a warning is an error
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	$(PY) -m mkdocs build --strict

.PHONY: documents
documents: extension  ## write the figures of README and docs/: from bench/results, and from docstrings
	$(PY) -m torch_smem_gemm bench report
	PYTHONPATH=. $(PY) bench/pictures.py
	PYTHONPATH=. $(PY) bench/claims.py
	PYTHONPATH=. $(PY) bench/accuracy.py
	PYTHONPATH=. $(PY) bench/worst_case.py
	PYTHONPATH=. $(PY) bench/invariant_models.py
	PYTHONPATH=. $(PY) bench/training.py
	PYTHONPATH=. $(PY) bench/scaling.py
	PYTHONPATH=. $(PY) bench/invariance.py
	PYTHONPATH=. $(PY) bench/occupancy.py
	PYTHONPATH=. $(PY) bench/public_kernels.py
	PYTHONPATH=. $(PY) docs/write_api.py
	PYTHONPATH=. $(PY) docs/write_examples.py
	PYTHONPATH=. $(PY) docs/write_runs.py

.PHONY: extension
extension: $(READY)  ## compile what has changed
	@TORCH_CUDA_ARCH_LIST="$(or $(ARCHS),native)" $(PY) setup.py -q build_ext --inplace 2>&1 | \
	  $(PY) -m build_tools.progress

.PHONY: lint
lint: $(READY_DEV)  ## check style, types and words: ruff, mypy, clang-format, clang-tidy, codespell
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(if $(CPP),@$(CLANG_FORMAT) --dry-run -Werror $(CPP))
	$(PY) -m codespell_lib
	$(PY) -m build_tools.retired_words
	$(PY) -m build_tools.clang_tidy

.PHONY: format
format: $(READY_DEV)  ## rewrite the sources in that style
	$(PY) -m ruff check --fix --exit-zero
	$(PY) -m ruff format
	$(if $(CPP),@$(CLANG_FORMAT) -i $(CPP))

.PHONY: wheel
wheel: $(READY_DEV)  ## build dist/*.whl, for every GPU and every Linux as old as this one
	rm -rf build/lib* build/bdist* build/wheel dist/*.whl
	TORCH_CUDA_ARCH_LIST="$(or $(ARCHS),all)" $(PY) -m build --wheel --no-isolation --outdir build/wheel
	PATH="$(dir $(PY)):$$PATH" $(PY) -m auditwheel repair --only-plat --wheel-dir dist \
	  --exclude 'libtorch*' --exclude 'libc10*' build/wheel/*.whl

.PHONY: sdist
sdist: $(READY_DEV)  ## build dist/*.tar.gz
	$(PY) -m build --sdist --no-isolation

.PHONY: check-wheel
check-wheel: wheel  ## install that wheel beside torch alone, on every Python at hand, and use it there
	$(PY) -m build_tools.check_wheel

.PHONY: clean
clean:  ## remove all that was built; .venv stays
	rm -rf build dist site *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	rm -f torch_smem_gemm/*.so torch_smem_gemm/_ptxas.json torch_smem_gemm/_sources.json torch_smem_gemm/_places.json
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# pip would compile all of it to byte code: 45 s, for the few modules that a demo imports.
INSTALL := .venv/bin/python -m pip install --disable-pip-version-check --no-compile

.venv/.ready: requirements.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -r requirements.txt
	@touch $@

.venv/.ready-dev: requirements-dev.txt .venv/.ready
	$(INSTALL) -r requirements-dev.txt
	@echo "compiling byte code: the tests start many interpreters"
	@.venv/bin/python -m compileall -qq -j 0 .venv/lib > /dev/null || true  # some are templates
	@touch $@
