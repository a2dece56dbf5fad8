# The example is a program of its own: the public headers and the shared library, nothing else. It
# checks itself, and fails when what it loads does not answer as what it saved.
add_executable(own_program ${PROJECT_SOURCE_DIR}/examples/own_program.c)
target_compile_options(own_program PRIVATE -Wall -Wextra -Wpedantic)
target_link_libraries(own_program PRIVATE lockstep_shared m)
add_test(NAME examples/own_program
         COMMAND own_program ${CMAKE_CURRENT_BINARY_DIR}/ring.safetensors)
set_tests_properties(examples/own_program PROPERTIES TIMEOUT 60)
