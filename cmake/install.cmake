# What `cmake --install` copies where. Components: runtime (the shared library), development (static
# library, headers, pkg-config file, CMake package, examples), program (with its manual, completions,
# documents and configurations), and one for each MPI that there is a module for.
include(CMakePackageConfigHelpers)

# What the static library needs, as -l<name>. Not by pkg-config's names: those would ask for what
# hwloc needs to be linked statically itself.
get_property(libraries GLOBAL PROPERTY LKS_LIBRARIES)
set(lks_libs -pthread)
foreach(library ${libraries})
  set(name ${library})
  if(library MATCHES "^lks_(.*)")
    string(TOUPPER ${CMAKE_MATCH_1} upper)
    get_filename_component(name ${${upper}_LIBRARY} NAME_WE)
    string(REGEX REPLACE "^lib" "" name ${name})
  endif()
  if(NOT library MATCHES "::")
    list(APPEND lks_libs -l${name})
  endif()
  target_link_libraries(lockstep_static INTERFACE $<INSTALL_INTERFACE:${name}>)
endforeach()
list(JOIN lks_libs " " lks_libs)

# The library. The paths in its files are relative, so that the tree can be moved.
set_target_properties(lockstep_shared PROPERTIES EXPORT_NAME lockstep)
set_target_properties(lockstep_static PROPERTIES EXPORT_NAME static)
install(TARGETS lockstep_shared EXPORT lockstep
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
        NAMELINK_COMPONENT development)
foreach(mpi ${LKS_MPIS})
  install(TARGETS lockstep_${mpi} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep COMPONENT ${mpi})
endforeach()
install(TARGETS lockstep_static EXPORT lockstep
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lockstep COMPONENT development
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h PATTERN *.hpp)
set(made ${PROJECT_BINARY_DIR}/generated)
file(RELATIVE_PATH lks_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/lockstep.pc.in ${made}/lockstep.pc @ONLY)
install(FILES ${made}/lockstep.pc COMPONENT development
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
configure_package_config_file(cmake/lockstepConfig.cmake.in ${made}/lockstepConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${made}/lockstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstepTargets.cmake COMPONENT development
        DESTINATION ${package})
install(FILES ${made}/lockstepConfig.cmake ${made}/lockstepConfigVersion.cmake
        COMPONENT development DESTINATION ${package})

# The program prints its own manual and completions.
install(TARGETS lockstep COMPONENT program)
foreach(row "man lockstep.1 ${CMAKE_INSTALL_MANDIR}/man1"
            "bash lockstep ${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
            "zsh _lockstep ${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
  separate_arguments(row)
  list(GET row 0 format)
  list(GET row 1 name)
  list(GET row 2 folder)
  add_custom_command(OUTPUT ${made}/${format}/${name}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${made}/${format}
    COMMAND lockstep --help-as ${format} > ${made}/${format}/${name}
    DEPENDS lockstep VERBATIM)
  list(APPEND printed ${made}/${format}/${name})
  install(FILES ${made}/${format}/${name} COMPONENT program DESTINATION ${folder})
endforeach()
add_custom_target(lks_manual ALL DEPENDS ${printed})
# As they lie in the sources, so that links between them lead somewhere.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.yaml)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md PATTERN *.svg)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples COMPONENT development
        DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.c PATTERN *.cpp PATTERN *.f90)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
              ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md
              ${PROJECT_SOURCE_DIR}/LICENSE
        COMPONENT program DESTINATION ${CMAKE_INSTALL_DOCDIR})
