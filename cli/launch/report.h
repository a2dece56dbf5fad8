/*
 * What a watcher tells the launcher, as lines among the output of ranks:
 *
 *     \036 TOKEN RANK HOST PID begin            its rank has been started
 *     \036 TOKEN RANK HOST PID ! OTHER TEXT     the rank itself misses the other, as the text says
 *     \036 TOKEN RANK HOST PID | TEXT           one of its rank's last lines
 *     \036 TOKEN RANK HOST PID end CODE STOP    its rank has ended: exit code (128 + n: by signal n that
 *                                               nobody passed on, then negative), and the signal that it
 *                                               had been asked to stop with, or 0
 *
 * The token is drawn for each launch, so that no output looks like a report by chance; ranks have it in
 * LKS_LAUNCH.
 */
#ifndef CLI_LAUNCH_REPORT_H
#define CLI_LAUNCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

enum { REPORT_LINE = 1024, REPORT_TEXT_MOST = 640, REPORT_HOST = 128, REPORT_TOKEN = 16 };

typedef enum launch_news {
    LAUNCH_SAYS,
    LAUNCH_BEGINS,
    LAUNCH_MISSES,
    LAUNCH_ENDS,
} launch_news;

typedef struct launch_report {
    launch_news news;
    int rank;
    long process;
    char host[REPORT_HOST];
    int code, stop;              /* of an end */
    int other;                   /* of who is missed */
    char text[REPORT_TEXT_MOST]; /* of what is said, and of who is missed */
} launch_report;

/* Writes the line, its end included; returns its length, below REPORT_LINE. */
size_t launch_report_print(char line[REPORT_LINE], const char *token, const launch_report *report);
/* Reads it (without the end); false: it is none, or of another launch. */
bool launch_report_read(launch_report *out, const char *token, const char *line);

/* Sorts what comes from all ranks into reports and the rest, whatever pieces it comes in. */
typedef struct launch_sorter {
    const char *token;
    void (*report)(void *user, const launch_report *report);
    void (*other)(void *user, const char *bytes, size_t count);
    void *user;
    char kept[REPORT_LINE]; /* of a line that may be a report */
    size_t used;
} launch_sorter;
void launch_sort(launch_sorter *sorter, const char *bytes, size_t count);
/* Behind the last piece. */
void launch_sort_end(launch_sorter *sorter);

/* The last lines of an output. */
enum { TAIL_LINES = 40 };
typedef struct launch_tail {
    char line[TAIL_LINES][REPORT_TEXT_MOST];
    int first, count; /* in a ring */
    bool open;        /* the last line has no end yet, */
    bool back;        /* and what comes next, if it is not that, begins it anew: a progress bar */
    size_t used;      /* of the last line */
} launch_tail;
void launch_tail_add(launch_tail *tail, const char *bytes, size_t count);
/* Line i of those that are kept, oldest first. */
const char *launch_tail_line(const launch_tail *tail, int i);

#endif
