/* lockstep data pack: pictures of one's own into a file that training maps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/output.h"
#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/stop.h"

typedef struct progress {
    cli_pool *pool;
    double start, drawn;
    int64_t begin; /* pictures that were done when this began */
} progress;

static bool draw_progress(void *user, int64_t done, int64_t all)
{
    enum { LINE_SECONDS = 10 };
    progress *p = user;
    const double now = process_clock();
    char amount[80], speed[40], eta[32] = "", some[TEXT_NUMBER_SIZE], number[TEXT_NUMBER_SIZE];
    if (stop_asked() != 0) return false;
    if (p->begin < 0) {
        p->begin = done;
        p->start = p->drawn = now;
    }
    const double rate = now > p->start ? (double)(done - p->begin) / (now - p->start) : 0;
    const double left = rate > 0 ? (double)(all - done) / rate : INT32_MAX;
    snprintf(amount, sizeof amount, "%s of %s pictures", lks_text_count(some, done),
             lks_text_count(number, all));
    snprintf(speed, sizeof speed, "%.0f/s", rate);
    if (left < 360000) snprintf(eta, sizeof eta, "ETA %d:%02d", (int)left / 60, (int)left % 60);
    if (say_width() > 0) {
        say_bar("packing", (double)done / (double)all, (const char *const[]){amount, eta, speed},
                3);
    } else if (now - p->drawn >= LINE_SECONDS) {
        p->drawn = now;
        say_error("%s, %s", amount, speed);
    }
    return true;
}

static void name_bad(void *user, const char *path, const char *reason)
{
    const progress *p = user;
    say_status(NULL);
    say_error("%s: %s", text_clean(p->pool, path), reason);
}

/* "64", or "80x60": width x height. */
static lks_status read_size(lks_pack_opts *out, const char *text)
{
    char width[16] = "", height[16] = "";
    int64_t w = 0, h = 0;
    if (text == NULL)
        return lks_fail(LKS_E_INVALID,
                        "data pack needs the size that all pictures are to have: give "
                        "--size 64, or --size 80x60 for 80 columns and 60 rows");
    const char *x = strchr(text, 'x');
    const size_t length = x != NULL ? (size_t)(x - text) : strlen(text);
    if (length < sizeof width) memcpy(width, text, length);
    snprintf(height, sizeof height, "%s", x != NULL ? x + 1 : width);
    if (!lki_text_is_int(width, &w) || !lki_text_is_int(height, &h) || w < 1 || h < 1 ||
        w > INT32_MAX || h > INT32_MAX)
        return lks_fail(
            LKS_E_INVALID,
            "--size is '%.60s', expected a number of pixels, such as 64, or 80x60 for 80 "
            "columns and 60 rows",
            text);
    out->width = (int)w;
    out->height = (int)h;
    return LKS_OK;
}

static lks_status read_options(lks_pack_opts *out, const cli_args *cli)
{
    const char *split = cli->local[LOCAL_SPLIT];
    lks_status status = read_size(out, cli->local[LOCAL_SIZE]);
    if (status != LKS_OK) return status;
    if (split != NULL &&
        (!lki_text_is_float(split, &out->split) || !(out->split > 0 && out->split < 1)))
        return lks_fail(LKS_E_INVALID,
                        "--split is '%.60s', expected a share between 0 and 1, such as 0.1", split);
    out->skip_bad = cli->local[LOCAL_SKIP_BAD] != NULL;
    return data_threads(&out->threads, cli);
}

/* Whether a path ends in the folder itself, or in the one above it, as "." and "photos/.." do. */
static bool ends_in_dots(const char *what, size_t length)
{
    size_t dots = 0;
    while (dots < length && what[length - 1 - dots] == '.') dots++;
    return (dots == 1 || dots == 2) && (dots == length || what[length - 1 - dots] == '/');
}

/* Beside the pictures: "photos-64x64" of "photos/", "labels-64x64" of "labels.csv", "../photos-64x64" of "." in photos. */
static const char *folder_for(cli_pool *pool, const char *what, const lks_pack_opts *opts)
{
    size_t length = strlen(what);
    while (length > 1 && what[length - 1] == '/') length--;
    char *real = ends_in_dots(what, length) ? realpath(what, NULL) : NULL;
    if (real != NULL) {
        const char *out = pool_format(pool, "%.*s/../%s-%dx%d", (int)length, what,
                                      strrchr(real, '/') + 1, opts->width, opts->height);
        free(real);
        return strncmp(out, "./../", 5) == 0 ? out + 2 : out;
    }
    if (length > 4 &&
        (strncmp(what + length - 4, ".csv", 4) == 0 || strncmp(what + length - 4, ".tsv", 4) == 0))
        length -= 4;
    return pool_format(pool, "%.*s-%dx%d", (int)length, what, opts->width, opts->height);
}

static const char *count_of(cli_pool *pool, int64_t number)
{
    char text[TEXT_NUMBER_SIZE];
    return pool_format(pool, "%s", lks_text_count(text, number));
}

static void say_packed(cli_pool *pool, const char *what, const lks_pack_opts *opts,
                       const lks_pack_result *r)
{
    if (r->kept > 0)
        say_error("%s picture%s had been packed by an earlier run", count_of(pool, r->kept),
                  TEXT_S(r->kept));
    if (r->bad > 0)
        say_error("%s bad picture%s left out", count_of(pool, r->bad),
                  r->bad == 1 ? " is" : "s are");
    if (r->others > 0)
        say_error("%s file%s not called as pictures are", count_of(pool, r->others),
                  r->others == 1 ? " is" : "s are");
    say("%s: %s; %s classes, %s training and %s test picture%s", text_clean(pool, what), r->how,
        count_of(pool, r->classes), count_of(pool, r->samples[0]), count_of(pool, r->samples[1]),
        TEXT_S(r->samples[1]));
    if (r->samples[1] == 0)
        say("There is no test split: --split 0.1 holds pictures back; or a training does, with "
            "validation.fraction");
    const char *out = text_clean(pool, opts->out);
    say("%s/pictures.packed: %.1f MB, samples of %dx%dx3", out, (double)r->bytes / 1e6,
        opts->height, opts->width);
    say("Next: lockstep data show %s; lockstep train CONFIG --data %s", out, out);
}

static lks_status pack(const cli_args *cli, lks_pack_opts *opts, const char *what)
{
    lks_context *context = NULL;
    lks_pack_result result;
    progress p = {.pool = cli->pool, .begin = -1};
    lks_status status = output_alone();
    if (status == LKS_OK) status = lks_context_create(&context, &say_logged);
    opts->out = cli->local[LOCAL_OUT] != NULL ? cli->local[LOCAL_OUT]
                                              : folder_for(cli->pool, what, opts);
    opts->progress = draw_progress;
    opts->bad = name_bad;
    opts->user = &p;
    stop_watch();
    if (status == LKS_OK) status = lks_pack_pictures(&result, context, what, opts);
    say_status(NULL);
    if (status == LKS_OK) say_packed(cli->pool, what, opts, &result);
    lks_context_destroy(context);
    return status;
}

lks_status data_pack(const cli_args *cli, const char *what)
{
    lks_recipe *recipe;
    lks_pack_opts opts = {.width = 0};
    lks_status status = cli_configure(&recipe, cli, NULL);
    if (status == LKS_OK) {
        opts.seed = (uint64_t)lks_recipe_int(recipe, "data.seed");
        status = read_options(&opts, cli);
    }
    if (status == LKS_OK) status = pack(cli, &opts, what);
    lks_recipe_close(recipe);
    return status;
}
