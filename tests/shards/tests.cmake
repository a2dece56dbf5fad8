# The benchmark of shards is built with the tests, to see that it compiles.
add_executable(bench_shards ${PROJECT_SOURCE_DIR}/bench/data/shards.c)
target_link_libraries(bench_shards PRIVATE lks_flags lockstep_static m)
# HDF5 files are libhdf5's and h5py's.
if(LKS_HDF5_ON)
  target_link_libraries(test_shards_hdf5 PRIVATE ${HDF5_LIBRARY})
  target_include_directories(test_shards_hdf5 SYSTEM PRIVATE ${HDF5_INCLUDE})
  target_compile_definitions(test_shards_hdf5 PRIVATE LKT_HAVE_HDF5)
  add_test(NAME interop/hdf5 COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interop/run.sh hdf5.py $<TARGET_FILE:lockstep>)
  set_tests_properties(interop/hdf5 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
endif()
# Of many small files, that need not reach a disk.
set_property(TEST shards/ranks APPEND PROPERTY ENVIRONMENT "${in_memory}")
# Counts the files that are opened to be measured.
target_link_options(test_shards_splits PRIVATE -Wl,--wrap=lki_shard_open)
