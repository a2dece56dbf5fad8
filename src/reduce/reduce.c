/* The sum over replicas, in the tree of docs/numerics.md 4. */
#include "model/model.h"
#include "numeric/tree.h"

void lki_sum_begin(lki_worker *worker)
{
    while (worker->held_count > 0) {
        float *values = worker->held[--worker->held_count].values;
        if (values != NULL) worker->unused[worker->unused_count++] = values;
    }
}

float *lki_sum_array(lki_worker *worker)
{
    return worker->unused[worker->unused_count - 1];
}

static void merge_last_two(lks_model *model, lki_worker *worker)
{
    const lki_sum *right = &worker->held[--worker->held_count];
    lki_sum *left = &worker->held[worker->held_count - 1];
    left->hi = right->hi;
    if (left->values == NULL) {
        left->values = right->values;
    } else if (right->values != NULL) {
        model->program.backend->add(model->gradient_count, left->values, right->values);
        worker->unused[worker->unused_count++] = right->values;
    }
}

void lki_sum_push(lks_model *model, lki_worker *worker, int64_t leaf, float *values)
{
    if (values != NULL) worker->unused_count--;
    worker->held[worker->held_count++] = (lki_sum){.lo = leaf, .hi = leaf + 1, .values = values};
    while (worker->held_count > 1) {
        const lki_sum *left = &worker->held[worker->held_count - 2];
        const lki_sum *right = &worker->held[worker->held_count - 1];
        if (!lki_tree_siblings(model->program.replicas, left->lo, right->lo, right->hi)) return;
        merge_last_two(model, worker);
    }
}

/* The node [lo, hi) where one worker holds it; otherwise its children, added range by range into
 * the left one: each range belongs to one worker, so nobody else reads or writes it now. */
static float *total(lks_model *model, int64_t lo, int64_t hi, int64_t first, int64_t count)
{
    const int64_t owner = ((lo + 1) * model->workers - 1) / model->program.replicas;
    const lki_worker *worker = &model->worker[owner];
    for (int i = 0; i < worker->held_count; i++) {
        const lki_sum *sum = &worker->held[i];
        if (sum->lo == lo && sum->hi == hi) return sum->values != NULL ? sum->values + first : NULL;
    }
    const int64_t split = lki_tree_split(lo, hi);
    float *left = total(model, lo, split, first, count);
    float *right = total(model, split, hi, first, count);
    if (left != NULL && right != NULL) model->program.backend->add(count, left, right);
    return left != NULL ? left : right;
}

const float *lki_sum_total(lks_model *model, int64_t first, int64_t count)
{
    return total(model, 0, model->program.replicas, first, count);
}
