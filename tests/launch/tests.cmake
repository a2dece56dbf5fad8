# They have parts of the launcher alone.
foreach(what report)
  target_link_libraries(test_launch_${what} PRIVATE lks_program)
endforeach()
add_dependencies(test_launch_launch lockstep)
