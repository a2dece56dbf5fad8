/* lockstep data vocabulary: the vocabulary of a text in a file of its own. */
#include <inttypes.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/output.h"
#include "cli/out/text.h"

static lks_status write_vocabulary(data_source *source, const cli_args *cli, const char *what)
{
    const char *out = cli->local[LOCAL_OUT];
    char count[TEXT_NUMBER_SIZE];
    const bool text = lks_recipe_has(source->recipe, "data.text");
    if (!text && !lks_recipe_has(source->recipe, "data.text_column"))
        return lks_fail(
            LKS_E_INVALID,
            "data vocabulary: %.200s is no text; give a text file (.txt), a folder with "
            "some, or a configuration with data.text or data.text_column",
            what);
    if (out == NULL)
        return lks_fail(LKS_E_INVALID, "data vocabulary needs a file to write: give --out FILE");
    /* Of a text of any length, whatever the samples will be. */
    lks_status status = LKS_OK;
    if (text) status = data_reconfigure(source, cli, what, "data.context=1");
    if (status == LKS_OK) status = output_check(cli, source->recipe, "--out", out, false);
    if (status == LKS_OK)
        status = lks_recipe_dataset(&source->data, source->recipe, source->context, false);
    const lks_tokenizer *tokenizer = lks_dataset_tokenizer(source->data);
    if (status == LKS_OK) status = lks_tokenizer_write(tokenizer, out);
    if (status != LKS_OK) return status;
    say("%s: %s tokens (level %s), hash %016" PRIx64, text_clean(cli->pool, out),
        lks_text_count(count, lks_tokenizer_size(tokenizer)), lks_tokenizer_level(tokenizer),
        lks_tokenizer_hash(tokenizer));
    return LKS_OK;
}

lks_status data_vocabulary(const cli_args *cli, const char *what)
{
    data_source source;
    lks_status status = data_configure(&source, cli, what);
    if (status == LKS_OK) status = write_vocabulary(&source, cli, what);
    data_close(&source);
    return status;
}
