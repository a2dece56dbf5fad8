# The loader's benchmark is built with the tests, and run for a moment to see that it works.
add_executable(bench_loader ${PROJECT_SOURCE_DIR}/bench/loader.c)
target_link_libraries(bench_loader PRIVATE lks_flags lockstep_static m)
add_test(NAME bench/loader COMMAND bench_loader --brief)
set_tests_properties(bench/loader PROPERTIES TIMEOUT 60)
