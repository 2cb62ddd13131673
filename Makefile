# `make demo` and `make test` need nothing but Python 3.11 or newer, make and git.

PYTHON ?= python3
VENV   ?= .venv
PIP     = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
LAYERS ?= tests
ARGS   ?=

# make demo [KIND=rayjob|rayservice|rayservice-incremental|autoscaling|rolling|drain|mtls]: with real Ray,
# whose environment (about 500 MB) is made once; make demo KIND=workspace: with simulated GPU nodes
KIND   ?= raycluster

# make test-all [REST=1]: all tests; REST=1 runs only what `make test` leaves out, but for the rare
REST   ?=

# make lab [CORES=1] [ONLY="kubernetes kueue"]: the programs of real control planes, built from Go
# modules; see tests/lab/README.md
# make test-real: the tests of a real control plane that CI runs; make test-real ARGS='-k NAME': any
CORES  ?=
ONLY   ?=

# make simulate [EXAMPLES=2000] [SEED=17]: random lives; make simulate SCENARIO=@FILE plays one
EXAMPLES ?= 2000
SEED     ?=
SCENARIO ?=

# make mutate [PACKAGES="informers runtime/caches"] [ARGS=--again]: mutation testing; see docs/testing.md
PACKAGES ?=

# Environments of `make sbom`, `make audit` and `make site`: their tools, and what the image holds.
AUDIT  ?= .audit

# Images set this. Every one of the many processes that tests start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo ray test test-all test-real test-again test-real-again lab simulate mutate lint bench pictures sbom package site audit lock clean

demo: $(VENV)/.runtime
	$(VENV)/bin/manta demo --kind $(KIND) $(ARGS)

# The environment with Ray of `manta dev --ray`, in ~/.cache/manta: made once, about 500 MB.
ray: $(VENV)/.runtime
	$(VENV)/bin/python -m controller.command.development.rayenv

PYTEST  = $(VENV)/bin/python -m pytest
REAL    = $(VENV)/bin/python -m tests.lab

test: $(VENV)/.dev
	$(PYTEST) -n auto --dist worksteal -m 'not slow' $(LAYERS) $(ARGS)

# Real Ray has the machine to itself: it needs all of it, and fails its probes when it starves.
# pytest ends with 5 where it has nothing to run.
WITH_RAY = tests/e2e/ray
EACH     = $(if $(REST),-m 'slow and not rare') $(ARGS)

test-all: $(VENV)/.dev
	failed=0; \
	$(if $(filter tests,$(LAYERS)),$(PYTEST) $(EACH) $(WITH_RAY) || [ $$? = 5 ] || failed=1;) \
	$(PYTEST) -n auto --dist worksteal $(EACH) --ignore $(WITH_RAY) $(LAYERS) || [ $$? = 5 ] || failed=1; \
	$(if $(REST),,$(if $(filter tests,$(LAYERS)),$(REAL) -m '' || failed=1;)) \
	exit $$failed

test-real: $(VENV)/.dev
	$(REAL) $(ARGS)

# What failed last, one test at a time; fails too where nothing did.
AGAIN = -n 0 --last-failed --last-failed-no-failures none -rA

test-again: $(VENV)/.dev
	$(PYTEST) $(AGAIN) -m '' $(LAYERS)

test-real-again: $(VENV)/.dev
	$(REAL) $(AGAIN)

lab: $(VENV)/.dev
	$(VENV)/bin/python -m tests.lab.build $(if $(CORES),--cores $(CORES)) $(ONLY)

simulate: $(VENV)/.dev
	$(VENV)/bin/python -m tests.simulation --examples=$(EXAMPLES) $(if $(SEED),--seed=$(SEED)) \
	    $(if $(SCENARIO),--scenario='$(SCENARIO)') $(ARGS)

mutate: $(VENV)/.mutation
	$(VENV)/bin/python -m tests.mutation $(PACKAGES) $(ARGS)

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports

bench: $(VENV)/.dev
	$(VENV)/bin/python -m benchmarks $(ARGS)

# What the image holds besides Python and its base, as CycloneDX.
sbom: $(AUDIT)/.tools $(AUDIT)/.image
	$(AUDIT)/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	    --output-file sbom.cdx.json $(AUDIT)/image/bin/python

# The documentation as a site, in site/: no warning, no dead link, nothing from elsewhere.
site: $(AUDIT)/.site
	NO_MKDOCS_2_WARNING=1 $(AUDIT)/site/bin/mkdocs build --strict --quiet

# What a release publishes, but for the image: wheel, chart and list of parts, in dist/. Needs helm.
HELM ?= helm

package: sbom
	rm -rf dist
	$(AUDIT)/image/bin/python -m hatchling build -t wheel -d dist
	$(AUDIT)/tools/bin/twine check --strict dist/*.whl
	$(HELM) lint --strict charts/manta-operator
	$(HELM) package charts/manta-operator --destination dist
	cp sbom.cdx.json dist/

# All pictures of the docs, from real runs; look at them. Needs chromium, Prometheus and `make ray`.
pictures: $(VENV)/.dev
	$(VENV)/bin/python scripts/draw-dashboard
	$(VENV)/bin/python scripts/draw-layers
	$(VENV)/bin/python scripts/draw-states
	$(VENV)/bin/python -m tests.docs.upgrade_pictures
	$(VENV)/bin/python -m tests.docs.pictures
	$(VENV)/bin/python -m tests.chart.dashboard_picture
	$(VENV)/bin/manta demo --kind rayservice-incremental --chart docs/incremental-upgrade.svg

# Known vulnerabilities of what is pinned. Asks pypi.org; fails, too, if it cannot say of a package.
audit: $(AUDIT)/.tools
	$(AUDIT)/tools/bin/pip-audit --strict --disable-pip --require-hashes \
	    --requirement requirements-dev.lock $(ARGS)

# New pins from pyproject.toml: hashes for every platform, no addresses. Needs uv.
lock:
	uv pip compile --universal --generate-hashes --no-annotate --no-header \
	    --quiet --python-version 3.11 --group build pyproject.toml -o requirements.lock
	uv pip compile --universal --generate-hashes --no-annotate --no-header \
	    --quiet --python-version 3.11 --extra cli --group build pyproject.toml \
	    -o requirements-embedded.lock
	uv pip compile --universal --generate-hashes --no-annotate --no-header \
	    --quiet --python-version 3.11 --extra cli --group build --group dev pyproject.toml \
	    -o requirements-dev.lock
	uv pip compile --universal --generate-hashes --no-annotate --no-header \
	    --quiet --python-version 3.11 --group mutation --constraint requirements-dev.lock \
	    -o requirements-mutation.lock
	uv pip compile --universal --generate-hashes --no-annotate --no-header \
	    --quiet --python-version 3.11 --group audit --constraint requirements-dev.lock \
	    -o requirements-audit.lock
	uv pip compile --universal --generate-hashes --no-annotate --no-header \
	    --quiet --python-version 3.11 --group site --constraint requirements-dev.lock \
	    -o requirements-site.lock
	uv pip compile --universal --generate-hashes --no-annotate --no-header \
	    --quiet --python-version 3.11 --group ray -o controller/command/development/ray.lock

clean:
	rm -rf $(VENV) $(AUDIT) site .mutation .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "Manta needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements-embedded.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing what Manta needs (hashes checked) ..."
	@$(PIP) install --require-hashes -r requirements-embedded.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing what the tests and checks need (hashes checked) ..."
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.runtime

$(VENV)/.mutation: requirements-mutation.lock $(VENV)/.dev
	@echo "installing what mutation testing needs (hashes checked) ..."
	@$(PIP) install --require-hashes -r requirements-mutation.lock
	@touch $@

$(AUDIT)/.tools: requirements-audit.lock
$(AUDIT)/.image: requirements.lock
$(AUDIT)/.site: requirements-site.lock
$(AUDIT)/.%:
	$(PYTHON) -m venv --clear $(AUDIT)/$*
	@echo "installing what $< pins (hashes checked) ..."
	@$(AUDIT)/$*/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r $<
	@touch $@
