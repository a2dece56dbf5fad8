# They write and read notes as the program does.
foreach(what across notes stop)
  target_link_libraries(test_running_${what} PRIVATE lks_program)
  add_dependencies(test_running_${what} lockstep)
endforeach()
