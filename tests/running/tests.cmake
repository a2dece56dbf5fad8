# It writes notes as the program does.
target_link_libraries(test_running_notes PRIVATE lks_program)
add_dependencies(test_running_notes lockstep)
