# Steps under strace, for every backend of the build.
add_executable(lkt_steps ${CMAKE_CURRENT_SOURCE_DIR}/model/steps.c)
target_include_directories(lkt_steps PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(lkt_steps PRIVATE lks_flags lks_cmocka lks_support lockstep_static m)
set(devices ref)
if(LKS_CPU_ON)
  list(APPEND devices cpu)
endif()
if(NOT LKS_SANITIZE) # sanitizers make system calls of their own
  foreach(device ${devices})
    add_test(NAME model/syscalls_${device} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/model/syscalls.sh
             $<TARGET_FILE:lkt_steps> ${device})
    set_tests_properties(model/syscalls_${device} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
  endforeach()
endif()

add_executable(bench_fma_peak ${PROJECT_SOURCE_DIR}/bench/fma_peak.c)
target_link_libraries(bench_fma_peak PRIVATE lks_flags lockstep_static m)

# Has models compiled for a device that lacks a function.
target_link_options(test_model_kept PRIVATE -Wl,--wrap=lki_backend_find)
