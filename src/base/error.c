/* Status codes, the thread's error record, and what this build is. */
#include "base/check.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "build.h"

static _Thread_local lks_error last_error = {.status = LKS_OK, .file = ""};

/* Paths of the sources without the folder that they were built in: "base/error.c". */
static const char *source_name(const char *file)
{
    const char *name = file;
    for (const char *at = strstr(file, "/src/"); at; at = strstr(at + 1, "/src/")) name = at + 5;
    return name;
}

static void error_fill(const char *file, int line, lks_status status, const char *format,
                       va_list arguments)
{
    /* The arguments may point into the record itself, so the sentence is made beside it. */
    char message[sizeof last_error.message];
    const int length = lki_text_list(message, sizeof message, format, arguments);
    if (length < 0) snprintf(message, sizeof message, "%s", lks_status_text(status));
    if (length >= (int)sizeof message) memcpy(message + sizeof message - 4, "...", 4);

    last_error.status = status;
    last_error.file = source_name(file);
    last_error.line = line;
    memcpy(last_error.message, message, strlen(message) + 1);
}

lks_status lki_fail_at(const char *file, int line, lks_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_fill(file, line, status, format, arguments);
    va_end(arguments);
    return status;
}

lks_status lks_fail(lks_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_fill("the calling program", 0, status, format != NULL ? format : lks_status_text(status),
               arguments);
    va_end(arguments);
    return status;
}

lks_status lki_error_enter(void)
{
    const lks_status had = last_error.status;
    last_error.status = LKS_OK;
    return had;
}

bool lki_error_leave(lks_status had, lks_status answer)
{
    const lks_status says = last_error.status;
    if (says == LKS_OK) last_error.status = had;
    return says == answer;
}

void lki_error_restore(const lks_error *saved)
{
    memmove(&last_error, saved, sizeof last_error);
}

const lks_error *lks_last_error(void)
{
    return &last_error;
}

const char *lks_status_name(lks_status status)
{
    switch (status) {
#define X(name, value, text)                                                                       \
    case LKS_##name:                                                                               \
        return "LKS_" #name;
        LKS_STATUS_LIST(X)
#undef X
    }
    return "LKS_E_UNKNOWN";
}

const char *lks_status_text(lks_status status)
{
    switch (status) {
#define X(name, value, text)                                                                       \
    case LKS_##name:                                                                               \
        return text;
        LKS_STATUS_LIST(X)
#undef X
    }
    return "not a status of this library";
}

const char *lks_version(void)
{
    return LKI_VERSION;
}

int lks_numerics(void)
{
    return LKS_NUMERICS;
}

const char *lks_build_info(void)
{
    return LKI_BUILD_INFO;
}
