/*
 * Raising and passing on errors. These three macros are the only ones in the
 * library that hide a return or a goto.
 */
#ifndef LKI_BASE_CHECK_H
#define LKI_BASE_CHECK_H

#include <stdbool.h>

#include <lockstep/status.h>

/* Fill the thread's error record and return its status. The message is one sentence: the thing,
 * what was found, what was expected, what to do. */
lks_status lki_fail_at(const char *file, int line, lks_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define LKI_FAIL(status, ...) lki_fail_at(__FILE__, __LINE__, (status), __VA_ARGS__)

/* The end of a noun behind a number in a message: "%d worker%s", n, LKI_S(n). */
#define LKI_S(count) ((count) == 1 ? "" : "s")

/* What a public function answers to a NULL that it cannot take: if (x == NULL) return ... */
#define LKI_FAIL_NULL(argument) LKI_FAIL(LKS_E_INVALID, "%s() got NULL as %s", __func__, #argument)

/* Pass a failure on to the caller. */
#define LKI_TRY(expression)                                                                        \
    do {                                                                                           \
        const lks_status lki_status_ = (expression);                                               \
        if (lki_status_ != LKS_OK) return lki_status_;                                             \
    } while (0)

/* The same, through this function's one clean-up label. */
#define LKI_TRY_OR(variable, label, expression)                                                    \
    do {                                                                                           \
        (variable) = (expression);                                                                 \
        if ((variable) != LKS_OK) goto label;                                                      \
    } while (0)

/* Around a function of the caller's, which may have a sentence for the status that it answers, or none: then the
 * record still has that of an older failure, which is none of its. Leave says whether it has one. */
lks_status lki_error_enter(void);
bool lki_error_leave(lks_status had, lks_status answer);

/* Copy a saved record into this thread's (from another thread, or from a graph). */
void lki_error_restore(const lks_error *saved);

#endif
