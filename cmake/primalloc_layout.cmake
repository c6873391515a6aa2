# The order of what a shared library is made of: what every process runs, reads and writes lies
# together, at the beginning. The kernel maps a file's pages 16 at a time, as far as one mapping goes:
# scattered, what the smallest process runs would make all our code resident; so it is a third. Behind
# it stands what larger or longer ones run as well, and then the addresses leave out a page, so that
# the rest is a mapping of its own, of which a process that is not observed has nothing. Of our
# variables a process has one page for each that it writes to.
#
# GNU ld has a word for it only in its whole script: that is the linker's own with a few lines more.
# Elsewhere the order is what it is.

# What lies near, all of it, or with its functions that the compiler knows to be cold.
set(near api/life api/standard_c api/standard_hooks api/start_main api/watched
    base/text objects/bin objects/double_free objects/front_door objects/heap objects/large_guard
    objects/maintenance
    objects/reallocate objects/sampler objects/size_class objects/slab_purge objects/slab_transfer objects/slow_door
    objects/thread_sampler objects/threshold
    os/alone os/confined os/kernel os/loader os/lock os/machine os/memory os/process os/text_file os/vdso
    pages/address_map pages/extent_set pages/extent_tree pages/growth pages/huge pages/lane pages/limits
    pages/mapping pages/metadata pages/quick pages/span
    settings/glibc_knobs settings/options)
set(near_cold objects/size_table objects/slab objects/slab_set objects/thread_cache pages/growth
    pages/page_heap)
# What stands behind it: all that is left of these, cold or not.
set(late objects/watcher pages/purge pages/sparse objects/double_free objects/slow_door objects/reallocate objects/large
    objects/maintenance objects/slab_pages pages/recycle pages/returned os/cgroup os/thread
    api/fork api/standard_cxx api/standard_fork api/standard_glibc api/standard_linux)

set(text "*crt*.o(.text) *libgcc.a:*(.text) *pthread_atfork.o*(.text)\n    *(.text.startup .text.exit)")
foreach(file ${near_cold})
    string(APPEND text "\n    */src/${file}.c*(.text.unlikely)")
endforeach()
foreach(file ${near} ${near_cold} ${late})
    if(file MATCHES "api/standard_c")
        string(APPEND text "\n    . = ALIGN(64);") # so that malloc begins a cache line, whatever stands before
    endif()
    string(APPEND text "\n    */src/${file}.c*(.text)")
    string(APPEND rodata "\n    */src/${file}.c*(.rodata .rodata.*)")
    string(APPEND bss "\n    */src/${file}.c*(.bss)")
endforeach()
foreach(file ${late})
    string(APPEND text "\n    */src/${file}.c*(.text.unlikely)")
endforeach()

set(page "CONSTANT (MAXPAGESIZE)")
set(gap ". = ALIGN(${page}) + ${page} + (. & (${page} - 1));")

execute_process(COMMAND ${PRIMALLOC_COMPILER} -shared -nostdlib -Wl,-z,noseparate-code,-z,now,-z,relro
                        -Wl,--verbose -x c /dev/null -o "${PROJECT_BINARY_DIR}/layout.so"
                OUTPUT_VARIABLE script ERROR_QUIET)
set(PRIMALLOC_LAYOUT)
if(script MATCHES "=====\n(.*\n)=====")
    set(script "${CMAKE_MATCH_1}")
    string(REPLACE "  .init  " "  .rodata.near : {${rodata}\n  }\n  .init  " script "${script}")
    string(REPLACE "  .text  " "  .fini : { KEEP(*(SORT_NONE(.fini))) }\n  .text  " script "${script}")
    string(REPLACE "    *(.text.unlikely " "    ${text}\n  }\n  ${gap}\n  .text.far : {\n    *(.text.unlikely "
                   script "${script}")
    string(REPLACE "*(.dynbss)" "*(.dynbss)${bss}\n   *(.bss)" script "${script}")
    set(PRIMALLOC_LAYOUT "${PROJECT_BINARY_DIR}/layout.ld")
    file(GENERATE OUTPUT "${PRIMALLOC_LAYOUT}" CONTENT "${script}")
endif()
