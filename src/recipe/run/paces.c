/* What each process does, for records and lines: how fast, how long it waits for the others, its memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "recipe/recipe.h"
#include "recipe/run/record.h"

#include "base/check.h"

lks_status lki_paces_begin(lks_recipe *recipe)
{
    const int size = lks_comm_size(recipe->session.comm);
    if (size > 1) recipe->paces = calloc((size_t)size, sizeof *recipe->paces);
    return size == 1 || recipe->paces != NULL
               ? LKS_OK
               : LKI_FAIL(LKS_E_NOMEM, "no memory for the speeds of %d processes", size);
}

void lki_paces_step(lks_recipe *recipe, const lks_step_event *event)
{
    lki_spent *now = &recipe->spent;
    now->samples += event->samples;
    now->tokens += event->metrics->samples > 0
                       ? (double)event->metrics->counted * (double)event->samples /
                             (double)event->metrics->samples
                       : 0;
    now->seconds += event->seconds;
    now->waited += event->waited;
}

/* A collective of few bytes, at moments that are the same for all. */
lks_status lki_paces_gather(lks_recipe *recipe, int64_t step)
{
    const lki_spent *now = &recipe->spent;
    struct rusage usage;
    if (recipe->paces == NULL || !(now->seconds > 0)) return LKS_OK;
    getrusage(RUSAGE_SELF, &usage);
    const lks_pace own = {.samples_per_second = (double)now->samples / now->seconds,
                          .tokens_per_second = now->tokens / now->seconds,
                          .waited = now->waited / now->seconds,
                          .peak_rss_bytes = (int64_t)usage.ru_maxrss * 1024};
    recipe->paces_step = step;
    return lks_comm_all_gather(recipe->session.comm, &own, sizeof own, recipe->paces);
}

const lks_pace *lks_recipe_paces(const lks_recipe *recipe, int *count, int64_t *step)
{
    if (count != NULL) *count = 0;
    if (step != NULL) *step = 0;
    if (recipe == NULL || recipe->paces_step == 0) return NULL;
    if (count != NULL) *count = lks_comm_size(recipe->session.comm);
    if (step != NULL) *step = recipe->paces_step;
    return recipe->paces;
}

void lki_paces_emit(lki_emit *e, const lks_recipe *recipe)
{
    int count;
    const lks_pace *pace = lks_recipe_paces(recipe, &count, NULL);
    if (pace == NULL) return;
    lki_emit_key(e, "ranks");
    lki_emit_open(e, '[', false);
    for (int r = 0; r < count; r++) {
        lki_emit_open(e, '{', true);
        lki_emit_key(e, "host");
        lki_emit_string(e, lks_comm_host(recipe->session.comm, r));
        lki_emit_key(e, "samples_per_second");
        lki_emit_real(e, pace[r].samples_per_second);
        if (lks_model_get_info(recipe->session.model).positions > 0) {
            lki_emit_key(e, "tokens_per_second");
            lki_emit_real(e, pace[r].tokens_per_second);
        }
        lki_emit_key(e, "waited");
        lki_emit_real(e, pace[r].waited);
        lki_emit_key(e, "peak_rss_bytes");
        lki_emit_int(e, pace[r].peak_rss_bytes);
        lki_emit_close(e, '}');
    }
    lki_emit_close(e, ']');
}
