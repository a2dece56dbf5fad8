/* Memory of trials: arrays of the host with a guard behind each, and where a device has memory of its own
 * a twin of each there. */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "check/trial_memory.h"
#include "numeric/hash.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5, SPOILT = 0xff };

/* [header] -> [bytes | guard], all of a trial in a list. */
typedef struct lki_trial_block {
    struct lki_trial_block *next;
    uint8_t *data;
    size_t bytes;
    bool scratch; /* only kernels read and write it: `data` stays as it was made */
    uint8_t *twin;
    const lki_memory *memory; /* the twin's */
} block;

static bool has_twins(const lki_trial *t)
{
    return t->memory != NULL && !t->memory->host;
}

static lks_status add_block(lki_trial *t, void **out, size_t bytes, bool scratch)
{
    void *header, *data;
    *out = NULL;
    LKI_TRY(lki_alloc(t->context, &header, sizeof(block), "a trial's tensors"));
    const lks_status status = lki_alloc(t->context, &data, lki_plus(bytes, GUARD),
                                        "a trial's tensors");
    if (status != LKS_OK) {
        lki_free(t->context, header, sizeof(block));
        return status;
    }
    memset(data, SPOILT, bytes);
    memset((uint8_t *)data + bytes, GUARD_BYTE, GUARD);
    *(block *)header = (block){.next = t->blocks, .data = data, .bytes = bytes, .scratch = scratch};
    t->blocks = header;
    *out = data;
    return LKS_OK;
}

lks_status lki_trial_memory(lki_trial *t, void **out, size_t bytes)
{
    return add_block(t, out, bytes, false);
}

lks_status lki_trial_scratch(lki_trial *t, void **out, size_t bytes)
{
    return add_block(t, out, bytes, true);
}

void lki_trial_release(lki_trial *t)
{
    while (t->blocks != NULL) {
        block *b = t->blocks;
        t->blocks = b->next;
        if (b->twin != NULL) b->memory->free(t->context, b->twin, b->bytes + GUARD);
        lki_free(t->context, b->data, b->bytes + GUARD);
        lki_free(t->context, b, sizeof(block));
    }
}

lks_status lki_trial_send(lki_trial *t)
{
    for (block *b = t->blocks; b != NULL && has_twins(t); b = b->next) {
        const bool fresh = b->twin == NULL;
        void *made;
        if (fresh) {
            LKI_TRY(t->memory->alloc(t->context, &made, b->bytes + GUARD, "a trial's tensors"));
            b->twin = made;
            b->memory = t->memory;
        }
        if (fresh || !b->scratch) b->memory->copy_in(b->twin, b->data, b->bytes + GUARD);
    }
    return LKS_OK;
}

void lki_trial_fetch(lki_trial *t)
{
    for (block *b = t->blocks; b != NULL && has_twins(t); b = b->next) {
        const size_t from = b->scratch ? b->bytes : 0;
        if (b->twin != NULL)
            b->memory->copy_out(b->data + from, b->twin + from, b->bytes + GUARD - from);
    }
}

/* The block in which `memory` lies. */
static const block *block_of(const lki_trial *t, const void *memory)
{
    const uint8_t *at = memory;
    const block *b = t->blocks;
    while (b != NULL && !(at >= b->data && at < b->data + b->bytes + GUARD)) b = b->next;
    return b;
}

void *lki_trial_there(const lki_trial *t, const void *memory)
{
    const block *b = memory != NULL && has_twins(t) ? block_of(t, memory) : NULL;
    return b != NULL ? b->twin + ((const uint8_t *)memory - b->data) : (void *)(uintptr_t)memory;
}

void lki_trial_spoil(const lki_trial *t, void *memory, size_t bytes)
{
    if (has_twins(t)) /* a twin that was never written has still what is spoilt */
        t->memory->copy_in(lki_trial_there(t, memory), memory, bytes);
    else
        memset(memory, SPOILT, bytes);
}

bool lki_trial_spoilt(const lki_trial *t, const void *memory, size_t bytes)
{
    const uint8_t *at = memory;
    for (size_t i = 0; i < bytes && !has_twins(t); i++)
        if (at[i] != SPOILT) return false;
    return true;
}

bool lki_trial_guarded(const lki_trial *t)
{
    for (const block *b = t->blocks; b != NULL; b = b->next)
        for (size_t i = 0; i < GUARD; i++)
            if (b->data[b->bytes + i] != GUARD_BYTE) return false;
    return true;
}

uint64_t lki_trial_hash_inputs(const lki_trial *t)
{
    uint64_t hash = 0;
    for (const block *b = t->blocks; b != NULL; b = b->next) {
        bool input = b->data == (uint8_t *)t->d_out || b->data == (uint8_t *)t->mix ||
                     b->data == (uint8_t *)t->begins;
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++) input |= b->data == t->in[i];
        for (int i = 0; i < LKI_MAX_SLOTS; i++) input |= b->data == (uint8_t *)t->param[i];
        for (int i = 0; i < LKI_MAX_BUFFER; i++) input |= b->data == t->buffer[i];
        if (input) hash = hash * 31 + lki_hash(b->data, b->bytes);
    }
    return hash;
}
