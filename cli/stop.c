#include "cli/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t noted, pressed;
static struct timespec pressed_at;

/* A scheduler may send an order to all processes of a job, and whoever watches over this one sends it on:
 * what comes together is one order. */
static bool comes_again(void)
{
    struct timespec now, *at = &pressed_at;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const bool again = pressed != 0 && (double)(now.tv_sec - at->tv_sec) +
                                               1e-9 * (double)(now.tv_nsec - at->tv_nsec) >
                                           0.2;
    if (pressed == 0) pressed_at = now;
    pressed = 1;
    return again;
}

static void handle(int number)
{
    /* A terminal that goes sends SIGHUP twice, and a scheduler may repeat SIGUSR1: nobody is in a
     * hurry. Whoever sends one of the others again is. */
    const int hasty = number == SIGINT || number == SIGTERM;
    if (hasty && comes_again()) _exit(128 + number);
    if (noted == 0) noted = number;
}

void stop_watch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, before;
    sigfillset(&action.sa_mask); /* one at a time */
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
