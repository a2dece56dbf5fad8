#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "core/graph.h"

lks_tensor *lks_graph_fail(lks_graph *graph, const char *format, ...)
{
    char message[sizeof(((lks_error *)0)->message)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    (void)LKI_FAIL(LKS_E_INVALID, "%s", message);
    lki_graph_keep_error(graph);
    return NULL;
}
