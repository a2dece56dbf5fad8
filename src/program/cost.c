#include "program/cost.h"

static double tensor_bytes(const lks_tensor *tensor)
{
    return (double)lks_shape_elements(&tensor->shape) * (double)lks_dtype_size(tensor->dtype);
}

double lki_cost_parameter_bytes(const lki_cluster *cluster)
{
    double bytes = 0;
    for (int i = 0; i < cluster->count; i++)
        for (int p = 0; p < cluster->node[i]->param_count; p++)
            bytes += (double)lks_shape_elements(&cluster->node[i]->param[p].shape) * sizeof(float);
    return bytes;
}

lki_cost lki_cost_of(const lki_plan *plan, lki_phase pass, int64_t samples, int64_t calls)
{
    const lki_cluster *cluster = &plan->cluster;
    const double out = tensor_bytes(&lki_cluster_tail(cluster)->out);
    const double saved = (double)plan->needs.saved_bytes;
    const double parameters = lki_cost_parameter_bytes(cluster);
    double in = 0, d_in = 0, once = 0;
    for (int i = 0; i < cluster->in_count; i++) {
        in += tensor_bytes(cluster->in[i]);
        d_in += plan->d_in_wanted[i] ? tensor_bytes(cluster->in[i]) : 0;
    }
    for (int i = 0; i < cluster->count; i++) once += 2.0 * (double)cluster->node[i]->multiply_adds;
    once *= (double)samples;

    const bool sums = parameters > 0 && !plan->by_rows;
    const unsigned reads = plan->needs.reads;
    lki_cost cost = {0};
    switch (pass) {
    case LKI_PHASE_FORWARD:
        cost.flops = once;
        cost.bytes = (double)samples * (in + out + saved) + (double)calls * parameters;
        break;
    case LKI_PHASE_BACKWARD: /* a multiply-add is one for the data's gradient, one for the weight's; without weights both
                                factors are data */
        cost.flops = once * (parameters > 0 ? (d_in > 0) + sums : 2 * (d_in > 0));
        cost.bytes = (double)samples * (out + d_in + saved + (reads & LKI_READS_IN ? in : 0) +
                                        (reads & LKI_READS_OUT ? out : 0)) +
                     (double)calls * parameters * ((d_in > 0) + sums);
        break;
    case LKI_PHASE_ROWS:
        cost.flops = once;
        cost.bytes = (double)samples * (in + out);
        break;
    case LKI_PHASE_PREPARE:
        cost.bytes = parameters + (double)plan->needs.packed_bytes;
        break;
    case LKI_PHASE_UPDATE:
    case LKI_PHASES:
        break;
    }
    return cost;
}
