#include "cli/launch/report.h"

#include <stdio.h>
#include <string.h>

enum { MARK = '\036' };

size_t launch_report_print(char line[REPORT_LINE], const char *token, const launch_report *report)
{
    const char *host = *report->host != '\0' ? report->host : "?";
    int length = snprintf(line, REPORT_LINE, "%c %s %d %.*s %ld ", MARK, token, report->rank,
                          REPORT_HOST - 1, host, report->process);
    const size_t room = REPORT_LINE - (size_t)length;
    const char *text = report->text;
    switch (report->news) {
    case LAUNCH_BEGINS:
        length += snprintf(line + length, room, "begin\n");
        break;
    case LAUNCH_ENDS:
        length += snprintf(line + length, room, "end %d %d\n", report->code, report->stop);
        break;
    case LAUNCH_SAYS:
        length += snprintf(line + length, room, "| %.*s\n", REPORT_TEXT_MOST - 1, text);
        break;
    case LAUNCH_MISSES:
        length += snprintf(line + length, room, "! %d %.*s\n", report->other, REPORT_TEXT_MOST - 1,
                           text);
        break;
    }
    return (size_t)length;
}

bool launch_report_read(launch_report *out, const char *token, const char *line)
{
    char found[17] = "";
    int at = 0, end = 0;
    *out = (launch_report){.rank = -1};
    if (line[0] != MARK ||
        sscanf(line + 1, " %16s %d %127s %ld %n", found, &out->rank, out->host, &out->process,
               &at) != 4 ||
        at == 0 || strcmp(found, token) != 0 || out->rank < 0)
        return false;
    const char *rest = line + 1 + at;
    if (rest[0] == '|' || sscanf(rest, "! %d%n", &out->other, &end) == 1) {
        out->news = rest[0] == '|' ? LAUNCH_SAYS : LAUNCH_MISSES;
        rest += rest[0] == '|' ? 1 : end;
        rest += rest[0] == ' ';
        snprintf(out->text, sizeof out->text, "%s", rest);
        return true;
    }
    out->news = LAUNCH_BEGINS;
    if (strcmp(rest, "begin") == 0) return true;
    out->news = LAUNCH_ENDS;
    return sscanf(rest, "end %d %d%n", &out->code, &out->stop, &end) == 2 && end > 0 &&
           rest[end] == '\0';
}

/* A whole line that began with the mark. */
static void sort_kept(launch_sorter *sorter)
{
    launch_report report;
    sorter->kept[sorter->used] = '\0';
    if (launch_report_read(&report, sorter->token, sorter->kept)) {
        sorter->report(sorter->user, &report);
    } else {
        sorter->other(sorter->user, sorter->kept, sorter->used);
        sorter->other(sorter->user, "\n", 1);
    }
    sorter->used = 0;
}

void launch_sort(launch_sorter *sorter, const char *bytes, size_t count)
{
    while (count > 0) {
        if (sorter->used == 0) {
            const char *mark = memchr(bytes, MARK, count);
            const size_t before = mark != NULL ? (size_t)(mark - bytes) : count;
            if (before > 0) sorter->other(sorter->user, bytes, before);
            bytes += before;
            count -= before;
            if (count == 0) return;
        }
        const char *end = memchr(bytes, '\n', count);
        const size_t length = end != NULL ? (size_t)(end - bytes) : count;
        if (sorter->used + length >= sizeof sorter->kept) { /* too long for a report */
            sorter->other(sorter->user, sorter->kept, sorter->used);
            sorter->other(sorter->user, bytes, length);
            sorter->used = 0;
            bytes += length;
            count -= length;
            continue;
        }
        memcpy(sorter->kept + sorter->used, bytes, length);
        sorter->used += length;
        bytes += length;
        count -= length;
        if (end == NULL) return;
        sort_kept(sorter);
        bytes++;
        count--;
    }
}

void launch_sort_end(launch_sorter *sorter)
{
    if (sorter->used > 0) sorter->other(sorter->user, sorter->kept, sorter->used);
    sorter->used = 0;
}

void launch_tail_add(launch_tail *tail, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!tail->open) {
            if (bytes[i] == '\n') continue; /* empty lines are not worth one of the few */
            if (tail->count == TAIL_LINES)
                tail->first = (tail->first + 1) % TAIL_LINES;
            else
                tail->count++;
            tail->open = true;
            tail->back = false;
            tail->used = 0;
        }
        char *line = tail->line[(tail->first + tail->count - 1) % TAIL_LINES];
        if (tail->back && bytes[i] != '\r' && bytes[i] != '\n') tail->used = 0;
        tail->back = bytes[i] == '\r';
        if (bytes[i] == '\n')
            tail->open = false;
        else if (bytes[i] != '\r' && tail->used + 1 < REPORT_TEXT_MOST && bytes[i] != '\0')
            line[tail->used++] = bytes[i];
        line[tail->used] = '\0';
    }
}

const char *launch_tail_line(const launch_tail *tail, int i)
{
    return tail->line[(tail->first + i) % TAIL_LINES];
}
