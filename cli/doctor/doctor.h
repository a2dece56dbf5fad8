/* What `lockstep doctor` looks at: each check adds findings, one or two each. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>

#include <jansson.h>

#include "cli/pool.h"

typedef enum doctor_level { LEVEL_OK, LEVEL_NOTE, LEVEL_WARNING, LEVEL_ERROR } doctor_level;

enum { DOCTOR_MOST = 64, DOCTOR_LINE = 4096 };

typedef struct doctor_finding {
    const char *area, *name;
    doctor_level level;
    const char *found;  /* clean text */
    const char *advice; /* what would be slow or wrong, and what to do; NULL at LEVEL_OK */
    json_t *values;     /* for programs; owned; may be NULL */
} doctor_finding;

typedef struct cli_doctor {
    cli_pool pool;
    const char *root;   /* stands before /proc and /sys; "" */
    const char *folder; /* to try to write to; NULL: none */
    const char *area;   /* of the findings that are added */
    int count;
    doctor_finding finding[DOCTOR_MOST];
} cli_doctor;

/* Adds a finding at LEVEL_OK and returns it. */
doctor_finding *doctor_add(cli_doctor *doctor, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Raises the level of a finding and says why; a lower level than it has changes nothing. */
void doctor_raise(cli_doctor *doctor, doctor_finding *finding, doctor_level level,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The first line of a file below the root; false where it cannot be read. */
bool doctor_line(const cli_doctor *doctor, char line[DOCTOR_LINE], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The line of a file that begins with a word, without that word; false where there is none. */
bool doctor_entry(const cli_doctor *doctor, char line[DOCTOR_LINE], const char *path,
                  const char *word);

/* "12.3 GiB" in the pool. */
const char *doctor_size(cli_doctor *doctor, double bytes);

/* A finding as text: the level, `name`, what was found, what to do. */
void doctor_print_finding(const doctor_finding *finding, const char *name, int width);
/* As JSON. */
json_t *doctor_finding_json(const doctor_finding *finding);
const char *doctor_level_name(doctor_level level);
doctor_level doctor_worst(const cli_doctor *doctor, int counts[4]);
/* "2 errors, 1 warning, 0 notes", or "nothing to remark" */
void doctor_print_counts(const cli_doctor *doctor);
int doctor_exit_code(doctor_level worst);
/* The checks that concern a host; `alone`: and those that measure, or look at the terminal. */
void doctor_look(cli_doctor *doctor, bool alone);

/* The checks, one file or two each. */
void doctor_hardware(cli_doctor *doctor);
void doctor_build(cli_doctor *doctor);
void doctor_ranks(cli_doctor *doctor);
void doctor_limits(cli_doctor *doctor);
void doctor_environment(cli_doctor *doctor);
void doctor_arithmetic(cli_doctor *doctor);
void doctor_noise(cli_doctor *doctor); /* takes a second */
void doctor_bf16(cli_doctor *doctor);
void doctor_memory(cli_doctor *doctor);
void doctor_folder(cli_doctor *doctor);
void doctor_terminal(cli_doctor *doctor);

#endif
