add_test(NAME program/valgrind COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/program/valgrind.sh
         $<TARGET_FILE:test_program_clean>)
set_tests_properties(program/valgrind PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 400
  ENVIRONMENT "LKT_SANITIZE=${LKS_SANITIZE}")
