/* Every optimizer, once, in the order of help. Adding one is a line here and a file beside it. */
#ifndef LKI_OPTIM_LIST_H
#define LKI_OPTIM_LIST_H

#define LKI_OPTIMIZER_LIST(X)                                                                      \
    X(sgd)                                                                                         \
    X(adam)                                                                                        \
    X(adamw)                                                                                       \
    X(adamp)                                                                                       \
    X(adadelta)                                                                                    \
    X(rmsprop)

#define LKI_OPTIMIZER_WORD(id) " " #id
/* "sgd adam ...": what a configuration may say. */
#define LKI_OPTIMIZER_NAMES (&(LKI_OPTIMIZER_LIST(LKI_OPTIMIZER_WORD))[1])

#endif
