/* What a resumed run changes in the configuration of its checkpoint. */
#ifndef CLI_CHANGES_H
#define CLI_CHANGES_H

#include "recipe/config.h"

/*
 * Compares with the configuration in the newest checkpoint of a folder; there may be none. A line is
 * said for every key that differs, but those that each command has for itself. LKS_E_MISMATCH where
 * one of them makes the run what it is, unless checkpoint.accept_changes is set.
 */
LKS_MUSTUSE lks_status changes_check(const lki_config *config, const char *folder);

/* Whether both are the same run: the first key that makes a run what it is, and differs, or
 * KEY_NONE. */
lki_key changes_first(const lki_config *a, const lki_config *b);

/* The configuration that a checkpoint or record has, as JSON text; `name` is for messages. */
LKS_MUSTUSE lks_status changes_read(lki_config **out, const char *name, const char *text);

#endif
