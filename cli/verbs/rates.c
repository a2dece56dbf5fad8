#include "cli/verbs/rates.h"

#include <stdio.h>

const char *rate_text(char text[24], double per_second)
{
    const double giga = 1e-9 * per_second;
    text[0] = '\0';
    if (giga > 0) snprintf(text, 24, giga < 0.095 ? "%.2g" : giga < 999 ? "%.1f" : "%.0f", giga);
    return text;
}

const char *share_text(char text[24], double share)
{
    text[0] = '\0';
    if (share > 0) snprintf(text, 24, share < 0.0995 ? "%.1f%%" : "%.0f%%", 100 * share);
    return text;
}
