# The loader's benchmark is built with the tests, and run for a moment to see that it works.
add_executable(bench_loader ${PROJECT_SOURCE_DIR}/bench/loader.c)
target_link_libraries(bench_loader PRIVATE lks_flags lockstep_static m)
add_test(NAME bench/loader COMMAND bench_loader --brief)
set_tests_properties(bench/loader PROPERTIES TIMEOUT 60)
# Pictures are written by libpng and libjpeg; packed ones are compared with Pillow's where that is there.
if(LKS_PNG_ON)
  target_link_libraries(test_data_pictures PRIVATE lks_png)
  target_link_libraries(test_data_pack PRIVATE lks_png)
  add_test(NAME data/pillow COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/data/pillow.py $<TARGET_FILE:lockstep>
           $<$<BOOL:${LKS_JPEG_ON}>:jpeg>)
  set_tests_properties(data/pillow PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
endif()
if(LKS_PNG_ON AND LKS_JPEG_ON)
  target_link_libraries(test_data_pictures PRIVATE lks_jpeg)
  target_link_libraries(test_pictures_exif PRIVATE lks_jpeg)
  target_compile_definitions(test_data_pictures PRIVATE LKT_HAVE_JPEG)
  target_compile_definitions(test_pictures_exif PRIVATE LKT_HAVE_JPEG)
endif()
