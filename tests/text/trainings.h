/* Trainings on texts in the test's folder, by recipes. */
#ifndef LKT_TEXT_TRAININGS_H
#define LKT_TEXT_TRAININGS_H

#include <stdlib.h>

#include <lockstep/recipe.h>

#include "text/texts.h"

static char keys[20000];

/* Some thousand words of a small language. */
static inline void write_sentences(const char *name, uint64_t seed, int words)
{
    static const char *const list[] = {"the", "cat", "sat", "on",
                                       "a",   "mat", "and", "\xC3\xA9t\xC3\xA9"};
    char *text = malloc((size_t)words * 8 + 8);
    assert_non_null(text);
    lkt_random random = lkt_random_make("sentences", seed);
    size_t bytes = 0;
    int64_t word = 0;
    for (int i = 0; i < words; i++) {
        word = (word + 1 + lkt_random_below(&random, 2)) % 8;
        bytes += (size_t)sprintf(text + bytes, "%s%c", list[word], i % 7 == 6 ? '\n' : ' ');
    }
    write_text(name, text, bytes);
    free(text);
}

static inline lks_recipe *open_recipe(const char *text)
{
    lks_recipe *recipe;
    LKT_OK(lks_recipe_open_text(&recipe, "a test", text));
    return recipe;
}

static inline void set(lks_recipe *recipe, const char *format, const char *what)
{
    char assignment[4400];
    snprintf(assignment, sizeof assignment, format, what);
    LKT_OK(lks_recipe_set(recipe, assignment));
}

static inline uint64_t train(const char *text, const char *const *sets, lks_epoch *last)
{
    const lks_run *run;
    lks_recipe *recipe = open_recipe(text);
    for (; sets != NULL && *sets != NULL; sets++) LKT_OK(lks_recipe_set(recipe, *sets));
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    const uint64_t hash = run->hash;
    assert_true(run->epochs >= 1);
    if (last != NULL) *last = run->history[run->epochs - 1];
    lks_recipe_close(recipe);
    return hash;
}

#endif
