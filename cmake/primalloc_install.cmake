# What `make install` and a package put on a system: libraries, headers and the pkg-config file.
install(TARGETS primalloc primalloc_static primalloc_prefixed
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_file("${PROJECT_SOURCE_DIR}/cmake/primalloc.pc.in"
               "${PROJECT_BINARY_DIR}/primalloc.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/primalloc.pc"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
