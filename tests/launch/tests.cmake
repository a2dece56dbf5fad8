# They have parts of the launcher alone.
foreach(what reach report seal)
  target_link_libraries(test_launch_${what} PRIVATE lks_program)
endforeach()
add_dependencies(test_launch_processes lockstep)
# Those of a rendezvous, with a clock and an owner of the test's.
if(TARGET test_launch_lead)
  foreach(what daemons follow lead)
    target_link_libraries(test_launch_${what} PRIVATE lks_program)
    target_link_options(test_launch_${what} PRIVATE -Wl,--wrap=process_clock -Wl,--wrap=geteuid)
  endforeach()
  foreach(what daemons lead)
    target_link_options(test_launch_${what} PRIVATE -Wl,--wrap=say_error)
  endforeach()
endif()
add_dependencies(test_launch_launch lockstep)
add_dependencies(test_launch_deaths lockstep)
# With a Slurm of its own.
add_test(NAME launch/cluster COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launch/slurm.sh
         $<TARGET_FILE:lockstep> ${PROJECT_SOURCE_DIR})
set_tests_properties(launch/cluster PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
add_test(NAME launch/hosts COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launch/hosts.sh
         $<TARGET_FILE:lockstep> ${PROJECT_SOURCE_DIR})
set_tests_properties(launch/hosts PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
add_test(NAME launch/meet COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launch/meet.sh
         $<TARGET_FILE:lockstep> ${PROJECT_SOURCE_DIR})
set_tests_properties(launch/meet PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 180)
find_program(LKT_PYTHON python3)
if(LKT_PYTHON)
  add_test(NAME launch/recipes COMMAND ${LKT_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/launch/recipes.py
           $<TARGET_FILE:lockstep> ${PROJECT_SOURCE_DIR})
  set_tests_properties(launch/recipes PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 60)
endif()
