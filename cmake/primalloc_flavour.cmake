# A flavour is the same source compiled with other definitions and options: release, checked, tsan.
# Its objects are compiled once and then put together as a shared library or an archive.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
find_package(Threads REQUIRED)

# The compiler as a command, for what CMake knows no target for: behind a launcher, for another
# machine, with the linker that the project around us chose.
separate_arguments(launched UNIX_COMMAND "${CMAKE_C_COMPILER_ARG1}")
separate_arguments(linker UNIX_COMMAND "${CMAKE_C_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}")
get_directory_property(options LINK_OPTIONS)
list(APPEND linker ${options} ${CMAKE_C_USING_LINKER_${CMAKE_LINKER_TYPE}})
list(FILTER linker INCLUDE REGEX "^-fuse-ld=")
set(PRIMALLOC_COMPILER "${CMAKE_C_COMPILER}" ${launched} ${linker})
if(CMAKE_C_COMPILER_TARGET AND CMAKE_C_COMPILE_OPTIONS_TARGET)
    list(APPEND PRIMALLOC_COMPILER "${CMAKE_C_COMPILE_OPTIONS_TARGET}${CMAKE_C_COMPILER_TARGET}")
endif()

check_c_compiler_flag(-falign-labels=1 PRIMALLOC_HAS_ALIGN_LABELS)
check_c_compiler_flag(-fcf-protection=return PRIMALLOC_HAS_CF_PROTECTION)
check_c_compiler_flag(-fno-semantic-interposition PRIMALLOC_HAS_NO_SEMANTIC_INTERPOSITION)

# The objects of an archive become one, and the linker puts the library's functions in order: both
# want machine code, whatever the project around us compiles to.
set(PRIMALLOC_COMPILE_OPTIONS
    -O2 -g -fPIC -fvisibility=hidden -ftls-model=initial-exec -fexceptions -fno-lto
    # A compiler that knows malloc by name may turn our own code into a call of our own code.
    -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free)
if(PRIMALLOC_HAS_ALIGN_LABELS) # the fast paths have neither loops nor jumps back: padding is in vain
    list(APPEND PRIMALLOC_COMPILE_OPTIONS -falign-jumps=1 -falign-loops=1 -falign-labels=1
         -falign-functions=1)
endif()
# A process has a shadow stack if all of its objects are marked as able to live with one, which costs
# them nothing; marks for indirect branches are an instruction in each function, which no kernel asks for.
if(PRIMALLOC_HAS_CF_PROTECTION)
    list(APPEND PRIMALLOC_COMPILE_OPTIONS -fcf-protection=return)
endif()
if(PRIMALLOC_HAS_NO_SEMANTIC_INTERPOSITION)
    list(APPEND PRIMALLOC_COMPILE_OPTIONS -fno-semantic-interposition)
    # A program may have C++ operators of its own, which ours then call.
    set_source_files_properties(src/api/standard_cxx.c
                                PROPERTIES COMPILE_OPTIONS -fsemantic-interposition)
endif()
# From whatever folder, the same bytes: debug information tells of files from the root on, where a
# debugger that is started there finds them. Within another project it has whole paths.
check_c_compiler_flag(-ffile-prefix-map=a=b PRIMALLOC_HAS_FILE_PREFIX_MAP)
if(PRIMALLOC_IS_MAIN AND PRIMALLOC_HAS_FILE_PREFIX_MAP)
    list(APPEND PRIMALLOC_COMPILE_OPTIONS "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
         "-ffile-prefix-map=${PROJECT_BINARY_DIR}=.")
endif()
# What a project around us wants to be warned of, or to fail at, is meant for its own source; and a
# malloc that asks a sanitizer at each access does so before that one is set up.
if(PRIMALLOC_IS_MAIN OR PRIMALLOC_WERROR)
    list(APPEND PRIMALLOC_COMPILE_OPTIONS -Wall -Wextra -Wshadow -Wstrict-prototypes
         -Wmissing-prototypes $<$<BOOL:${PRIMALLOC_WERROR}>:-Werror>)
else()
    list(APPEND PRIMALLOC_COMPILE_OPTIONS -w -fno-sanitize=address,undefined)
endif()

# nodelete: threads keep pointers into the library, so dlclose must never unmap it. now, relro: no
# lazy binding inside malloc, and no writable function pointers after start. defs: no name is missing,
# but those that a sanitizer of the project around us has in the program. shstk: the C runtime's start
# files may lack the mark.
set(PRIMALLOC_LINK_OPTIONS LINKER:-z,nodelete LINKER:-z,now LINKER:-z,relro
    $<$<BOOL:${PRIMALLOC_IS_MAIN}>:LINKER:-z,defs> LINKER:--as-needed -static-libgcc)
set(CMAKE_REQUIRED_LINK_OPTIONS ${linker} LINKER:-z,noseparate-code)
check_c_source_compiles("int main(void) { return 0; }" PRIMALLOC_HAS_NOSEPARATE_CODE)
set(CMAKE_REQUIRED_LINK_OPTIONS ${linker} LINKER:-z,shstk)
check_c_source_compiles("int main(void) { return 0; }" PRIMALLOC_HAS_SHSTK)
set(CMAKE_REQUIRED_LINK_OPTIONS)
if(PRIMALLOC_HAS_NOSEPARATE_CODE)
    list(APPEND PRIMALLOC_LINK_OPTIONS LINKER:-z,noseparate-code)
endif()
if(PRIMALLOC_HAS_CF_PROTECTION AND PRIMALLOC_HAS_SHSTK)
    list(APPEND PRIMALLOC_LINK_OPTIONS LINKER:-z,shstk)
endif()

function(primalloc_object_library target)
    cmake_parse_arguments(ARG "" "" "SOURCES;DEFINITIONS;OPTIONS" ${ARGN})
    add_library(${target} OBJECT ${ARG_SOURCES})
    set_target_properties(${target} PROPERTIES
                          C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
                          UNITY_BUILD OFF) # files have names of their own
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                               "${PROJECT_SOURCE_DIR}/include")
    target_compile_options(${target} PRIVATE ${PRIMALLOC_COMPILE_OPTIONS} ${ARG_OPTIONS})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE ${ARG_DEFINITIONS})
endfunction()

# primalloc_objects(FLAVOUR [DEFINITIONS ...] [OPTIONS ...])
function(primalloc_objects flavour)
    primalloc_object_library(primalloc_objects_${flavour} SOURCES ${PRIMALLOC_SOURCES} ${ARGN})
    primalloc_object_library(primalloc_watch_objects_${flavour}
                             SOURCES ${PRIMALLOC_WATCH_SOURCES} ${ARGN})
    primalloc_object_library(primalloc_minimal_objects_${flavour}
                             SOURCES ${PRIMALLOC_MINIMAL_SOURCES} ${ARGN})
    primalloc_object_library(primalloc_standard_objects_${flavour}
                             SOURCES ${PRIMALLOC_STANDARD_SOURCES} ${ARGN})
    primalloc_object_library(primalloc_prefixed_objects_${flavour}
                             SOURCES ${PRIMALLOC_PREFIXED_SOURCES} ${ARGN})
    primalloc_object_library(primalloc_shared_objects_${flavour}
                             SOURCES ${PRIMALLOC_SHARED_SOURCES} ${ARGN})
    primalloc_object_library(primalloc_archive_objects_${flavour}
                             SOURCES ${PRIMALLOC_ARCHIVE_SOURCES} ${ARGN})
endfunction()

function(primalloc_finish_library target)
    target_include_directories(${target} PUBLIC
                               $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(${target} PROPERTIES
                          ARCHIVE_OUTPUT_DIRECTORY "${PRIMALLOC_LIBRARY_DIRECTORY}"
                          LIBRARY_OUTPUT_DIRECTORY "${PRIMALLOC_LIBRARY_DIRECTORY}"
                          LINKER_LANGUAGE C)
endfunction()

function(primalloc_flavour_objects variable flavour with_standard minimal)
    set(objects $<TARGET_OBJECTS:primalloc_objects_${flavour}>)
    set(family $<TARGET_OBJECTS:primalloc_prefixed_objects_${flavour}>)
    if(with_standard)
        set(family $<TARGET_OBJECTS:primalloc_standard_objects_${flavour}>)
    endif()
    if(minimal)
        list(APPEND objects $<TARGET_OBJECTS:primalloc_minimal_objects_${flavour}>
             $<FILTER:${family},EXCLUDE,standard_mcheck>)
    else()
        list(APPEND objects $<TARGET_OBJECTS:primalloc_watch_objects_${flavour}> ${family})
    endif()
    set(${variable} ${objects} PARENT_SCOPE)
endfunction()

# primalloc_shared(TARGET FLAVOUR [MINIMAL]): a library that replaces malloc when preloaded or linked;
# with MINIMAL without the observers.
function(primalloc_shared target flavour)
    cmake_parse_arguments(ARG "MINIMAL" "" "" ${ARGN})
    primalloc_flavour_objects(objects ${flavour} TRUE "${ARG_MINIMAL}")
    add_library(${target} SHARED ${objects} $<TARGET_OBJECTS:primalloc_shared_objects_${flavour}>)
    target_link_options(${target} PRIVATE ${PRIMALLOC_LINK_OPTIONS}
                        "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/primalloc.map"
                        $<$<BOOL:${PRIMALLOC_LAYOUT}>:LINKER:-T,${PRIMALLOC_LAYOUT}>)
    set_target_properties(${target} PROPERTIES
                          LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/primalloc.map;${PRIMALLOC_LAYOUT}")
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS}) # where dlsym is not in libc
    primalloc_finish_library(${target})
endfunction()

# primalloc_archive(TARGET FLAVOUR [WITH_STANDARD] [INTERNALS] [MINIMAL]): without WITH_STANDARD only the prim_
# names are there. An archive is one object file, so that a program takes the whole family with its
# constructors or none of it. C++ operators are made weak, for programs that have their own. One that
# is shipped has its internal names made local: they can clash with nothing in a static link. With
# INTERNALS they stay, for unit tests of the modules, which may stand between the library and the kernel.
function(primalloc_archive target flavour)
    cmake_parse_arguments(ARG "WITH_STANDARD;INTERNALS;MINIMAL" "" "" ${ARGN})
    primalloc_flavour_objects(objects ${flavour} "${ARG_WITH_STANDARD}" "${ARG_MINIMAL}")
    list(APPEND objects $<TARGET_OBJECTS:primalloc_archive_objects_${flavour}>)
    set(merged "${PROJECT_BINARY_DIR}/${target}.o")
    set(names --wildcard --weaken-symbol=_Zn[wa]* --weaken-symbol=_Zd[la]*)
    if(ARG_INTERNALS)
        list(APPEND names --weaken-symbol=kernel_call)
    else()
        list(APPEND names --localize-hidden)
    endif()
    add_custom_command(OUTPUT "${merged}"
                       COMMAND ${PRIMALLOC_COMPILER} -r -nostdlib -o "${merged}" ${objects}
                       COMMAND ${CMAKE_OBJCOPY} ${names} "${merged}"
                       DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
                       COMMENT "Merging the objects of ${target}")
    set_source_files_properties("${merged}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    add_library(${target} STATIC "${merged}")
    add_dependencies(${target} primalloc_objects_${flavour} primalloc_archive_objects_${flavour}
                     primalloc_watch_objects_${flavour} primalloc_minimal_objects_${flavour}
                     primalloc_standard_objects_${flavour} primalloc_prefixed_objects_${flavour})
    target_link_libraries(${target} INTERFACE Threads::Threads)
    if(ARG_WITH_STANDARD)
        # Where only libc calls malloc nothing asks for ours: the linker would leave the archive out.
        target_link_options(${target} INTERFACE LINKER:-u,malloc)
    endif()
    primalloc_finish_library(${target})
    if(ARG_INTERNALS)
        target_include_directories(${target} INTERFACE "${PROJECT_SOURCE_DIR}/src")
    endif()
endfunction()
