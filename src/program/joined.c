/*
 * Replicas that have no array of gradients: what a stage has formed is added to another replica's at once.
 *
 *   backward of      conv3       | conv2               | conv1 | ...
 *   scratch          d conv3     | d conv2             | d conv1
 *   array            conv3 added |       conv2 added   | ...
 *
 * A kernel writes the gradients of its parameters with the last piece of a replica, or, in halves, behind those of its
 * second half; no other stage does so until its first half has had the last piece. So the scratch is as large as what the
 * largest stage has. What two stages have, the weight of an embedding and of a layer behind it, is formed by both, with
 * others in between: it has a place of its own, and is added behind the first stage, whose backward comes last.
 */
#include "program/program.h"

static const lki_param *param_of(const lki_stage *stage, int slot)
{
    const lki_node *owner = stage->cluster->param[slot].owner;
    return &owner->param[stage->cluster->param[slot].index];
}

static int64_t floats_of(const lki_stage *stage, int slot)
{
    return (int64_t)lki_align((size_t)lks_shape_elements(&param_of(stage, slot)->shape) *
                              sizeof(float)) /
           (int64_t)sizeof(float);
}

/* The stage that has this place in a gradient array beside this one; NULL: none does. */
static lki_stage *other_with(lki_program *program, const lki_stage *stage, int slot, int *other)
{
    for (int s = 0; s < program->stages; s++) {
        lki_stage *at = &program->stage[s];
        for (*other = 0; *other < at->cluster->param_count && at != stage; ++*other)
            if (at->d_param[*other] == stage->d_param[slot]) return at;
    }
    return NULL;
}

/* A parameter of the stage that is one of a stage in front. */
static bool is_tied(const lki_stage *stage, int slot)
{
    return stage->d_param[slot] >= 0 && param_of(stage, slot)->of != NULL;
}

void lki_program_place_joined(lki_program *program)
{
    int64_t most = 0;
    int other;
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        int64_t at = 0;
        for (int p = 0; p < stage->cluster->param_count; p++) {
            if (stage->d_param[p] < 0 || other_with(program, stage, p, &other) != NULL) continue;
            stage->d_joined[p] = at;
            at += floats_of(stage, p);
        }
        most = at > most ? at : most;
    }
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        for (int p = 0; p < stage->cluster->param_count; p++) {
            lki_stage *front = is_tied(stage, p) ? other_with(program, stage, p, &other) : NULL;
            if (front == NULL) continue;
            stage->d_joined[p] = front->d_joined[other] = most;
            most += floats_of(stage, p);
        }
    }
    program->joined_count = most;
}

/* A frozen embedding's weight that is trained nowhere else is read by nobody. */
void lki_program_join(const lki_program *program, const lki_local *local, const lki_stage *stage)
{
    bool joined = false;
    for (int p = 0; p < stage->cluster->param_count; p++) {
        if (stage->d_param[p] < 0 || is_tied(stage, p)) continue;
        program->backend->add(lks_shape_elements(&param_of(stage, p)->shape),
                              local->joins + stage->d_param[p],
                              local->gradient + stage->d_joined[p]);
        joined = true;
    }
    if (joined) lki_lap(local->laps, LKI_LAP_TREE);
}
