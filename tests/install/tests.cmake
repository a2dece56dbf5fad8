# The installed tree, as programs outside of it use it. Sanitized libraries need sanitized programs.
if(NOT LKS_SANITIZE)
  add_test(NAME install/outside COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh
           ${PROJECT_BINARY_DIR})
  set_tests_properties(install/outside PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
if(NOT LKS_SANITIZE)
  add_test(NAME install/packages COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/packages.sh
           ${PROJECT_BINARY_DIR})
  set_tests_properties(install/packages PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
