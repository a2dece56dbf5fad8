# The toy network by hand, in C and C++, as strangers build it: the public headers and the shared library.
add_executable(toy_net ${PROJECT_SOURCE_DIR}/examples/toy_net.c)
target_compile_options(toy_net PRIVATE -Wall -Wextra -Wpedantic)
target_link_libraries(toy_net PRIVATE lockstep_shared m)
add_test(NAME examples/toy_net COMMAND toy_net)
set_tests_properties(examples/toy_net PROPERTIES TIMEOUT 60)
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  add_executable(toy_net_cpp ${PROJECT_SOURCE_DIR}/examples/toy_net.cpp)
  target_compile_options(toy_net_cpp PRIVATE -std=c++11 -Wall -Wextra -Wpedantic)
  target_link_libraries(toy_net_cpp PRIVATE lockstep_shared)
  add_test(NAME examples/toy_net_cpp COMMAND toy_net_cpp)
  set_tests_properties(examples/toy_net_cpp PROPERTIES TIMEOUT 60)
endif()

# Has parts of the program alone.
target_link_libraries(test_toy_reports PRIVATE lks_program)
