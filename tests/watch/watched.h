/* Records for `lockstep watch`. */
#ifndef LKT_WATCH_WATCHED_H
#define LKT_WATCH_WATCHED_H

#include "cli/program.h"

static inline void text_locale(void)
{
    setenv("LANG", "C", 1);
    unsetenv("LC_ALL");
    unsetenv("LC_CTYPE");
}

/* Records of a run of two epochs: whole.json as it ended; half.json as if ten epochs were wanted, of 40 seconds
 * each, tests and all. Its file is as old as `when` says, for touch. */
static inline void records(const char *when)
{
    text_locale();
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet --record whole.json --epochs 2 --workers 2 --set "
        "validation.fraction=0.2");
    expect_ok();
    assert_int_equal(shell("sed -e 's/\"finished\": true/\"finished\": false/' "
                           "-e 's/\"epochs\": 2/\"epochs\": 10/' "
                           "-e 's/^  \"seconds\": .*/  \"seconds\": 80.0,/' whole.json >half.json "
                           "&& grep -q '\"epochs\": 10' half.json && touch -d '%s' half.json",
                           when),
                     0);
}

#endif
