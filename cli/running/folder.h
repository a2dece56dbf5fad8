/* Where notes lie. */
#ifndef CLI_RUNNING_FOLDER_H
#define CLI_RUNNING_FOLDER_H

#include <limits.h>
#include <stdbool.h>

enum { RUNNING_NAME = 32 }; /* room for "/" and the name of a note */

/* The folder of this user's notes; false: there is none that is only theirs to write. */
bool running_folder(char out[PATH_MAX], bool make);

#endif
