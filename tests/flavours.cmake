# One test source, many ways to run it. A flavour says how the allocator gets into the program:
#   preload           libprimalloc.so by LD_PRELOAD
#   checked           libprimalloc_checked.so by LD_PRELOAD (assertions, lock ranks)
#   min_align         as preload, with PRIMALLOC_MIN_ALIGN=16
#   full_stats        as preload, with PRIMALLOC_STATS=full: every call takes the slow door
#   hard_limit        as checked, with PRIMALLOC_HARD_LIMIT=64M
#   tuned             as preload, with many of glibc's settings: filled blocks, low thresholds
#   guarded           as checked, with PRIMALLOC_GUARDED=1 for nearly every small block
#   hardened          as checked, with PRIMALLOC_HARDENED=1
#   soft_limit        as checked, with PRIMALLOC_SOFT_LIMIT=8M: soon pressed, always purging
#   checks            as checked, with PRIMALLOC_CHECK=full: red zones, quarantine, abort at a fault
#   minimal           libprimalloc-minimal.so by LD_PRELOAD
#   static            linked with libprimalloc.a, otherwise dynamic
#   minimal_static    linked with libprimalloc-minimal.a, otherwise dynamic
#   static_exe        linked with libprimalloc.a and -static
#   prefixed          linked with libprimalloc_prefixed.a; the source's malloc becomes prim_malloc
#   prefixed_checked  the same with assertions
#   tsan              the same under ThreadSanitizer
#   tsan_soft_limit   tsan with PRIMALLOC_SOFT_LIMIT=8M
#   tsan_checks       tsan with PRIMALLOC_CHECK=full
#   tsan_hardened     tsan with PRIMALLOC_HARDENED=1
set(PRIMALLOC_TEST_OPTIONS -O1 -g -fno-builtin -Wall -Wextra -Wno-free-nonheap-object)
include(CheckCCompilerFlag)
foreach(warning use-after-free alloc-size-larger-than)
    check_c_compiler_flag(-Wno-${warning} PRIMALLOC_HAS_NO_${warning})
    if(PRIMALLOC_HAS_NO_${warning})
        list(APPEND PRIMALLOC_TEST_OPTIONS -Wno-${warning})
    endif()
endforeach()

# What a link kind adds. Flavours that preload share the kind "plain", hence one program.
set(PRIMALLOC_KIND_plain_DEFINITIONS "")
set(PRIMALLOC_KIND_plain_LIBRARIES cmocka)
set(PRIMALLOC_KIND_static_DEFINITIONS PRIM_TEST_STATIC)
set(PRIMALLOC_KIND_static_LIBRARIES primalloc_static cmocka)
set(PRIMALLOC_KIND_minimal_static_DEFINITIONS PRIM_TEST_STATIC)
set(PRIMALLOC_KIND_minimal_static_LIBRARIES primalloc_minimal_static cmocka)
set(PRIMALLOC_KIND_static_exe_DEFINITIONS PRIM_TEST_STATIC PRIM_TEST_FULLY_STATIC)
set(PRIMALLOC_KIND_static_exe_LIBRARIES primalloc_static -static)
set(PRIMALLOC_KIND_prefixed_DEFINITIONS PRIM_TEST_PREFIXED)
set(PRIMALLOC_KIND_prefixed_LIBRARIES primalloc_prefixed cmocka)
set(PRIMALLOC_KIND_prefixed_checked_DEFINITIONS PRIM_TEST_PREFIXED)
# These archives keep their modules apart, and nothing refers to the one whose constructor starts
# the library: take them whole.
set(PRIMALLOC_KIND_prefixed_checked_LIBRARIES -Wl,--whole-archive primalloc_prefixed_checked
    -Wl,--no-whole-archive cmocka)
set(PRIMALLOC_KIND_tsan_DEFINITIONS PRIM_TEST_PREFIXED PRIM_TEST_TSAN)
set(PRIMALLOC_KIND_tsan_LIBRARIES -Wl,--whole-archive primalloc_prefixed_tsan
    -Wl,--no-whole-archive cmocka)
set(PRIMALLOC_KIND_tsan_OPTIONS -fsanitize=thread)

# How a flavour runs: the link kind, and the environment beside PRIM_TEST_EXPECT=self.
set(PRIMALLOC_PRELOADED "LD_PRELOAD=$<TARGET_FILE:primalloc>"
    "PRIM_TEST_EXPECT=$<TARGET_FILE:primalloc>")
set(PRIMALLOC_FLAVOUR_preload plain ${PRIMALLOC_PRELOADED})
set(PRIMALLOC_FLAVOUR_min_align plain ${PRIMALLOC_PRELOADED} PRIMALLOC_MIN_ALIGN=16)
set(PRIMALLOC_FLAVOUR_full_stats plain ${PRIMALLOC_PRELOADED} PRIMALLOC_STATS=full)
set(PRIMALLOC_FLAVOUR_tuned plain ${PRIMALLOC_PRELOADED} MALLOC_PERTURB_=85 MALLOC_ARENA_MAX=2
    MALLOC_MMAP_THRESHOLD_=5000 MALLOC_MMAP_MAX_=50 MALLOC_TRIM_THRESHOLD_=300000
    MALLOC_TOP_PAD_=100000 GLIBC_TUNABLES=glibc.malloc.tcache_count=5:glibc.malloc.tcache_max=3000)
set(PRIMALLOC_FLAVOUR_checked plain "LD_PRELOAD=$<TARGET_FILE:primalloc_checked>"
    "PRIM_TEST_EXPECT=$<TARGET_FILE:primalloc_checked>")
set(PRIMALLOC_FLAVOUR_hard_limit ${PRIMALLOC_FLAVOUR_checked} PRIMALLOC_HARD_LIMIT=64M)
set(PRIMALLOC_FLAVOUR_soft_limit ${PRIMALLOC_FLAVOUR_checked} PRIMALLOC_SOFT_LIMIT=8M)
set(PRIMALLOC_FLAVOUR_hardened ${PRIMALLOC_FLAVOUR_checked} PRIMALLOC_HARDENED=1)
set(PRIMALLOC_FLAVOUR_checks ${PRIMALLOC_FLAVOUR_checked} PRIMALLOC_CHECK=full)
set(PRIMALLOC_FLAVOUR_guarded ${PRIMALLOC_FLAVOUR_checked} PRIMALLOC_GUARDED=1
    PRIMALLOC_GUARDED_BYTES=200 PRIMALLOC_GUARDED_RATE=0 PRIMALLOC_GUARDED_SLOTS=300)
set(PRIMALLOC_FLAVOUR_minimal plain "LD_PRELOAD=$<TARGET_FILE:primalloc_minimal>"
    "PRIM_TEST_EXPECT=$<TARGET_FILE:primalloc_minimal>")
foreach(flavour static minimal_static static_exe prefixed prefixed_checked tsan)
    set(PRIMALLOC_FLAVOUR_${flavour} ${flavour} PRIM_TEST_EXPECT=self)
endforeach()
# A fork's child cannot join its parent's threads, and clang's runtime calls them leaked.
list(APPEND PRIMALLOC_FLAVOUR_tsan
     "TSAN_OPTIONS=halt_on_error=1 second_deadlock_stack=1 report_thread_leaks=0")
set(PRIMALLOC_FLAVOUR_tsan_soft_limit ${PRIMALLOC_FLAVOUR_tsan} PRIMALLOC_SOFT_LIMIT=8M)
set(PRIMALLOC_FLAVOUR_tsan_checks ${PRIMALLOC_FLAVOUR_tsan} PRIMALLOC_CHECK=full)
set(PRIMALLOC_FLAVOUR_tsan_hardened ${PRIMALLOC_FLAVOUR_tsan} PRIMALLOC_HARDENED=1)

# A proof that runs beside other work, in an emulator or under a sanitizer multiplies time limits;
# PRIM_TEST_PATIENCE does so for those inside the programs.
set(PRIMALLOC_TEST_PATIENCE 1 CACHE STRING "What the tests' time limits are multiplied by")
option(PRIMALLOC_TEST_TSAN
       "Run what has the flavour prefixed or internals under ThreadSanitizer, but the models" OFF)

function(primalloc_test_compile target kind)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests"
                               "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE ${PRIMALLOC_KIND_${kind}_DEFINITIONS}
                               PRIM_TEST_VERSION="${PROJECT_VERSION}")
    target_compile_options(${target} PRIVATE ${PRIMALLOC_TEST_OPTIONS}
                           ${PRIMALLOC_KIND_${kind}_OPTIONS}
                           $<$<COMPILE_LANGUAGE:C>:-std=gnu11>
                           $<$<COMPILE_LANGUAGE:CXX>:-std=c++17 -Wno-mismatched-new-delete>)
endfunction()

# The helpers that every test program links, compiled once for each link kind.
function(primalloc_test_support kind)
    if(NOT TARGET test_support_${kind})
        set(sources "${PROJECT_SOURCE_DIR}/tests/support/support.c")
        if(kind STREQUAL static_exe)
            list(APPEND sources "${PROJECT_SOURCE_DIR}/tests/support/cmocka_standalone.c")
        endif()
        add_library(test_support_${kind} OBJECT ${sources})
        primalloc_test_compile(test_support_${kind} ${kind})
    endif()
endfunction()

function(primalloc_test_program program kind)
    primalloc_test_support(${kind})
    add_executable(${program} ${ARGN} $<TARGET_OBJECTS:test_support_${kind}>)
    primalloc_test_compile(${program} ${kind})
    target_link_libraries(${program} PRIVATE ${PRIMALLOC_KIND_${kind}_LIBRARIES}
                          ${PRIMALLOC_KIND_${kind}_OPTIONS} ${CMAKE_DL_LIBS} Threads::Threads)
    set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE ON
                          RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/bin")
endfunction()

# primalloc_test(FOLDER NAME SOURCES ... FLAVOURS ... [VARIANT WORD] [ARGUMENTS ...] [TIMEOUT S]
#                [OPTIONS ...] [COST N])
# Registers a test FOLDER.NAME.FLAVOUR for each flavour, labelled FOLDER and FLAVOUR. With VARIANT
# the test is FOLDER.NAME_WORD.FLAVOUR: the same program with other arguments.
function(primalloc_test folder name)
    cmake_parse_arguments(ARG "" "TIMEOUT;VARIANT;COST"
                          "SOURCES;FLAVOURS;ARGUMENTS;OPTIONS" ${ARGN})
    if(PRIMALLOC_TEST_TSAN AND prefixed IN_LIST ARG_FLAVOURS AND NOT folder STREQUAL "model")
        list(APPEND ARG_FLAVOURS tsan)
    endif()
    if(PRIMALLOC_TEST_TSAN AND internals IN_LIST ARG_FLAVOURS AND NOT name STREQUAL watcher)
        list(APPEND ARG_FLAVOURS internals_tsan)
    endif()
    list(REMOVE_DUPLICATES ARG_FLAVOURS)
    math(EXPR limit "${ARG_TIMEOUT} * ${PRIMALLOC_TEST_PATIENCE}")
    set(case ${name})
    if(ARG_VARIANT)
        set(case ${name}_${ARG_VARIANT})
    endif()
    foreach(flavour ${ARG_FLAVOURS})
        set(environment ${PRIMALLOC_FLAVOUR_${flavour}})
        list(POP_FRONT environment kind)
        set(program test_${folder}_${name}_${kind})
        if(NOT TARGET ${program})
            primalloc_test_program(${program} ${kind} ${ARG_SOURCES})
            target_compile_options(${program} PRIVATE ${ARG_OPTIONS})
        endif()
        set(test ${folder}.${case}.${flavour})
        add_test(NAME ${test} COMMAND ${program} ${ARG_ARGUMENTS})
        set_tests_properties(${test} PROPERTIES ENVIRONMENT "${environment}"
                             LABELS "${folder};${flavour}" TIMEOUT ${limit})
        if(ARG_COST)
            set_tests_properties(${test} PROPERTIES COST ${ARG_COST})
        endif()
    endforeach()
endfunction()
