# The example, a program of its own: the public headers and the shared library. recipe/recipe runs it.
add_executable(example_recipe ${PROJECT_SOURCE_DIR}/examples/recipe.c)
target_compile_options(example_recipe PRIVATE -Wall -Wextra -Wpedantic)
target_link_libraries(example_recipe PRIVATE lockstep_shared)
if(LKS_PNG_ON) # images of samples are read back
  target_link_libraries(test_recipe_board PRIVATE lks_png)
endif()
# Its memory is exchanged, so that each allocation can fail.
foreach(function malloc calloc realloc posix_memalign strdup)
  target_link_options(test_recipe_memory PRIVATE -Wl,--wrap=${function})
endforeach()
# They count the batches that are tested.
target_link_options(test_recipe_matrix PRIVATE -Wl,--wrap=lks_model_evaluate_outputs)
target_link_options(test_recipe_fitting PRIVATE
                    -Wl,--wrap=lks_model_evaluate_outputs,--wrap=lks_model_evaluate)
