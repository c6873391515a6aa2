# The front door: every target is one line that names the program doing the work.
JOBS    ?= $(shell nproc)
PREFIX  ?= /usr/local
DESTDIR ?=
LIBDIR  ?=
BUILD   := $(CURDIR)/build

.DEFAULT_GOAL := all
.PHONY: all library tool amalgamation deb bootstrap demo test bench curves large heaps graphs check prove docs format install uninstall clean help

all: library tool ## build the library and the command-line tool
	@tools/summary

library: ## build the library alone: a C compiler and CMake are enough
	@tools/build library $(JOBS)

tool: ## build the command-line tool alone: needs cargo
	@tools/build tool $(JOBS)

amalgamation: ## write the library as one C file: build/amalgamation/primalloc.c
	@tools/amalgamate

demo: ## install what lacks, build, and compare a real program under several allocators
	@tools/bootstrap build demo
	@$(MAKE) --no-print-directory all
	@tools/demo/run

test: ## install what lacks, build every flavour and run all tests
	@tools/bootstrap build test
	@tools/test $(JOBS)

bench: ## run the benchmarks against every allocator found
	@tools/bootstrap build bench
	@$(MAKE) --no-print-directory all
	@bench/run $(BENCH_OPTIONS)

curves: ## growth, threads, latency, longest calls, pages needed again: for the report of make bench
	@tools/bootstrap build bench
	@$(MAKE) --no-print-directory all
	@bench/curves $(CURVES_OPTIONS)

large: ## large memory: what is to be reached, and what every allocator reaches
	@tools/bootstrap build bench
	@$(MAKE) --no-print-directory all
	@bench/large $(LARGE_OPTIONS)

heaps: ## heaps of one's own and the statistics' snapshot: what they cost
	@tools/bootstrap build bench
	@$(MAKE) --no-print-directory all
	@bench/heaps $(HEAPS_OPTIONS)

graphs: ## draw the classic pictures of t-test1
	@tools/bootstrap build bench
	@$(MAKE) --no-print-directory all
	@bench/graphs $(GRAPHS_OPTIONS)

check: ## the house rules: layers, limits, exports, documents, hot path, formatter, linter
	@tools/bootstrap build check
	@$(MAKE) --no-print-directory all
	@tools/check/selftest
	@tools/check/run

prove: ## what takes longer than a change should wait for: memcheck, long models, other compilers
	@tools/bootstrap build test prove
	@$(MAKE) --no-print-directory all
	@tools/prove

docs: ## write the generated documents anew from their tables
	@tools/docs

format: ## lay out the source as the house style wants it
	@tools/bootstrap check
	@tools/format

install: all ## copy library, headers, tool and manual pages below DESTDIR/PREFIX
	@DESTDIR="$(DESTDIR)" LIBDIR="$(LIBDIR)" tools/install "$(PREFIX)"

uninstall: ## remove what make install put below DESTDIR/PREFIX
	@DESTDIR="$(DESTDIR)" tools/uninstall "$(PREFIX)"

deb: tool ## build Debian packages: build/deb/*.deb
	@tools/deb build/deb $(JOBS)

clean: ## remove everything that was built
	@rm -rf "$(BUILD)"

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
