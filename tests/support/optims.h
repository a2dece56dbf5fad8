/* Every optimizer of the list, so that a new one is in the tests that walk over them. */
#ifndef LKT_OPTIMS_H
#define LKT_OPTIMS_H

#include "optim/optimizer.h"

/*
 * The optimizers that tests walk over, by number: each with its defaults, then with every attribute away
 * from its default, but those that are refused beside what stands before them in its table. Returns a
 * name for messages, "adam" or "adam, other values"; NULL: there are not so many.
 */
const char *lkt_optim(int number, lks_optim *out);

#endif
