# The benchmark of CSV is built with the tests, and run for a moment to see that it works.
add_executable(bench_csv ${PROJECT_SOURCE_DIR}/bench/data/csv.c)
target_link_libraries(bench_csv PRIVATE lks_flags lockstep_static m)
add_test(NAME bench/csv COMMAND bench_csv --brief)
set_tests_properties(bench/csv PROPERTIES TIMEOUT 60)
# What lies behind a mapped file may not be read there.
target_link_options(test_table_csv PRIVATE -Wl,--wrap=mmap)
