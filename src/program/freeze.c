/* Which parameters are frozen. */
#include <fnmatch.h>
#include <stdio.h>

#include "base/check.h"
#include "program/program.h"

static bool matches(const lki_program *program, const lki_node *node, int param)
{
    char name[2 * LKI_NAME_SIZE];
    snprintf(name, sizeof name, "%s.%s", lki_node_stem(lki_param_owner(node, param)),
             node->param[param].suffix);
    for (int i = 0; i < program->freeze_count; i++)
        if (fnmatch(program->freeze[i], name, 0) == 0) return true;
    return false;
}

lks_status lki_program_freeze(lki_program *program)
{
    void *memory;
    LKI_TRY(
        lki_arena_alloc(&program->arena, &memory, (size_t)program->graph->count, "what is frozen"));
    program->frozen = memory;
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next)
        for (int p = 0; p < node->param_count; p++)
            if (matches(program, node, p)) program->frozen[node->index] |= (unsigned char)(1 << p);
    return LKS_OK;
}

bool lki_program_takes_part(const lki_program *program, const lki_pass *pass,
                            const lki_stage *stage)
{
    if (!stage->backward || (pass->from_output && stage->needs_target)) return false;
    if (pass->wanted == LKI_WANT_PARAMS) return lki_program_forms_any(program, stage->cluster);
    bool gives = pass->wanted == LKI_WANT_ALL;
    for (int i = 0; i < stage->cluster->in_count; i++)
        gives = gives || stage->d_in[i] != LKI_NO_VALUE;
    return gives;
}
