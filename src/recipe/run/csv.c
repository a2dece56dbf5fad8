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

/* The loss; accuracy, where there are classes; that of the five largest outputs, where there are more. */
enum { MOST_COLUMNS = 3 };

static int csv_columns(int64_t classes)
{
    return classes > LKI_TOP ? MOST_COLUMNS : classes > 0 ? 2 : 1;
}

static void csv_metrics(lki_emit *e, const lks_metrics *metrics, int columns)
{
    const double counted = (double)metrics->counted;
    if (metrics->counted == 0) {
        lki_emit_raw(e, ",,,", (size_t)columns);
        return;
    }
    const double cell[MOST_COLUMNS] = {lks_metrics_loss(metrics),
                                       (double)metrics->correct / counted,
                                       (double)metrics->top5 / counted};
    for (int i = 0; i < columns; i++) csv_number(e, cell[i]);
}

static void csv_titles(lki_emit *e, int columns)
{
    static const char *const sets[] = {"train", "valid", "test"};
    static const char *const title[MOST_COLUMNS] = {"loss", "accuracy", "top5_accuracy"};
    char text[64];
    lki_emit_raw(e, "epoch,step", 10);
    for (int i = 0; i < 3 * columns; i++)
        lki_emit_raw(
            e, text,
            (size_t)lki_text(text, sizeof text, ",%s_%s", sets[i / columns], title[i % columns]));
    static const char last[] = ",lr,seconds,samples_per_second\n";
    lki_emit_raw(e, last, sizeof last - 1);
}

lks_status lki_csv_write(const lks_recipe *recipe)
{
    const int columns = csv_columns(recipe->session.info.classes);
    const int64_t batches = lks_loader_batches(recipe->train);
    lki_emit e = {0};
    lks_status status = LKS_OK;
    csv_titles(&e, columns);
    for (int64_t i = 0; i < recipe->run.epochs; i++) {
        const lks_epoch *epoch = &recipe->run.history[i];
        char text[64];
        lki_emit_raw(&e, text,
                     (size_t)lki_text(text, sizeof text, "%" PRId64 ",%" PRId64, epoch->epoch,
                                      epoch->epoch * batches));
        csv_metrics(&e, &epoch->train, columns);
        csv_metrics(&e, &epoch->valid, columns);
        csv_metrics(&e, &epoch->test, columns);
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
