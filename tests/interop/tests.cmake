# safetensors files between Lockstep, the Python package and PyTorch: skipped where these are not.
add_executable(lkt_logits ${CMAKE_CURRENT_SOURCE_DIR}/interop/logits.c)
target_link_libraries(lkt_logits PRIVATE lks_flags lks_program lockstep_static m)
add_test(NAME interop/safetensors COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interop/run.sh interop.py
         $<TARGET_FILE:lockstep> $<TARGET_FILE:lkt_logits>)
set_tests_properties(interop/safetensors PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
# A language model that was trained here in Hugging Face's class, by the lines of docs/networks.md.
add_test(NAME interop/gpt2 COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interop/run.sh gpt2.py
         $<TARGET_FILE:lockstep> $<TARGET_FILE:lkt_logits> ${PROJECT_SOURCE_DIR}/docs/networks.md)
set_tests_properties(interop/gpt2 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
