/*
 * What only tools want, such as the verbs of the program `lockstep`. Nothing here belongs to what a
 * version number promises: with any version functions may change, or go (docs/compatibility.md).
 */
#ifndef LOCKSTEP_TOOLS_H
#define LOCKSTEP_TOOLS_H

#include <lockstep/profile.h>
#include <lockstep/recipe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The steps of lks_recipe_train(), for who talks in between: takes the folder of checkpoints, which
 * lks_recipe_start() does too; trains alone. *complete (may be NULL): the run has its hash, by its end,
 * a stop, or where but the last checkpoint could not be saved. Then weights and record are written. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_lock(lks_recipe *recipe);
LKS_API LKS_MUSTUSE lks_status lks_recipe_run(lks_recipe *recipe, const lks_train_events *events,
                                              const lks_run **run, bool *complete);

/* The file of model.save, or NULL; and log.record, written as at the end of a training. */
LKS_API const char *lks_recipe_weights(lks_recipe *recipe);
LKS_API LKS_MUSTUSE lks_status lks_recipe_save_record(const lks_recipe *recipe);
/* Its record counts from here: this much time was over before this call. */
LKS_API void lks_recipe_clock(lks_recipe *recipe, double seconds, const char *from);

/* A key of the recipe: whether it is set; whether by lks_recipe_set() or an option, not by its file or a
 * default; its value, which must have that type. A text that is not set is NULL. */
LKS_API bool lks_recipe_has(const lks_recipe *recipe, const char *key);
LKS_API bool lks_recipe_given(const lks_recipe *recipe, const char *key);
LKS_API int64_t lks_recipe_int(const lks_recipe *recipe, const char *key);
LKS_API double lks_recipe_float(const lks_recipe *recipe, const char *key);
LKS_API bool lks_recipe_bool(const lks_recipe *recipe, const char *key);
LKS_API const char *lks_recipe_text(const lks_recipe *recipe, const char *key);
/* Sets it from an option: a text is taken as it is. Sentences name `where`, "--workers". */
LKS_API LKS_MUSTUSE lks_status lks_recipe_option(lks_recipe *recipe, const char *key,
                                                 const char *text, const char *where);
/* LKS_E_INVALID "<where it was set>: <key> <sentence>". */
LKS_API lks_status lks_recipe_fail(const lks_recipe *recipe, const char *key, const char *format,
                                   ...) LKS_PRINTF(3, 4);
/* Every key with its value as JSON, as checkpoints keep it; free() it. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_json(lks_recipe *recipe, char **out);
/* The first key whose values make two runs of them, or NULL. */
LKS_API const char *lks_recipe_difference(const lks_recipe *a, const lks_recipe *b);

/* For recipes that are not resolved: calls data that has a folder, but no name, as the folder is called;
 * where the data is, or is looked for (NULL: there is no home); the whole training or test split. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_name_data(lks_recipe *recipe);
LKS_API const char *lks_recipe_folder(lks_recipe *recipe);
LKS_API LKS_MUSTUSE lks_status lks_recipe_dataset(lks_dataset **out, lks_recipe *recipe,
                                                  lks_context *context, bool test);
/* Makes a folder, with its parents, where it is missing, and sees that files can be written there. */
LKS_API LKS_MUSTUSE lks_status lks_folder_make(const char *path);
/* The operation of a line such as "conv2d filters=32 kernel=3 in=8x28x28x1", in a graph of its own. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_line(lks_tensor **out, int64_t *samples,
                                               lks_recipe *recipe, lks_graph *graph,
                                               const char *line);

#ifdef __cplusplus
}
#endif
#endif
