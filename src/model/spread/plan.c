/* Who updates what, where the optimizer is spread over ranks that exchange messages. */
#include "base/check.h"
#include "model/model.h"
#include "optim/optimizer.h"

enum { LINE = LKI_ALIGN / sizeof(float) };

bool lki_spread_later(const lks_model *model)
{
    return model->measures || lki_optimizer_by_rows(&model->opts.optim);
}

static void *spread_list(lks_model *model, lks_status *status, size_t count, size_t size)
{
    void *memory = NULL;
    if (*status == LKS_OK)
        *status = lki_arena_alloc(&model->arena, &memory, (count + 1) * size,
                                  "slices of the optimizer");
    return memory;
}

lks_status lki_spread_choose(lks_model *model)
{
    lks_status status = LKS_OK;
    const lks_model_opts *opts = &model->opts;
    if (!lki_sums_across(model) || model->program.loss == NULL || opts->shard != LKS_SHARD_ON ||
        opts->reduction != LKS_REDUCTION_STRICT || opts->exchange == LKS_EXCHANGE_NONE)
        return LKS_OK;
    model->across->spread = spread_list(model, &status, 1, sizeof(lki_spread));
    return status;
}

static bool is_in(const lki_weight *weight, int array)
{
    return weight->trained && (weight->offset >= 0) == (array == 0);
}

int64_t lki_spread_place(const lks_model *model, int weight)
{
    const int64_t offset = model->weight[weight].offset;
    return offset >= 0 ? offset : model->across->rows_at[weight];
}

int64_t lki_spread_values(lks_model *model, float *memory)
{
    const int64_t rows = model->gradient_count;
    int64_t end = rows + model->across->rows_count;
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        const int64_t at = is_in(weight, 0)   ? weight->offset
                           : is_in(weight, 1) ? rows + model->across->rows_at[w]
                                              : end;
        if (memory != NULL) weight->value = memory + at;
        if (!weight->trained) end += (weight->count + LINE - 1) / LINE * LINE;
    }
    return end;
}

/* The smallest number of floats that both these are parts of. */
static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t divisor = a, rest = b;
    while (rest != 0) {
        const int64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    return a / divisor * b;
}

int64_t lki_spread_unit(const lks_model *model, const lki_weight *weight)
{
    if (!lki_spreads(model)) return 1;
    const int64_t row = lki_optimizer_by_rows(&model->opts.optim)
                            ? weight->count / lki_adamp_rows(weight)
                            : 1;
    return common_multiple(row, model->measures ? LKI_UPDATE_BLOCK : 1);
}

int64_t lki_spread_floor(const lks_model *model, int array, int64_t at)
{
    for (int w = 0; w < model->weights && lki_spreads(model); w++) {
        const lki_weight *weight = &model->weight[w];
        if (!is_in(weight, array)) continue;
        const int64_t begin = lki_spread_place(model, w);
        if (at <= begin || at >= begin + weight->count) continue;
        const int64_t unit = lki_spread_unit(model, weight);
        return begin + (at - begin) / unit * unit;
    }
    return at;
}

/* The last place in a bucket, not behind this one, where slices may meet. */
static int64_t slice_floor(const lks_model *model, int b, int64_t at)
{
    const lki_across *across = model->across;
    if (at == across->count[b]) return at;
    if (!lki_spread_later(model)) return at / LINE * LINE;
    return lki_spread_floor(model, across->array_of[b], across->at[b] + at) - across->at[b];
}

/* What a rank has too little of in a bucket, as it cannot be cut anywhere, it gets in the next ones. */
static void cut_slices(lks_model *model, int64_t *before)
{
    const lki_across *across = model->across;
    const int ranks = across->ranks;
    int64_t all = 0;
    for (int b = 0; b < across->near + across->far; b++) {
        int64_t *cut = across->spread->cut + b * (ranks + 1);
        all += across->count[b];
        for (int r = 1; r < ranks; r++) {
            int64_t at = lki_share(r, ranks, all) - before[r]; /* floats of ranks before it */
            at = at < cut[r - 1] ? cut[r - 1] : at > across->count[b] ? across->count[b] : at;
            cut[r] = slice_floor(model, b, at);
            before[r] += cut[r];
        }
        cut[ranks] = across->count[b];
    }
}

/* What a rank has of a bucket, from strip number `strips` on; returns the number behind. */
static int list_strips(lks_model *model, int rank, int b, int strips, int64_t *kept)
{
    const lki_across *across = model->across;
    const int64_t *cut = across->spread->cut + b * (across->ranks + 1) + rank;
    const int64_t begin = across->at[b] + cut[0], end = across->at[b] + cut[1];
    for (int w = 0; w < model->weights; w++) {
        if (!is_in(&model->weight[w], across->array_of[b])) continue;
        const int64_t place = lki_spread_place(model, w), last = place + model->weight[w].count;
        const int64_t first = place > begin ? place : begin, behind = last < end ? last : end;
        if (first >= behind) continue;
        across->spread->strip[strips++] = (lki_strip){
            .weight = w, .first = first - place, .count = behind - first, .kept = *kept};
        *kept += (behind - first + LINE - 1) / LINE * LINE;
    }
    return strips;
}

/* Of a rank's strips: what they have of blocks, and of rows. */
static int64_t count_told(const lks_model *model, int rank)
{
    const lki_spread *spread = model->across->spread;
    int64_t blocks = 0, rows = 0;
    for (int s = spread->strip_of[rank]; s < spread->strip_of[rank + 1]; s++) {
        const lki_weight *weight = &model->weight[spread->strip[s].weight];
        const int64_t count = spread->strip[s].count;
        if (model->measures) blocks += (count + LKI_UPDATE_BLOCK - 1) / LKI_UPDATE_BLOCK;
        if (lki_optimizer_by_rows(&model->opts.optim))
            rows += LKI_ROW_SUMS * count / (weight->count / lki_adamp_rows(weight));
    }
    return blocks > rows ? blocks : rows;
}

lks_status lki_spread_plan(lks_model *model)
{
    lki_across *across = model->across;
    lki_spread *spread = across->spread;
    const size_t buckets = (size_t)(across->near + across->far), ranks = (size_t)across->ranks;
    lks_status status = LKS_OK;
    if (spread == NULL) return LKS_OK;
    int64_t *before = spread_list(model, &status, ranks, sizeof *before);
    spread->cut = spread_list(model, &status, buckets * (ranks + 1), sizeof(int64_t));
    spread->strip = spread_list(model, &status, (size_t)model->weights + buckets * (ranks + 1),
                                sizeof(lki_strip));
    spread->strip_of = spread_list(model, &status, ranks, sizeof(int));
    spread->own_of = spread_list(model, &status, buckets, sizeof(int));
    spread->outgoing = spread_list(model, &status, 2 * buckets * ranks, sizeof(lki_piece));
    LKI_TRY(status);
    spread->incoming = spread->outgoing + buckets * ranks;
    cut_slices(model, before);
    for (int r = 0, strips = 0; r < across->ranks; r++) {
        int64_t kept = 0;
        for (int b = 0; b < (int)buckets; b++) {
            if (r == across->rank) spread->own_of[b] = strips;
            strips = list_strips(model, r, b, strips, &kept);
        }
        if (r == across->rank) spread->own_of[buckets] = strips;
        if (r == across->rank) spread->kept = kept;
        spread->strip_of[r + 1] = strips;
        const int64_t told = count_told(model, r);
        spread->told = told > spread->told ? told : spread->told;
    }
    spread->own = spread_list(model, &status, (size_t)spread->told, sizeof(double));
    spread->all = spread_list(model, &status, (size_t)spread->told * ranks, sizeof(double));
    return status;
}
