# What `make install` and a package put on a system: libraries, headers, and what CMake and pkg-config
# need to find them.
include(CMakePackageConfigHelpers)
set(PRIMALLOC_CMAKE_DIRECTORY "${CMAKE_INSTALL_LIBDIR}/cmake/primalloc")

set_target_properties(primalloc_static PROPERTIES EXPORT_NAME static)
set_target_properties(primalloc_prefixed PROPERTIES EXPORT_NAME prefixed)
set_target_properties(primalloc_minimal PROPERTIES EXPORT_NAME minimal)
set_target_properties(primalloc_minimal_static PROPERTIES EXPORT_NAME minimal_static)
install(TARGETS primalloc EXPORT primalloc_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
        NAMELINK_COMPONENT development)
install(TARGETS primalloc_minimal EXPORT primalloc_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT minimal
        NAMELINK_COMPONENT development)
install(TARGETS primalloc_static primalloc_prefixed primalloc_minimal_static
        EXPORT primalloc_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development)
# Manual pages, and a link to them for each function that shares one.
file(GLOB PRIMALLOC_MANUAL "${PROJECT_SOURCE_DIR}/man/*.3")
foreach(page ${PRIMALLOC_MANUAL})
    get_filename_component(name "${page}" NAME)
    configure_file("${page}" "${PROJECT_BINARY_DIR}/man3/${name}" COPYONLY)
    file(STRINGS "${page}" links LIMIT_COUNT 1 REGEX " names: ")
    string(REGEX REPLACE "^.* names: *" "" links "${links}")
    separate_arguments(links)
    foreach(link ${links})
        file(WRITE "${PROJECT_BINARY_DIR}/man3/${link}.3" ".so man3/${name}\n")
    endforeach()
endforeach()
install(DIRECTORY "${PROJECT_BINARY_DIR}/man3" DESTINATION ${CMAKE_INSTALL_MANDIR}
        COMPONENT development)
# The documents that the pages name; their own links past docs/ lead to a checkout.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/primalloc
        COMPONENT development)

install(EXPORT primalloc_targets NAMESPACE primalloc:: FILE primalloc-targets.cmake
        DESTINATION ${PRIMALLOC_CMAKE_DIRECTORY} COMPONENT development)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/primalloc-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/primalloc-config.cmake"
                              INSTALL_DESTINATION ${PRIMALLOC_CMAKE_DIRECTORY})
# Before 1.0 a minor version may break what the one before promised.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/primalloc-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/primalloc-config.cmake"
              "${PROJECT_BINARY_DIR}/primalloc-config-version.cmake"
        DESTINATION ${PRIMALLOC_CMAKE_DIRECTORY} COMPONENT development)

# The prefix is found from where the file lies, so that what is installed can be moved as a whole.
file(RELATIVE_PATH PRIMALLOC_PKGCONFIG_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(PREPEND PRIMALLOC_PKGCONFIG_PREFIX "\${pcfiledir}/")
foreach(name primalloc primalloc-minimal primalloc-prefixed)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in"
                   "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc"
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endforeach()
