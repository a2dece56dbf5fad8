/* Every schedule, once, in the order of help. Adding one is a line here and a file beside it. */
#ifndef LKI_OPTIM_SCHEDULE_LIST_H
#define LKI_OPTIM_SCHEDULE_LIST_H

#define LKI_SCHEDULE_LIST(X)                                                                       \
    X(constant)                                                                                    \
    X(step)                                                                                        \
    X(cosine)                                                                                      \
    X(multi_step)                                                                                  \
    X(exponential)                                                                                 \
    X(linear)                                                                                      \
    X(polynomial)                                                                                  \
    X(one_cycle)                                                                                   \
    X(reduce_on_plateau)

#define LKI_SCHEDULE_WORD(id) " " #id
/* "constant step ...": what a configuration may say. */
#define LKI_SCHEDULE_NAMES (&(LKI_SCHEDULE_LIST(LKI_SCHEDULE_WORD))[1])

#endif
