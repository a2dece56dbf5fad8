# Not tests: kernels alone against the FMA peak, and against oneDNN where that is found. Built with the
# tests, so that they keep compiling.
if(LKS_CPU_ON)
  lks_find(dnnl oneapi/dnnl/dnnl.h libdnnl-dev dnnl)
  foreach(bench layers blocks inference)
    add_executable(bench_${bench} ${PROJECT_SOURCE_DIR}/bench/${bench}.c)
    target_link_libraries(bench_${bench} PRIVATE lks_flags lockstep_static m)
    if(DNNL_FOUND AND bench STREQUAL layers)
      target_sources(bench_${bench} PRIVATE ${PROJECT_SOURCE_DIR}/bench/onednn.c)
      target_compile_definitions(bench_${bench} PRIVATE BENCH_ONEDNN)
      target_link_libraries(bench_${bench} PRIVATE lks_dnnl)
    endif()
  endforeach()
endif()
add_test(NAME cpu/valgrind COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cpu/valgrind.sh
         $<TARGET_FILE:test_program_clean>)
set_tests_properties(cpu/valgrind PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 400
  ENVIRONMENT "LKT_SANITIZE=${LKS_SANITIZE}")
