/* Configurations of a test. */
#ifndef LKT_CLI_LAYERS_H
#define LKT_CLI_LAYERS_H

#include "cli/program.h"

typedef struct mistake {
    const char *yaml, *sentence;
} mistake;

static void check_mistakes(const mistake *mistakes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        write_text("c.yaml", mistakes[i].yaml);
        run("train c.yaml --steps 1");
        expect(2, mistakes[i].sentence);
        assert_string_equal(last.out, "");
    }
}

#endif
