# bench/sampling/run.
add_executable(bench_sample ${PROJECT_SOURCE_DIR}/bench/sampling/sample.c)
target_link_libraries(bench_sample PRIVATE lks_flags lockstep_static)
# Has a part of the program.
target_link_libraries(test_sample_ends PRIVATE lks_program)
