# Has the verbs in its own process, with functions of the library exchanged.
target_link_libraries(test_cli_staged PRIVATE lks_program)
foreach(function lks_model_hash lks_model_step process_clock doctor_noise lki_backend_find
        lks_context_fingerprint lks_dataset_folder_has lks_dataset_open_folder)
  target_link_options(test_cli_staged PRIVATE -Wl,--wrap=${function})
endforeach()
# Has parts of the program alone, with the machine below them exchanged.
target_link_libraries(test_cli_parts PRIVATE lks_program)
foreach(function isatty ioctl lks_machine_get lks_cores sched_getaffinity process_clock getrlimit
        statvfs fsync write)
  target_link_options(test_cli_parts PRIVATE -Wl,--wrap=${function})
endforeach()
target_link_libraries(test_cli_clocks PRIVATE lks_program)
foreach(function isatty ioctl process_clock pthread_create pthread_join pthread_setaffinity_np
        sched_getaffinity clock_gettime clock_getres)
  target_link_options(test_cli_clocks PRIVATE -Wl,--wrap=${function})
endforeach()
target_link_libraries(test_cli_words PRIVATE lks_program)
target_link_libraries(test_cli_crowd PRIVATE lks_program)
target_link_libraries(test_cli_across PRIVATE lks_program)
foreach(function getaddrinfo freeaddrinfo)
  target_link_options(test_cli_across PRIVATE -Wl,--wrap=${function})
endforeach()
# Knows every verb.
target_include_directories(test_cli_options PRIVATE ${PROJECT_SOURCE_DIR})
