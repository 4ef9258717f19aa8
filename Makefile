# Everything runs in .venv, made on first use. Needs Python >= 3.11 and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo serve docs test check mutants versions bench readme clean
.DEFAULT_GOAL := demo

demo: $(VENV)/installed
	$(BIN)/adaprivate demo --out demo

PORT ?= 8000
serve: $(VENV)/installed-service  # the service, made-up readers who use it, and the dashboard; ROUNDS=1000 ends by itself
	@mkdir -p service-data
	@rm -f service-data/address; \
	  $(BIN)/adaprivate serve --json --port $(PORT) --database sqlite:///service-data/adaprivate.db \
	    >service-data/address 2>service-data/service.log & service=$$!; readers=; \
	  trap "kill $$service \$$readers 2>/dev/null; wait $$service 2>/dev/null" EXIT; trap "exit 130" INT TERM; \
	  died() { echo "The service ended; service-data/service.log ends with:" >&2; tail -n 3 service-data/service.log >&2; exit 1; }; \
	  until [ -s service-data/address ]; do kill -0 $$service 2>/dev/null || died; sleep 0.2; done; \
	  echo "Dashboard: http://127.0.0.1:$(PORT)/  (ctrl-C ends it; logs in service-data/service.log$(if $(ROUNDS),; ends after $(ROUNDS) readers))"; \
	  $(BIN)/python examples/service/app.py --url http://127.0.0.1:$(PORT) $(if $(ROUNDS),--rounds $(ROUNDS)) & readers=$$!; \
	  while kill -0 $$readers 2>/dev/null; do kill -0 $$service 2>/dev/null || died; sleep 0.5; done; wait $$readers

WORKERS ?= $(shell $(PYTHON) -c 'import os; print(max(os.cpu_count(), 4))')
test: check  # four processes even on two cores: tests of the service wait for clocks and disks
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --junitxml=build/tests.xml

mutants: $(VENV)/installed-test  # plants mistakes in a copy of the source: do the tests notice? Takes half an hour
	$(BIN)/python -m tests.mutants

versions: $(VENV)/installed-test  # the oldest and the newest packages that are allowed, with every Python found: half an hour
	$(BIN)/python -m tests.versions $(PYTHONS)

bench: $(VENV)/installed-test  # everything measured, as ratios: 20 minutes; QUICK=1 a few; SERVICE=1 the service too; PARTS=engine,peers
	$(BIN)/python benchmarks/peers.py  # environments for other libraries, at the first time
	$(BIN)/python benchmarks/bench.py $(if $(QUICK),--quick) $(if $(SERVICE),--service) $(if $(PARTS),--parts $(PARTS))

check: $(VENV)/installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "adaprivate needs Python 3.11 or newer; this is $$($(PYTHON) --version). Use make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml papers/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data,plot]' -e papers
	@touch $@

$(VENV)/installed-service: pyproject.toml papers/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data,plot,service]' -e papers
	@touch $@ $(VENV)/installed

$(VENV)/installed-test: pyproject.toml papers/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]' -e papers
	@touch $@ $(VENV)/installed $(VENV)/installed-service

docs: $(VENV)/installed-test  # the documentation as a site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Documentation: site/index.html"

readme: $(VENV)/installed
	$(BIN)/python docs/refresh.py

clean:
	rm -rf $(VENV) benchmarks/.envs demo site build dist service-data
