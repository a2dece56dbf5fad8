/* log.csv: a line for each epoch, as spreadsheets open it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "recipe/recipe.h"
#include "recipe/run/record.h"

#include "base/check.h"
#include "base/text.h"

static void csv_number(lki_emit *e, double number)
{
    char text[LKI_NUMBER_SIZE + 1];
    lki_emit_raw(e, text, (size_t)lki_text(text, sizeof text, ",%.9g", number));
}

/* The loss; perplexity, of tokens; accuracy, where there are classes; that of the five largest outputs, where there are
 * more. */
enum { MOST_COLUMNS = 4 };

/* A bit for each of them. */
static int csv_columns(const lks_dataset_info *info)
{
    const bool tokens = info->classes > 0 && info->target_shape.ndim > 0;
    return 1 | tokens << 1 | (info->classes > 0) << 2 | (info->classes > LKI_TOP) << 3;
}

static bool has_tokens(int columns)
{
    return (columns & 2) != 0;
}

static void csv_metrics(lki_emit *e, const lks_metrics *metrics, int columns)
{
    const double counted = (double)metrics->counted;
    const double cell[MOST_COLUMNS] = {lks_metrics_loss(metrics), lks_metrics_perplexity(metrics),
                                       (double)metrics->correct / counted,
                                       (double)metrics->top5 / counted};
    for (int i = 0; i < MOST_COLUMNS; i++) {
        if ((columns >> i & 1) == 0) continue;
        if (metrics->counted > 0)
            csv_number(e, cell[i]);
        else
            lki_emit_raw(e, ",", 1);
    }
}

static void csv_titles(lki_emit *e, int columns)
{
    static const char *const sets[] = {"train", "valid", "test"};
    static const char *const title[MOST_COLUMNS] = {"loss", "perplexity", "accuracy",
                                                    "top5_accuracy"};
    char text[64];
    lki_emit_raw(e, "epoch,step", 10);
    for (int i = 0; i < 3 * MOST_COLUMNS; i++)
        if ((columns >> i % MOST_COLUMNS & 1) != 0)
            lki_emit_raw(e, text,
                         (size_t)lki_text(text, sizeof text, ",%s_%s", sets[i / MOST_COLUMNS],
                                          title[i % MOST_COLUMNS]));
    static const char last[] = ",lr,seconds,samples_per_second", tokens[] = ",tokens_per_second";
    lki_emit_raw(e, last, sizeof last - 1);
    if (has_tokens(columns)) lki_emit_raw(e, tokens, sizeof tokens - 1);
    lki_emit_raw(e, "\n", 1);
}

lks_status lki_csv_write(const lks_recipe *recipe)
{
    const int columns = csv_columns(&recipe->session.info);
    const int64_t batches = lks_loader_batches(recipe->train);
    lki_emit e = {0};
    lks_status status = LKS_OK;
    csv_titles(&e, columns);
    for (int64_t i = 0; i < recipe->run.epochs; i++) {
        const lks_epoch *epoch = &recipe->run.history[i];
        const int64_t end = epoch->epoch * batches, run_end = recipe->run.progress.step;
        char text[64];
        lki_emit_raw(&e, text,
                     (size_t)lki_text(text, sizeof text, "%" PRId64 ",%" PRId64, epoch->epoch,
                                      end < run_end ? end : run_end));
        csv_metrics(&e, &epoch->train, columns);
        csv_metrics(&e, &epoch->valid, columns);
        csv_metrics(&e, &epoch->test, columns);
        csv_number(&e, epoch->learning_rate);
        csv_number(&e, epoch->seconds);
        const double seconds = epoch->seconds > 0 ? epoch->seconds : (double)INFINITY;
        csv_number(&e, (double)epoch->train.samples / seconds);
        if (has_tokens(columns)) csv_number(&e, (double)epoch->train.counted / seconds);
        lki_emit_raw(&e, "\n", 1);
    }
    const size_t bytes = e.used;
    char *text = lki_emit_take(&e, "the table of epochs", &status);
    if (status == LKS_OK)
        status = lks_file_update(lki_config_text(recipe->config, LKI_KEY_LOG_CSV), text, bytes);
    free(text);
    return status;
}
