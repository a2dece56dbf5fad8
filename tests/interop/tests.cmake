# safetensors files between Lockstep, the Python package and PyTorch: skipped where these are not.
add_executable(lkt_logits ${CMAKE_CURRENT_SOURCE_DIR}/interop/logits.c)
target_link_libraries(lkt_logits PRIVATE lks_flags lks_program lockstep_static m)
add_test(NAME interop/safetensors COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interop/run.sh
         $<TARGET_FILE:lockstep> $<TARGET_FILE:lkt_logits>)
set_tests_properties(interop/safetensors PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
