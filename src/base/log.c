/* Lines for the program's log. */
#include "base/context.h"
#include "base/text.h"

#include <stdarg.h>

void lki_log_line(lks_context *context, lks_log_level level, const char *format, ...)
{
    if (!context || !context->opts.log || level > context->opts.log_level) return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = lki_text_list(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= 0) context->opts.log(context->opts.log_user, level, line);
}
