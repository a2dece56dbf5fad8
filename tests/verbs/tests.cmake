# The sheets are read back by libpng.
if(LKS_PNG_ON)
  target_link_libraries(test_verbs_sheet PRIVATE lks_png)
endif()
if(TARGET test_verbs_transfers)
  target_link_libraries(test_verbs_transfers PRIVATE lks_program)
  foreach(function isatty ioctl process_clock fetch_open fetch_run digest_sha256)
    target_link_options(test_verbs_transfers PRIVATE -Wl,--wrap=${function})
  endforeach()
endif()
# They have a clock that hurries.
foreach(what bench doctor)
  add_dependencies(test_verbs_${what} lkt_shim_clock lockstep)
endforeach()
