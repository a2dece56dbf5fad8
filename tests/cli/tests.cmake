# The sheets are read back by libpng.
if(LKS_PNG_ON)
  target_link_libraries(test_cli_sheet PRIVATE lks_png)
endif()
