/* Exit codes: one table, from which --help and the documents have theirs. */
#include "cli/exit_code.h"

/* Which status ends in which code. Codes are part of the interface: they never change. */
static const struct exit_row {
    int code;
    const char *text;
    unsigned statuses; /* bit s: lks_status s */
} exit_rows[] = {
    {0, "success", 1u << LKS_OK},
    {EXIT_DIFFERENT, "verify, compare or op found a difference", 0},
    {EXIT_INVALID, "the command line, the configuration or the network is not valid",
     1u << LKS_E_INVALID | 1u << LKS_E_SHAPE | 1u << LKS_E_UNSUPPORTED},
    {3, "a file could not be read or written", 1u << LKS_E_IO},
    {4, "a file is damaged or not what it claims to be", 1u << LKS_E_FORMAT},
    {5, "a file belongs to another network, configuration or data set", 1u << LKS_E_MISMATCH},
    {6, "a loss or a parameter is not finite", 1u << LKS_E_NUMERIC},
    {7, "out of memory", 1u << LKS_E_NOMEM},
    {8, "the compute library failed", 1u << LKS_E_DEVICE},
    {9, "a fault in Lockstep itself, please report it",
     1u << LKS_E_STATE | 1u << LKS_E_BUG | 1u << LKS_E_STOPPED},
    {EXIT_WARNING, "doctor has a warning: something is slow, or may fail later", 0},
    {EXIT_ERROR, "doctor has an error: no training will work", 0},
    {12, "another process of the training, or a host, failed or cannot be reached",
     1u << LKS_E_COMM},
    {13, "another process of the training did not come in time", 1u << LKS_E_TIMEOUT},
    {129, "stopped by SIGHUP, after the step (and saved, with --out)", 0},
    {130, "stopped by SIGINT, after the step (and saved, with --out)", 0},
    {138, "stopped by SIGUSR1, after the step (and saved, with --out)", 0},
    {143, "stopped by SIGTERM, after the step (and saved, with --out)", 0},
};
enum { EXIT_ROWS = sizeof exit_rows / sizeof *exit_rows };

int exit_code_of(lks_status status)
{
    for (int i = 0; i < EXIT_ROWS; i++)
        if (exit_rows[i].statuses >> status & 1u) return exit_rows[i].code;
    return exit_code_of(LKS_E_BUG);
}

void exit_codes_print(FILE *out)
{
    for (int i = 0; i < EXIT_ROWS; i++)
        fprintf(out, "  %3d  %s\n", exit_rows[i].code, exit_rows[i].text);
}

bool exit_code_row(int row, int *code, const char **text)
{
    if (row >= EXIT_ROWS) return false;
    *code = exit_rows[row].code;
    *text = exit_rows[row].text;
    return true;
}
