# bench/sampling/run.
add_executable(bench_sample ${PROJECT_SOURCE_DIR}/bench/sampling/sample.c)
target_link_libraries(bench_sample PRIVATE lks_flags lockstep_static)
