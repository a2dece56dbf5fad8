/* Every operation, once. Adding one is a line here and a file beside it. */
#ifndef LKI_OP_LIST_H
#define LKI_OP_LIST_H

/* Losses, in the order of help. */
#define LKI_LOSS_LIST(X)                                                                           \
    X(CROSS_ENTROPY, cross_entropy)                                                                \
    X(NLL, nll)                                                                                    \
    X(MSE, mse)                                                                                    \
    X(L1, l1)                                                                                      \
    X(HUBER, huber)
#define LKI_LOSS_WORD(ID, id) " " #id
/* "cross_entropy nll ...": what a configuration may say. */
#define LKI_LOSS_NAMES (&(LKI_LOSS_LIST(LKI_LOSS_WORD))[1])

/* What a backend computes; ref has a kernel for each. */
#define LKI_COMPUTED_OP_LIST(X)                                                                    \
    X(NORMALIZE, normalize)                                                                        \
    X(CONV2D, conv2d)                                                                              \
    X(DENSE, dense)                                                                                \
    X(EMBEDDING, embedding)                                                                        \
    X(MASKING, masking)                                                                            \
    X(POSITION, position)                                                                          \
    X(RNN, rnn)                                                                                    \
    X(LSTM, lstm)                                                                                  \
    X(GRU, gru)                                                                                    \
    X(ATTENTION, attention)                                                                        \
    X(BATCH_NORM, batch_norm)                                                                      \
    X(LAYER_NORM, layer_norm)                                                                      \
    X(RMS_NORM, rms_norm)                                                                          \
    X(MAX_POOL, max_pool)                                                                          \
    X(AVG_POOL, avg_pool)                                                                          \
    X(GLOBAL_AVG_POOL, global_avg_pool)                                                            \
    X(RELU, relu)                                                                                  \
    X(RELU6, relu6)                                                                                \
    X(LEAKY_RELU, leaky_relu)                                                                      \
    X(GELU, gelu)                                                                                  \
    X(SILU, silu)                                                                                  \
    X(TANH, tanh)                                                                                  \
    X(SIGMOID, sigmoid)                                                                            \
    X(SOFTPLUS, softplus)                                                                          \
    X(SCALE, scale)                                                                                \
    X(ADD, add)                                                                                    \
    X(MUL, mul)                                                                                    \
    X(CONCAT, concat)                                                                              \
    X(FLATTEN, flatten)                                                                            \
    X(SEQUENCE, sequence)                                                                          \
    X(SELECT, select)                                                                              \
    X(DROPOUT, dropout)                                                                            \
    X(LOG_SOFTMAX, log_softmax)                                                                    \
    LKI_LOSS_LIST(X)

#define LKI_OP_LIST(X)                                                                             \
    X(INPUT, input)                                                                                \
    X(TARGET, target)                                                                              \
    LKI_COMPUTED_OP_LIST(X)

#endif
