# Has other CPUs than this machine's.
foreach(function lki_allowed_cpus lki_quota_cores)
  target_link_options(test_comm_cores PRIVATE -Wl,--wrap=${function})
endforeach()
# Lies elsewhere.
target_link_options(test_comm_modules PRIVATE -Wl,--wrap=readlink)
target_link_options(test_comm_measure PRIVATE -Wl,--wrap=clock_gettime)
