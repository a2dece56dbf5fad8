/* log.csv: a line for each epoch, as spreadsheets open it. */
#include <inttypes.h>
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

static void csv_metrics(lki_emit *e, const lks_metrics *metrics, bool classes)
{
    if (metrics->samples == 0) {
        lki_emit_raw(e, ",,", classes ? 2 : 1);
        return;
    }
    csv_number(e, lks_metrics_loss(metrics));
    if (classes) csv_number(e, (double)metrics->correct / (double)metrics->samples);
}

static void csv_titles(lki_emit *e, bool classes)
{
    static const char *const sets[] = {"train", "valid", "test"};
    char text[64];
    lki_emit_raw(e, "epoch,step", 10);
    for (int i = 0; i < 3; i++)
        lki_emit_raw(e, text,
                     (size_t)lki_text(text, sizeof text,
                                      classes ? ",%s_loss,%s_accuracy" : ",%s_loss", sets[i],
                                      sets[i]));
    static const char last[] = ",lr,seconds,samples_per_second\n";
    lki_emit_raw(e, last, sizeof last - 1);
}

lks_status lki_csv_write(const lks_recipe *recipe)
{
    const bool classes = recipe->session.info.classes > 0;
    const int64_t batches = lks_loader_batches(recipe->train);
    lki_emit e = {0};
    lks_status status = LKS_OK;
    csv_titles(&e, classes);
    for (int64_t i = 0; i < recipe->run.epochs; i++) {
        const lks_epoch *epoch = &recipe->run.history[i];
        char text[64];
        lki_emit_raw(&e, text,
                     (size_t)lki_text(text, sizeof text, "%" PRId64 ",%" PRId64, epoch->epoch,
                                      epoch->epoch * batches));
        csv_metrics(&e, &epoch->train, classes);
        csv_metrics(&e, &epoch->valid, classes);
        csv_metrics(&e, &epoch->test, classes);
        csv_number(&e, epoch->learning_rate);
        csv_number(&e, epoch->seconds);
        csv_number(&e, epoch->seconds > 0 ? (double)epoch->train.samples / epoch->seconds : 0);
        lki_emit_raw(&e, "\n", 1);
    }
    const size_t bytes = e.used;
    char *text = lki_emit_take(&e, "the table of epochs", &status);
    if (status == LKS_OK)
        status = lks_file_update(lki_config_text(recipe->config, LKI_KEY_LOG_CSV), text, bytes);
    free(text);
    return status;
}
