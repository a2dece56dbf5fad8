#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

lks_status lks_fail(lks_status status, const char *format, ...)
{
    char message[sizeof(((lks_error *)0)->message)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return lki_fail_at("the calling program", 0, status, "%s", message);
}
