# The benchmark of shards is built with the tests, to see that it compiles.
add_executable(bench_shards ${PROJECT_SOURCE_DIR}/bench/data/shards.c)
target_link_libraries(bench_shards PRIVATE lks_flags lockstep_static m)
