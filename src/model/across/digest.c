/* Digests of what ranks must compile alike. */
#include "model/across/digest.h"

#include <stdio.h>
#include <string.h>

#include <lockstep/tools.h>

#include "model/model.h"
#include "numeric/hash.h"
#include "optim/optimizer.h"

static uint64_t join(uint64_t digest, const void *data, size_t bytes)
{
    return lki_hash_link(digest, 0, lki_hash(data, bytes));
}

static uint64_t join_text(uint64_t digest, const char *text)
{
    return join(digest, text, strlen(text));
}

/* Lists are whole here, where a printed line of attributes may shorten them. */
static uint64_t join_lists(uint64_t digest, const lki_attributes *table, const void *values)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        if (a->type != LKI_FLOATS) continue;
        const float *list;
        int count;
        memcpy(&list, (const char *)values + a->offset, sizeof list);
        memcpy(&count, (const char *)values + a->count, sizeof count);
        if (list != NULL) digest = join(digest, list, (size_t)count * sizeof *list);
    }
    return digest;
}

uint64_t lki_digest_node(uint64_t before, const lki_node *node)
{
    char line[LKS_LINE_SIZE];
    uint64_t digest = join_text(before, lks_tensor_line(&node->out, 0, line, sizeof line));
    digest = join_lists(digest, &lki_op_get(node->op)->attributes, node->attr);
    for (int i = 0; i < node->in_count; i++)
        digest = lki_hash_link(digest, i, (uint64_t)node->in[i]->node->index);
    digest = join_text(digest, node->stem != NULL ? node->stem : "");
    const uint64_t out = lki_hash_header(node->name, node->out.dtype, &node->out.shape);
    return lki_hash_link(digest, node->in_count, out);
}

uint64_t lki_digest_update(const lks_model *model)
{
    const lks_model_opts *o = &model->opts;
    const lki_optimizer *optimizer = lki_optimizer_of(o->optim.kind);
    const double numbers[] = {o->clip_value, o->clip_norm, o->ema_decay, o->skip_not_finite};
    char line[LKS_LINE_SIZE];
    lki_attributes_print(&optimizer->attributes, &o->optim, line, sizeof line);
    uint64_t digest = join(join_text(0, optimizer->name), numbers, sizeof numbers);
    digest = join_text(digest, line);
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        const double rule[] = {weight->rule->update.optim.weight_decay, weight->rule->lr_factor,
                               weight->frozen};
        digest = join(digest, rule, sizeof rule);
    }
    return digest;
}
