# What `make install` and a package put on a system: libraries, headers and the pkg-config file.
install(TARGETS primalloc primalloc_static primalloc_prefixed
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The prefix is found from where the file lies, so that what is installed can be moved as a whole.
file(RELATIVE_PATH PRIMALLOC_PKGCONFIG_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(PREPEND PRIMALLOC_PKGCONFIG_PREFIX "\${pcfiledir}/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/primalloc.pc.in"
               "${PROJECT_BINARY_DIR}/primalloc.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/primalloc.pc"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
