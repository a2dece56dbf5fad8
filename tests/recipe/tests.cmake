# The example, a program of its own: the public headers and the shared library. recipe/recipe runs it.
add_executable(example_recipe ${PROJECT_SOURCE_DIR}/examples/recipe.c)
target_compile_options(example_recipe PRIVATE -Wall -Wextra -Wpedantic)
target_link_libraries(example_recipe PRIVATE lockstep_shared)
# Its memory is exchanged, so that each allocation can fail.
foreach(function malloc calloc realloc posix_memalign strdup)
  target_link_options(test_recipe_memory PRIVATE -Wl,--wrap=${function})
endforeach()
