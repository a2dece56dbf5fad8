# Debian packages by `cpack -G DEB`: the program, the shared library, what compiling against it needs,
# and a module for each MPI, which alone depends on that. The program holds the library, so it needs no
# other of them.
set(lks_lib liblockstep${LKS_SOVERSION})
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "Lockstep developers <lockstep@localhost>")
set(CPACK_STRIP_FILES ON)
set(lks_mpis "")
foreach(mpi ${LKS_MPIS}) # a user's own MPI, which has a path, is in no package to depend on
  get_target_property(rpath lks_mpi_${mpi} LKS_RPATH)
  if(NOT rpath)
    list(APPEND lks_mpis ${mpi})
  endif()
endforeach()
set(CPACK_COMPONENTS_ALL program runtime development ${lks_mpis})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The folders of the packages have the usual modes, whatever the umask is.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(lks_about "It trains neural networks in C: the parameters after every step are the same, to
the last bit, on any number of worker threads, and also when a run was stopped
and resumed; a hash proves it.

This package has")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME lockstep)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "${lks_about} the program, its manual and example configurations.")
if(LKS_CURL_ON) # loaded when a download begins, so that no binary names it
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libcurl4 | libcurl3-gnutls, ca-certificates")
endif()

foreach(mpi ${lks_mpis})
  string(TOUPPER ${mpi} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME lockstep-${mpi})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${lks_about} the module for training in several processes by ${mpi}.")
  list(APPEND lks_modules lockstep-${mpi})
endforeach()
list(JOIN lks_modules ", " CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${lks_lib})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION
    "${lks_about} the shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblockstep-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${lks_lib} (= ${PROJECT_VERSION}-1), libc6-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "${lks_about} headers, the static library, and files for pkg-config
and CMake.")
# What linking with the static library takes.
foreach(row "zlib zlib1g-dev" "xxhash libxxhash-dev" "jansson libjansson-dev"
            "yaml libyaml-dev" "hwloc libhwloc-dev" "png libpng-dev" "jpeg libjpeg-dev")
  separate_arguments(row)
  list(GET row 0 name)
  list(GET row 1 package)
  if(TARGET lks_${name})
    list(APPEND lks_static ${package})
  endif()
endforeach()
list(JOIN lks_static ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS)

# What only packages have: the copyright file of each, and a compressed manual and changelog.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_files.cmake)
include(CPack)
