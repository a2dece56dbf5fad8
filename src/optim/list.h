/* Every optimizer, once, in the order of help. Adding one is a line here, a file beside it, and a loop of
 * its name in every backend. */
#ifndef LKI_OPTIM_LIST_H
#define LKI_OPTIM_LIST_H

#define LKI_OPTIMIZER_LIST(X)                                                                      \
    X(SGD, sgd)                                                                                    \
    X(ADAM, adam)                                                                                  \
    X(ADAMW, adamw)                                                                                \
    X(ADAMP, adamp)                                                                                \
    X(ADADELTA, adadelta)                                                                          \
    X(RMSPROP, rmsprop)

#define LKI_OPTIMIZER_WORD(ID, id) " " #id
/* "sgd adam ...": what a configuration may say. */
#define LKI_OPTIMIZER_NAMES (&(LKI_OPTIMIZER_LIST(LKI_OPTIMIZER_WORD))[1])

#endif
