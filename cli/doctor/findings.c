/* What findings are made of: sentences, lines of files, sizes. */
#include "cli/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/out/text.h"

static const char *format_text(cli_pool *pool, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static const char *format_text(cli_pool *pool, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    return text_clean(pool, text);
}

doctor_finding *doctor_add(cli_doctor *doctor, const char *name, const char *format, ...)
{
    doctor_finding *finding = &doctor->finding[doctor->count];
    if (doctor->count < DOCTOR_MOST - 1) doctor->count++;
    va_list args;
    va_start(args, format);
    *finding = (doctor_finding){
        .area = doctor->area, .name = name, .found = format_text(&doctor->pool, format, args)};
    va_end(args);
    return finding;
}

void doctor_raise(cli_doctor *doctor, doctor_finding *finding, doctor_level level,
                  const char *format, ...)
{
    if (level <= finding->level) return;
    va_list args;
    va_start(args, format);
    finding->level = level;
    finding->advice = format_text(&doctor->pool, format, args);
    va_end(args);
}

static FILE *open_below(const cli_doctor *doctor, const char *path)
{
    char whole[DOCTOR_LINE];
    if (snprintf(whole, sizeof whole, "%s%s", doctor->root, path) >= (int)sizeof whole) return NULL;
    return fopen(whole, "re");
}

bool doctor_line(const cli_doctor *doctor, char line[DOCTOR_LINE], const char *format, ...)
{
    char path[256];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    FILE *file = open_below(doctor, path);
    if (file == NULL) return false;
    const bool found = fgets(line, DOCTOR_LINE, file) != NULL;
    fclose(file);
    if (found) line[strcspn(line, "\n")] = '\0';
    return found;
}

bool doctor_entry(const cli_doctor *doctor, char line[DOCTOR_LINE], const char *path,
                  const char *word)
{
    FILE *file = open_below(doctor, path);
    if (file == NULL) return false;
    bool found = false;
    while (!found && fgets(line, DOCTOR_LINE, file) != NULL)
        found = strncmp(line, word, strlen(word)) == 0;
    fclose(file);
    if (!found) return false;
    const size_t gap = strlen(word) + strspn(line + strlen(word), " \t:");
    memmove(line, line + gap, strlen(line + gap) + 1);
    line[strcspn(line, "\n")] = '\0';
    return true;
}

const char *doctor_size(cli_doctor *doctor, double bytes)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (unit < 4 && bytes >= (unit > 0 ? 1023.5 : 1024)) { /* as printed: never "1024 MiB" */
        bytes /= 1024;
        unit++;
    }
    if (unit == 0) return pool_format(&doctor->pool, "%.0f byte%s", bytes, TEXT_S(bytes));
    return pool_format(&doctor->pool, bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}
