# Has an operation checked whose kernel is wrong.
target_link_options(test_op_trial PRIVATE -Wl,--wrap=lki_backend_find)
