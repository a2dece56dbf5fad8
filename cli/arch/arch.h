/* `lockstep train --arch NAME`: a training without a configuration, with the options of a script for PyTorch's DDP
 * (arch, dataset, num_epochs, checkpoint_dir, ...), and what such a training prints. */
#ifndef CLI_ARCH_H
#define CLI_ARCH_H

#include <lockstep/trainer.h>

#include "cli/cli.h"

/* Whether the options stand for a configuration. */
bool arch_is_asked(const cli_args *cli);
/* The recipe that they stand for, but for options that are keys; and what these do not say by themselves. */
LKS_MUSTUSE lks_status arch_open(lks_recipe **out, const cli_args *cli);
LKS_MUSTUSE lks_status arch_settle(lks_recipe *recipe, const cli_args *cli);

/* "Configuration:", and "Rank r/W (local rank l) connected." for each rank, once all are there. Collective. */
LKS_MUSTUSE lks_status arch_print_head(const cli_args *cli, lks_recipe *recipe);
/* The epoch that --resume asks for; -1: the newest there is, or it does not. */
LKS_MUSTUSE lks_status arch_resume_epoch(int64_t *out, const cli_args *cli);
/* Puts checkpoints of later epochs than that aside. LKS_E_MISMATCH where it has none itself. Collective. */
LKS_MUSTUSE lks_status arch_check_resume(const cli_args *cli, lks_recipe *recipe);
/* "Validation Results:" and a line for each number. */
void arch_print_results(const lks_metrics *sum, const lks_rates *rates);
/* --evaluate: the best weights once on the test data, or whether to train. */
LKS_MUSTUSE lks_status arch_evaluates(bool *out, const cli_args *cli);
LKS_MUSTUSE lks_status arch_evaluate(const cli_args *cli, lks_recipe *recipe, int *code);

#endif
