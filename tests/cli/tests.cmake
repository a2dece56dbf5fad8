# The sheets are read back by libpng.
if(LKS_PNG_ON)
  target_link_libraries(test_cli_sheet PRIVATE lks_png)
endif()
# Has the verbs in its own process, with functions of the library exchanged.
target_link_libraries(test_cli_staged PRIVATE lks_program)
foreach(function lks_model_hash lks_model_step process_clock doctor_noise lki_backend_find
        lks_context_fingerprint)
  target_link_options(test_cli_staged PRIVATE -Wl,--wrap=${function})
endforeach()
