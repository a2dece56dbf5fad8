/* Lines for the program's log. */
#include "base/context.h"
#include "base/text.h"

#include <stdarg.h>

bool lki_log_wanted(const lks_context *context, lks_log_level level)
{
    return context && context->opts.log && level <= context->opts.log_level;
}

double lki_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void lki_log_line(lks_context *context, lks_log_level level, const char *format, ...)
{
    if (!lki_log_wanted(context, level)) return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = lki_text_list(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= 0) context->opts.log(context->opts.log_user, level, line);
}
