#include "stop.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t noted;

static void handle(int number)
{
    if (noted != 0) _exit(128 + number);
    noted = number;
}

void stop_watch(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int stop_asked(void)
{
    return noted;
}
