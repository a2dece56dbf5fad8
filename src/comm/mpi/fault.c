/* Sentences of what MPI refuses. */
#include "comm/mpi/mpi_link.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int mpi_link_fault(mpi_link *link, lki_fault *fault, int rank, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    fault->rank = rank;
    fault->code = 0;
    if (link != NULL) link->broken = true;
    if (code == MPI_SUCCESS || length < 0 || (size_t)length >= sizeof fault->text) return -1;
    char reason[MPI_MAX_ERROR_STRING] = "";
    if (MPI_Error_string(code, reason, &(int){0}) != MPI_SUCCESS) reason[0] = '\0';
    char *end = strstr(reason, ", error stack"); /* of calls inside of it */
    if (end != NULL) *end = '\0';
    reason[strcspn(reason, "\n")] = '\0';
    snprintf(fault->text + length, sizeof fault->text - (size_t)length, ": MPI says '%s'", reason);
    return -1;
}
