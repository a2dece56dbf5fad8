# Not a test: kernels alone against the FMA peak. Built with the tests, so that it keeps compiling.
if(LKS_CPU_ON)
  add_executable(bench_micro ${PROJECT_SOURCE_DIR}/bench/micro.c)
  target_link_libraries(bench_micro PRIVATE lks_flags lockstep_static m)
endif()
