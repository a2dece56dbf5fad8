#include "backend/ref/kernels.h"

#include <stdio.h>

#include "numeric/bf16.h"
#include "numeric/f16.h"

#define ALONE(ID, id) LKI_ALONE(ID, #id, &lki_ref_##id),
static const lki_impl *const impls[] = {LKI_COMPUTED_OP_LIST(ALONE) NULL};

static lks_status ref_fingerprint(char *out, size_t size)
{
    snprintf(out, size, "plain loops");
    return LKS_OK;
}

static void ref_add(int64_t count, float *left, const float *right)
{
    for (int64_t i = 0; i < count; i++) left[i] += right[i];
}

static void ref_narrow(int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = lki_f16_round(values[i]);
}

static void ref_pack(int64_t count, const float *from, uint16_t *to)
{
    for (int64_t i = 0; i < count; i++) to[i] = lki_bf16(from[i]);
}

static void ref_unpack(int64_t count, const uint16_t *from, float *to)
{
    for (int64_t i = 0; i < count; i++) to[i] = lki_bf16_value(from[i]);
}

extern const lki_backend lki_ref_backend;
const lki_backend lki_ref_backend = {
    .name = "ref",
    .memory = &lki_host_memory,
    .fingerprint = ref_fingerprint,
    .impl = impls,
    .update = lki_ref_update,
    .add = ref_add,
    .approach = lki_ref_approach,
    .dot = lki_ref_dot,
    .direction = lki_ref_direction,
    .narrow = ref_narrow,
    .pack = ref_pack,
    .unpack = ref_unpack,
};
