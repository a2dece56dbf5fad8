/* Every implementation of the cpu backend, once. Adding one is a line here and a file beside it. */
#ifndef LKI_CPU_LIST_H
#define LKI_CPU_LIST_H

/* lki_cpu_<id>_impl, with a pattern of several operations or a rule what it refuses: in this order, before
 * all others. */
#define LKI_CPU_IMPL_LIST(X)                                                                       \
    X(conv_block)                                                                                  \
    X(conv_block_gelu)                                                                             \
    X(first_norm)                                                                                  \
    X(conv_norm)                                                                                   \
    X(norm_activation)                                                                             \
    X(first)                                                                                       \
    X(conv2d_relu)                                                                                 \
    X(depthwise_relu)                                                                              \
    X(conv2d)                                                                                      \
    X(depthwise)                                                                                   \
    X(dense_active)                                                                                \
    X(dense)                                                                                       \
    X(dense_positions)

/* lki_cpu_<id>, the kernel of one operation, whatever its shapes. */
#define LKI_CPU_KERNEL_LIST(X)                                                                     \
    X(NORMALIZE, normalize)                                                                        \
    X(DENSE, positions)                                                                            \
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
    X(CROSS_ENTROPY, cross_entropy)                                                                \
    X(NLL, nll)                                                                                    \
    X(MSE, mse)                                                                                    \
    X(L1, l1)                                                                                      \
    X(HUBER, huber)

#endif
