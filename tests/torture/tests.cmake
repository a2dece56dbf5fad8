# Libraries that are loaded before the C library, and make its calls fail, or its clock hurry.
foreach(what clock files memory)
  add_library(lkt_shim_${what} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/torture/shim_${what}.c)
  target_compile_options(lkt_shim_${what} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
  target_compile_definitions(lkt_shim_${what} PRIVATE _GNU_SOURCE)
  target_link_libraries(lkt_shim_${what} PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(lkt_shim_${what} PROPERTIES C_VISIBILITY_PRESET default)
endforeach()
foreach(what failures kills memory outputs shards texts)
  add_dependencies(test_torture_${what} lkt_shim_clock lkt_shim_files lkt_shim_memory lockstep)
  # A kill is not a power cut: what was written is there, on a disk or in memory.
  set_property(TEST torture/${what} APPEND PROPERTY ENVIRONMENT "${in_memory}")
endforeach()
