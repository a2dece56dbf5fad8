/* A locale whose numbers have a comma. */
#ifndef LKT_LOCALE_H
#define LKT_LOCALE_H

#include <stdbool.h>

/* Makes one in `folder` and sets it for the process. False, and a line that says so, where the
 * system has no sources of locales. */
bool lkt_comma_locale(const char *folder);

#endif
