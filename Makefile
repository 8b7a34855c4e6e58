# What this repository can do. Variables may be given on the command line: make forecast DATASET=atanas ROOT=~/worms
PYTHON  ?= python3
DATASET ?= simulation
SCALE   ?= small
SEED    ?= 0
ROOT    ?=
SESSIONS ?= $(if $(filter simulation,$(DATASET)),1)
# Others of chapter 05, as YAML: OPTIONS='workers: 2, neurons: 200'. The simulation's are a short training, to see it work.
SHORT   := , neurons: 32, epochs: 5, samples: 12
OPTIONS ?= workers: 2$(if $(filter simulation,$(DATASET)),$(SHORT))
# STANDIN=1: synthetic files in the data set's format in place of the recordings.
STANDIN ?=
# Rivals by name. The simulation's are some of them, without the slow observer.
SOME    := conditional table, Linear, ridge VAR, TCN, POCO
BASELINES ?= $(if $(filter simulation,$(DATASET)),$(SOME),all)
# Results go here and leave the committed figures alone; the notebook by itself goes on in the folder of runs.
OUT     ?= runs/forecast-$(DATASET)$(if $(STANDIN),-standin)-$(SCALE)
WORKERS ?= 2
# make test FLAGS=slow: also what takes long, and the notebooks of nbs/first, which stand until chapters of their own replace them.
FLAGS   ?=
# Of `make paper`: chapters (05,06), steps side by side, and what Snakemake is told besides: SNAKEMAKE="--executor slurm --jobs 20".
# DATASET counts there only when it is given on the command line.
ONLY    ?=
JOBS    ?=
SNAKEMAKE ?=
# On Linux, PyPI's torch brings CUDA. For the much smaller CPU build:
#   make setup TORCH="--index-url https://download.pytorch.org/whl/cpu"
TORCH   ?=

SHELL := /bin/bash
BIN   := .venv/bin
STAMP := .venv/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
# One thread a process: with several, the notebooks tested side by side are five times slower.
TESTING := OMP_NUM_THREADS=1
# Threads that wait sleep: spinning, they slow a training step many times when something else runs beside it.
export OMP_WAIT_POLICY ?= passive
# glibc hands large blocks back to the kernel and asks for them anew at every step, in small pages: kept, and in large
# pages, there are a tenth of the page faults, and a step of training takes 5 to 13 % less.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1073741824:glibc.malloc.top_pad=67108864

# nbdev writes its Jupyter hook (clean on save) to the home folder, for every project: keep it in .venv.
HOOKS = GIT_CONFIG_GLOBAL=$${GIT_CONFIG_GLOBAL:-$$HOME/.gitconfig} HOME=$(CURDIR)/.venv nbdev_install_hooks >/dev/null \
	&& mkdir -p .venv/etc/jupyter && mv .venv/.jupyter/*.py .venv/etc/jupyter/ \
	&& sed -i.bak 's|^nbdev_trust|.venv/bin/nbdev_trust|' .git/hooks/post-merge && rm -f .git/hooks/post-merge.bak

.DEFAULT_GOAL := help
# Of a folder that may hold spaces or begin with ~, which some shells leave to the program.
_absolute = $(shell $(PYTHON) -c 'import os, sys; print(os.path.abspath(os.path.expanduser(sys.argv[1])))' '$(1)')
_GIVEN = $(if $(findstring command,$(origin $(1))),$($(1)))
.PHONY: help setup forecast paper readme test export clean-notebooks prepare

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with everything the notebooks need

$(STAMP): settings.ini constraints.txt setup.py
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "calm_nb needs Python 3.11 or newer, $(PYTHON) is %d.%d: try make setup PYTHON=python3.12" % v[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install -q -c constraints.txt setuptools
	@$(BIN)/python -m pip install -q -c constraints.txt $(TORCH) torch
	@$(BIN)/python -m pip install -q -c constraints.txt --use-pep517 --no-build-isolation -e ".[dev]"
	@test ! -d .git || $(HOOKS) || echo "nbdev's git hooks were not installed; everything else works"
	@touch $@

forecast: $(STAMP) ## run the forecasting chapter, print its table and figure (DATASET, SCALE, SEED, SESSIONS, BASELINES, OPTIONS, ROOT, STANDIN, OUT)
	@mkdir -p $(OUT)
	@echo "Training and forecasting: dataset $(DATASET), scale $(SCALE); a line per model, about 2½ minutes in all on two idle cores"
	@set -o pipefail; papermill nbs/05_forecast.ipynb $(OUT)/forecast.ipynb --kernel python3 --no-progress-bar --stdout-file - --log-level WARNING \
		-r dataset '$(DATASET)' -r scale '$(SCALE)' -p method ours -r seed '$(SEED)' -r options '$(OPTIONS)' -r baselines '$(BASELINES)' -r out '$(call _absolute,$(OUT))' \
		$(if $(SESSIONS),-p sessions '$(SESSIONS)') $(if $(ROOT),-r root '$(call _absolute,$(ROOT))') $(if $(STANDIN),-r root standin) \
		2> >(grep -v IPKernelApp >&2) | grep --line-buffered -E ', seed [0-9]+: [0-9]+ s$$'
	@python .ci/show.py $(OUT)

paper: $(STAMP) ## run the chapters of the paper and write figures/report.html; call it again to go on (SCALE, DATASET, ONLY, ROOT, SEED, JOBS, DRY=1)
	@python -c 'import snakemake' 2>/dev/null || $(BIN)/python -m pip install -q -c constraints.txt snakemake
	@calm_paper --scale '$(SCALE)' --seed '$(SEED)' $(if $(call _GIVEN,DATASET),--dataset '$(DATASET)') $(if $(ONLY),--only '$(ONLY)') \
		$(if $(ROOT),--root '$(call _absolute,$(ROOT))') $(if $(JOBS),--jobs '$(JOBS)') $(if $(DRY),--dry-run) $(if $(SNAKEMAKE),-- $(SNAKEMAKE))

readme: $(STAMP) ## write README.md's tables from figures/ (CHECK=1 only compares)
	@python .ci/readme.py $(if $(CHECK),--check)

test: $(STAMP) ## run the notebooks as tests; FLAGS=slow: with all that takes long
	@status=0; run="nbdev_test --n_workers $(WORKERS) --timing --do_print"; export $(TESTING); \
	$$run --skip_folder_re '^(first$$|[_.])' $(if $(FLAGS),--flags '$(FLAGS)') || status=1; \
	$(if $(FLAGS),$$run --path nbs/first || status=1;) exit $$status

export: $(STAMP) ## write calm_nb/ from the notebooks
	@nbdev_export

clean-notebooks: $(STAMP) ## strip what git should not see from the notebooks
	@nbdev_clean

prepare: export clean-notebooks test ## export, clean and test: run before a commit
