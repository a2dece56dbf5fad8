# Examples in several processes, by every MPI that there is a module for; as strangers build them: the public
# headers and the shared library.
add_executable(own_loop ${PROJECT_SOURCE_DIR}/examples/own_loop.c)
target_compile_options(own_loop PRIVATE -Wall -Wextra -Wpedantic)
target_link_libraries(own_loop PRIVATE lockstep_shared m)
add_test(NAME examples/own_loop COMMAND own_loop)
set_tests_properties(examples/own_loop PROPERTIES TIMEOUT 60)
set(mpis ${LKS_MPIS} openmpi mpich)
list(REMOVE_DUPLICATES mpis)
foreach(mpi ${mpis})
  set(arguments "")
  if(mpi IN_LIST LKS_MPIS)
    get_target_property(launcher lks_mpi_${mpi} LKS_MPIEXEC)
    set(arguments ${launcher} ${PROJECT_BINARY_DIR})
  endif()
  add_test(NAME examples/${mpi}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/examples/mpi.sh ${mpi} ${arguments})
  set_tests_properties(examples/${mpi} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240)
endforeach()
