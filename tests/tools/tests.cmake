# The checks of tools/, on trees with what they look for.
add_test(NAME tools/check_symbols COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/check_symbols.sh
         ${PROJECT_SOURCE_DIR}/tools/check_symbols)
set_tests_properties(tools/check_symbols PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
# Tests that docs/testing.md names.
add_test(NAME tools/pains COMMAND ${PROJECT_SOURCE_DIR}/tools/pains)
