#include "cli/stop.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t noted, pressed;

static void handle(int number)
{
    /* A terminal that goes sends SIGHUP twice, and a scheduler may repeat SIGUSR1: nobody is in a
     * hurry. Whoever sends one of the others again is. */
    const int hasty = number == SIGINT || number == SIGTERM;
    if (hasty && pressed != 0) _exit(128 + number);
    if (hasty) pressed = 1;
    if (noted == 0) noted = number;
}

void stop_watch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        /* What our parent made us ignore (nohup, a job in the background) stays ignored. */
        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

int stop_asked(void)
{
    return noted;
}
