/*
 * A whole training in a few lines of C: what `lockstep train digits.yaml --set key=value` does.
 *
 *     cc recipe.c -llockstep -o recipe && ./recipe digits.yaml train.steps=100
 */
#include <inttypes.h>
#include <stdio.h>

#include <lockstep/recipe.h>

int main(int argc, char **argv)
{
    lks_recipe *recipe;
    const lks_run *run;
    lks_status status = lks_recipe_open(&recipe, argc > 1 ? argv[1] : "digits.yaml");
    for (int i = 2; i < argc && status == LKS_OK; i++) status = lks_recipe_set(recipe, argv[i]);
    if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, &run);
    if (status == LKS_OK)
        printf("hash %016" PRIx64 " step %" PRId64 "\n", run->hash, run->progress.step);
    else
        fprintf(stderr, "recipe: %s\n", lks_last_error()->message);
    lks_recipe_close(recipe);
    return (int)status;
}
