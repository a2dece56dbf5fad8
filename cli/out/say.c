#include "cli/out/say.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/out/text.h"

static bool status_drawn;
static bool apart; /* from the process that talks: sentences go where results go */

static FILE *sentences(void)
{
    return apart ? stdout : stderr;
}

void say(const char *format, ...)
{
    enum { LONGEST = 1 << 12 };
    char text[LONGEST];
    const int width = say_columns();
    say_status(NULL);
    va_list args;
    va_start(args, format);
    const int length = width > 0 ? vsnprintf(text, sizeof text, format, args) : LONGEST;
    va_end(args);
    if (length < 0 || length >= LONGEST || strchr(text, '\t') != NULL) {
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        putchar('\n');
        return;
    }
    for (char *line = text, *end = text; end != NULL; line = end + 1) {
        if ((end = strchr(line, '\n')) != NULL) *end = '\0';
        text_print_line(stdout, line, width);
    }
}

/* Parts of it may come from a file: they are no commands for the terminal, and no new line. */
static void make_plain(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if (iscntrl((unsigned char)*c)) *c = '?';
}

static void say_sentence(const char *format, va_list args, const char *command)
{
    static const char begin[] = "lockstep: ";
    char sentence[1 << 13] = "", whole[1 << 14]; /* a command may be as long as paths are */
    const int width = say_width();
    vsnprintf(sentence, sizeof sentence, format, args);
    const bool alone = command != NULL && width > 0; /* on lines of its own */
    snprintf(whole, sizeof whole, "%s%s%s%s", begin, sentence, command != NULL ? ":" : "",
             alone || command == NULL ? "" : " ");
    const size_t used = strlen(whole);
    if (command != NULL && !alone) snprintf(whole + used, sizeof whole - used, "%s", command);
    make_plain(whole);
    say_status(NULL);
    fflush(stdout); /* keeps the order where both go to one place */
    text_print_line(sentences(), whole, width);
    if (!alone) return;
    snprintf(whole, sizeof whole, "%s", command);
    make_plain(whole);
    fprintf(sentences(), "%s\n", whole);
}

void say_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_sentence(format, args, NULL);
    va_end(args);
}

void say_command(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_sentence(format, args, command);
    va_end(args);
}

void say_log(void *user, lks_log_level level, const char *line)
{
    (void)user;
    (void)level;
    say_error("%s", line);
}

const lks_context_opts say_logged = {.log = say_log};

void say_status(const char *line)
{
    if (line == NULL && !status_drawn) return;
    if (apart) return;
    status_drawn = line != NULL;
    fflush(stdout);
    fprintf(stderr, "\r\033[K%s", line != NULL ? line : "");
    fflush(stderr);
}

void say_bar(const char *head, double share, const char *const *fields, int count)
{
    enum { LINE = 256, SHORTEST = 8, LONGEST = 40 };
    char line[2 * LINE], tail[LINE] = "", bar[LONGEST + 8] = "";
    const int width = say_width();
    const size_t room = width > LINE ? LINE : width > 3 ? (size_t)width - 3 : 0; /* and "^C" */
    const int used = snprintf(line, LINE, "%s %3.0f%%", head, 100 * share);
    if (used < 0 || (size_t)used > room) return;
    /* Fields first, in order of their worth; the bar gets what is left between head and them. */
    const size_t rest = room - (size_t)used;
    for (int i = 0; i < count; i++) {
        if (*fields[i] == '\0' || strlen(tail) + 2 + strlen(fields[i]) > rest) continue;
        strcat(tail, "  ");
        strcat(tail, fields[i]);
    }
    const size_t gap = rest - strlen(tail);
    if (gap >= SHORTEST + 3) {
        const int length = gap - 3 > LONGEST ? LONGEST : (int)gap - 3;
        const int full = (int)(share * length);
        memcpy(bar, " [", 2);
        memset(bar + 2, '.', (size_t)length);
        memset(bar + 2, '#', (size_t)full);
        bar[2 + length] = ']';
    }
    strcat(line, bar);
    strcat(line, tail);
    say_status(line);
}

static int columns_of(int stream)
{
    const char *terminal = getenv("TERM");
    if (!isatty(stream) || terminal == NULL || strcmp(terminal, "dumb") == 0) return 0;
    struct winsize size;
    if (ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

int say_width(void)
{
    return apart ? 0 : columns_of(STDERR_FILENO);
}

int say_columns(void)
{
    return columns_of(STDOUT_FILENO);
}

bool say_colour(void)
{
    const char *plain = getenv("NO_COLOR");
    return say_columns() > 0 && (plain == NULL || *plain == '\0');
}

/* Standard output becomes this file. */
static void redirect(const char *path)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    fflush(stdout);
    if (file < 0) return;
    dup2(file, STDOUT_FILENO);
    close(file);
}

void say_nothing(void)
{
    apart = true;
    redirect("/dev/null");
}

void say_into(const char *folder, int rank)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/ranks", folder) >= (int)sizeof path - 40) return;
    if (lks_folder_make(path) != LKS_OK) return;
    snprintf(path + strlen(path), 40, "/rank-%d.log", rank);
    redirect(path);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

void say_aloud(int rank, const char *sentence)
{
    fflush(stdout);
    apart = false;
    say_error("process %d: %s", rank, sentence);
    apart = true;
}

void say_urgent(const char *sentence)
{
    char line[1024];
    const char *begin = isatty(STDERR_FILENO) ? "\n" : ""; /* there may be a bar */
    snprintf(line, sizeof line - 1, "%slockstep: %s", begin, sentence);
    strcat(line, "\n");
    (void)!write(STDERR_FILENO, line, strlen(line));
}

bool say_unicode(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0')
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
    }
    return false;
}

lks_status say_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return LKS_OK;
    return lks_fail(LKS_E_IO, "standard output could not be written: %s", strerror(errno));
}
