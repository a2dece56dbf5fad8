/* Every network that a configuration calls by name, once. Adding one is a line here and a file beside it. */
#ifndef LKI_RECIPE_ZOO_LIST_H
#define LKI_RECIPE_ZOO_LIST_H

#define LKI_ZOO_LIST(X)                                                                            \
    X(mnist_cnn)                                                                                   \
    X(mlp)

#define LKI_ZOO_WORD(id) ", " #id
/* "mnist_cnn, mlp", and a text behind it. */
#define LKI_ZOO_WORDS(text) (&(LKI_ZOO_LIST(LKI_ZOO_WORD) text)[2])

#endif
