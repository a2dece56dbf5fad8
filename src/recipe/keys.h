/*
 * Every key of the configuration, once: its name, type, range, default, what a resumed run may change,
 * and what it means. The parser, --set, --print-config, the help, the flags, the messages and the check
 * of a resumed run follow from this list. A default of NULL is null: the help says what then happens; one
 * that ends in "null: " goes on with the defaults that optimizers have.
 *
 * Whether a key is for some names of its section alone ("optimizer.momentum": sgd, rmsprop) is said by what
 * has these names: the tables of optimizers, schedules and losses, `keys` of networks and data sets (keys.c).
 *
 * When a run is resumed with another value than its checkpoint has:
 *   FREE   each command has its own: nothing is said
 *   SAID   people change it on purpose: it is said, and the run goes on
 *   FIXED  it makes the run what it is: refused, unless with checkpoint.accept_changes, and with it
 *          too where the state in the checkpoint does not fit (condition() in changes.c)
 *
 * X(id, name, type, range, default, change, help)
 */
#ifndef LKI_RECIPE_KEYS_H
#define LKI_RECIPE_KEYS_H

#include "core/op.h"
#include "models/zoo.h"
#include "optim/optimizer.h"
#include "optim/schedule/schedule.h"

#define LKI_KEY_LIST(X)                                                                            \
    X(DATA_NAME, "data.name", STRING, NULL, "digits", SAID,                                        \
      "digits (embedded), dummy (random images), checkerboard, or a name for a folder of files: "  \
      "mnist, "                                                                                    \
      "fashion_mnist, cifar10, ...; "                                                              \
      "where only data.path is given, the folder's name")                                          \
    X(DATA_PATH, "data.path", STRING, NULL, NULL, SAID,                                            \
      "folder of the files, or an .npz archive; null: lockstep/<name> in $XDG_DATA_HOME or "       \
      "~/.local/share")                                                                            \
    X(DATA_TABLE, "data.table", STRING, NULL, NULL, SAID,                                          \
      "CSV file, or NumPy's .npy or .npz, whose rows are samples (docs/tables.md); null: what "    \
      "data.name says")                                                                            \
    X(DATA_TEST_TABLE, "data.test_table", STRING, NULL, NULL, SAID,                                \
      "another file with the same columns, to test with; null: test_fraction")                     \
    X(DATA_SHARDS, "data.shards", STRING, NULL, NULL, SAID,                                        \
      "folder with metadata.json, and samples and targets in NumPy files of equally many rows "    \
      "(docs/shards.md); null: what data.name says")                                               \
    X(DATA_TEST_FRACTION, "data.test_fraction", FLOAT, "(0,1)", NULL, FIXED,                       \
      "share of the rows that are held back for the test, drawn by train.seed; null: "             \
      "none")                                                                                      \
    X(DATA_TARGETS, "data.targets", TREE, NULL, NULL, FIXED,                                       \
      "list of the columns that are learned, by name or by number from 0, such as [price] or "     \
      "[-1]; null: the last")                                                                      \
    X(DATA_TASK, "data.task", CHOICE, "auto regression classification", "auto", FIXED,             \
      "regression: targets are numbers; classification: one column of classes, texts or "          \
      "integers; auto: classification where the target has texts")                                 \
    X(DATA_STANDARDIZE, "data.standardize", BOOL, NULL, "true", FIXED,                             \
      "numbers, also those that are learned, less the mean and over the deviation of the "         \
      "training's rows")                                                                           \
    X(DATA_TEXTS, "data.texts", TREE, NULL, NULL, FIXED,                                           \
      "list of the columns that have texts although they look like numbers, such as codes; null: " \
      "none")                                                                                      \
    X(DATA_IGNORE, "data.ignore", TREE, NULL, NULL, FIXED,                                         \
      "list of the columns that are left out; null: none")                                         \
    X(DATA_TEXT_COLUMN, "data.text_column", STRING, NULL, NULL, FIXED,                             \
      "column whose texts are the samples, data.context tokens of data.level each, with targets "  \
      "beside it (docs/tables.md); null: all columns but targets are inputs")                      \
    X(DATA_MISSING, "data.missing", CHOICE, "refuse mean", "refuse", FIXED,                        \
      "inputs without a value: refuse, or the mean of the training's rows, and of texts none; of " \
      "data.text_column a text without words")                                                     \
    X(DATA_SEPARATOR, "data.separator", CHOICE, "auto comma semicolon tab", "auto", FIXED,         \
      "between fields; auto: what the first line has most of")                                     \
    X(DATA_HEADER, "data.header", CHOICE, "auto true false", "auto", FIXED,                        \
      "whether the first line has names; auto: unless one of its fields is a number")              \
    X(DATA_SERIES, "data.series", STRING, NULL, NULL, SAID,                                        \
      "CSV file whose rows are times, in their order, to forecast numbers of (docs/tables.md); "   \
      "null: what data.name says")                                                                 \
    X(DATA_HORIZON, "data.horizon", INT, "[1,1000000]", "24", FIXED,                               \
      "times that are forecast behind data.context")                                               \
    X(DATA_TIME, "data.time", STRING, NULL, NULL, FIXED,                                           \
      "column of a series' times, which forecasts are called by: dates, or numbers such as "       \
      "seconds since 1970, which then are no input; null: the first column of dates")              \
    X(DATA_TEXT, "data.text", STRING, NULL, NULL, SAID,                                            \
      "text file whose next token is learned, or a folder with files such as ptb.train.txt, "      \
      "ptb.valid.txt and ptb.test.txt, or with several texts that are read as one "                \
      "(docs/texts.md); null: what data.name says")                                                \
    X(DATA_VALID_TEXT, "data.valid_text", STRING, NULL, NULL, SAID,                                \
      "another text, to validate with; null: the folder's, or validation.fraction")                \
    X(DATA_TEST_TEXT, "data.test_text", STRING, NULL, NULL, SAID,                                  \
      "another text, to test with; null: the folder's")                                            \
    X(DATA_LEVEL, "data.level", CHOICE, "word char byte bpe", "char", FIXED,                       \
      "what a token is: a word, with <eos> for the end of a line; a character; a byte; bytes "     \
      "that often stand together (bpe, as GPT-2)")                                                 \
    X(DATA_WORDS, "data.words", INT, "[3,2147483647]", NULL, FIXED,                                \
      "of words keep so many, <unk> and <eos> among them, the most frequent of the training; "     \
      "others are <unk>; null: all. Of bpe: so many tokens, 256 bytes among them; null: 4096")     \
    X(DATA_DICTIONARY, "data.dictionary", CHOICE, "frequency appearance", "frequency", FIXED,      \
      "words are numbered by frequency in the training; appearance: as they appear, in the "       \
      "training's text and then in the test's (as Needle does)")                                   \
    X(DATA_TOKENIZER, "data.tokenizer", STRING, NULL, NULL, SAID,                                  \
      "file of a vocabulary; null: that of the run in checkpoint.path, or else one is made from "  \
      "the text")                                                                                  \
    X(DATA_CONTEXT, "data.context", INT, "[1,1000000]", "128", FIXED,                              \
      "tokens of a sample, or times of a series")                                                  \
    X(DATA_STRIDE, "data.stride", INT, "[1,2147483647]", NULL, FIXED,                              \
      "tokens from one sample's first to the next one's, or times; null: data.context, of a "      \
      "series 1")                                                                                  \
    X(DATA_WINDOWS, "data.windows", CHOICE, "consecutive anywhere", "consecutive", FIXED,          \
      "samples of the training are windows one data.stride behind the other; anywhere: as many, "  \
      "each from a place that is drawn anew in each epoch (as nanoGPT does)")                      \
    X(DATA_COLUMNS, "data.columns", INT, "[1,16777216]", NULL, FIXED,                              \
      "the text in so many columns of equal length: batch t is window t of each, in order "        \
      "(train.batch_size is that many, data.shuffle false); null: windows one by one")             \
    X(DATA_CACHE, "data.cache", STRING, NULL, NULL, FREE,                                          \
      "folder for texts as tokens, which may be removed at any time; none: they are made each "    \
      "time; null: lockstep in $XDG_CACHE_HOME or ~/.cache")                                       \
    X(DATA_CLASSES, "data.classes", INT, "[2,65536]", NULL, FIXED,                                 \
      "number of classes; null: the largest label + 1; 20 takes the coarse labels of cifar100")    \
    X(DATA_SAMPLES, "data.samples", INT, "[1,)", NULL, FIXED,                                      \
      "use only so many training samples, the first; null: all")                                   \
    X(DATA_TEST_SAMPLES, "data.test_samples", INT, "[1,)", NULL, FIXED,                            \
      "use only so many test samples, the first; null: all")                                       \
    X(DATA_SEED, "data.seed", INT, "[0,)", "0", FIXED, "others of the same kind")                  \
    X(DATA_SHAPE, "data.shape", INTS, "[1,65536]", "[224, 224, 3]", FIXED,                         \
      "of a sample: height, width, channels")                                                      \
    X(DATA_MEAN, "data.mean", FLOATS, NULL, NULL, FIXED,                                           \
      "subtracted after scaling bytes to 0..1: one number, or one for each channel; null: 0")      \
    X(DATA_STD, "data.std", FLOATS, "(0,)", NULL, FIXED, "then divided by; null: 1")               \
    X(DATA_SHUFFLE, "data.shuffle", BOOL, NULL, "true", FIXED,                                     \
      "a new order every epoch, from the seed")                                                    \
    X(DATA_DROP_LAST, "data.drop_last", BOOL, NULL, "false", FIXED,                                \
      "leave out the short last batch of an epoch")                                                \
    X(DATA_AUGMENT, "data.augment", TREE, NULL, NULL, FIXED,                                       \
      "what is done to training images, in this order, such as [crop: 4, flip] (see "              \
      "--help-layers); null: nothing")                                                             \
    X(DATA_MIXUP, "data.mixup", FLOAT, "[0,1000]", "0", FIXED,                                     \
      "mixes every training image, and its target, with another one, in shares drawn from "        \
      "Beta(this, this): small, such as 0.2, leaves most nearly alone, 1 draws all shares alike; " \
      "0: nothing is mixed")                                                                       \
    X(DATA_THREADS, "data.threads", INT, "[0,64]", NULL, SAID,                                     \
      "threads that read ahead; 0: read between steps; never changes a bit; null: one for each "   \
      "worker, fewer for little data")                                                             \
    X(DATA_AHEAD, "data.ahead", INT, "[1,64]", "2", SAID, "batches read ahead")                    \
    X(MODEL_NAME, "model.name", STRING, NULL, NULL, FIXED,                                         \
      LKI_ZOO_WORDS("; with layers: a name of your own, null: model"))                             \
    X(MODEL_LAYERS, "model.layers", TREE, NULL, NULL, FIXED,                                       \
      "the network layer by layer (see --help-layers); null: model.name is a known one")           \
    X(MODEL_BLOCKS, "model.blocks", MAP, NULL, NULL, FIXED,                                        \
      "lists of layers by name, for `- block: name` in model.layers (see --help-layers); "         \
      "null: none")                                                                                \
    X(MODEL_HIDDEN, "model.hidden", INTS, "[1,)", "[128]", FIXED, "units of the hidden layers")    \
    X(MODEL_EMBEDDING_SIZE, "model.embedding_size", INT, "[1,)", "200", FIXED,                     \
      "numbers of a token's vector")                                                               \
    X(MODEL_HIDDEN_SIZE, "model.hidden_size", INT, "[1,)", "200", FIXED,                           \
      "units of every recurrent layer")                                                            \
    X(MODEL_NUM_LAYERS, "model.num_layers", INT, "[1,64]", "2", FIXED, "recurrent layers")         \
    X(MODEL_CARRY_STATE, "model.carry_state", BOOL, NULL, "false", FIXED,                          \
      "recurrent layers go on where the window before ended, which data.columns says")             \
    X(MODEL_INIT_SCALE, "model.init_scale", FLOAT, "[0,)", "0", FIXED,                             \
      "all parameters begin uniform in +- this; 0: as those of PyTorch's layers")                  \
    X(MODEL_DROPOUT, "model.dropout", FLOAT, "[0,1)", NULL, FIXED,                                 \
      "after every relu of an mlp, of transformers, and of a language model on embeddings, "       \
      "between layers and in front of the last, null: 0; others have their own with null, and "    \
      "none with 0")                                                                               \
    X(MODEL_DEPTH, "model.depth", INT, "[1,)", "12", FIXED, "blocks")                              \
    X(MODEL_HEADS, "model.heads", INT, "[1,)", "12", FIXED,                                        \
      "heads of attention, which divide the width")                                                \
    X(MODEL_KV_HEADS, "model.kv_heads", INT, "[1,)", NULL, FIXED,                                  \
      "heads of keys and values, which divide the heads; null: as many")                           \
    X(MODEL_WIDTH, "model.width", INT, "[1,)", "768", FIXED, "channels of a position")             \
    X(MODEL_INNER, "model.inner", INT, "[1,)", NULL, FIXED,                                        \
      "units in the middle of a block's dense layers; null: 4 width, with swiglu 8/3 width, to "   \
      "a multiple of 8")                                                                           \
    X(MODEL_NORM, "model.norm", CHOICE, "layer_norm rms_norm", "layer_norm", FIXED,                \
      "what normalises in a block")                                                                \
    X(MODEL_ACTIVATION, "model.activation", CHOICE, "gelu gelu_tanh relu swiglu", "gelu", FIXED,   \
      "between a block's dense layers; gelu_tanh is GPT-2's")                                      \
    X(MODEL_ROTARY, "model.rotary", FLOAT, "[0,)", "0", FIXED,                                     \
      "base of rotary positions, such as 10000; 0: learned positions")                             \
    X(MODEL_BIAS, "model.bias", BOOL, NULL, "true", FIXED, "of norms and dense layers of blocks")  \
    X(MODEL_POST_NORM, "model.post_norm", BOOL, NULL, "false", FIXED,                              \
      "a norm behind each sum, in the place of one in front of what is added")                     \
    X(MODEL_CLASS_TOKEN, "model.class_token", BOOL, NULL, "false", FIXED,                          \
      "a learned position in front, which is read in the place of the mean")                       \
    X(MODEL_MASKED, "model.masked", BOOL, NULL, "false", FIXED,                                    \
      "tokens that are 0, or frames of zeros, are padding: attention ignores them, and the mean "  \
      "leaves them out")                                                                           \
    X(MODEL_PATCH, "model.patch", INT, "[1,)", "16", FIXED, "rows and columns of a patch")         \
    X(MODEL_DROP_PATH, "model.drop_path", FLOAT, "[0,1)", "0", FIXED,                              \
      "stochastic depth: in training the last residual block is left out of a sample with this "   \
      "probability, those before it with less, down to the first in equal steps")                  \
    X(MODEL_STEM, "model.stem", CHOICE, "auto cifar imagenet unpooled", "auto", FIXED,             \
      "what it begins with: cifar (3x3, for small images), imagenet (as published there), "        \
      "unpooled (that of ResNets with stride 1 and no pooling), or auto: cifar for images of at "  \
      "most 64x64")                                                                                \
    X(MODEL_SYNC_BATCH_NORM, "model.sync_batch_norm", BOOL, NULL, "false", FIXED,                  \
      "every batch_norm over the whole batch, not a replica's share; sync: true for one layer")    \
    X(MODEL_FREEZE, "model.freeze", TREE, NULL, NULL, FIXED,                                       \
      "list of patterns such as ['layer1.*', '*.bias']: parameters with such names stay as they "  \
      "are, and what leads to no other is not computed backward; running statistics go on; null: " \
      "none")                                                                                      \
    X(MODEL_INIT, "model.init", STRING, NULL, NULL, FREE,                                          \
      "safetensors file of weights to start from; null: random")                                   \
    X(MODEL_INIT_MATCHING, "model.init_matching", BOOL, NULL, "false", FREE,                       \
      "of model.init take what fits; other tensors, of another head, stay random and are named")   \
    X(MODEL_WHITEN, "model.whiten", INT, "[1,)", NULL, FIXED,                                      \
      "the first convolution's filters from the patches of so many training images: their "        \
      "eigenvectors, and the negatives of these, as airbench has them; with model.init, which "    \
      "wins, they are that file's; null: random")                                                  \
    X(MODEL_SAVE, "model.save", BOOL, NULL, "false", SAID,                                         \
      "write <model name>.safetensors at the end, with PyTorch's names")                           \
    X(LOSS_NAME, "loss.name", CHOICE, LKI_LOSS_NAMES, NULL, FIXED,                                 \
      "null: mse for numbers; for classes nll after log_softmax, else cross_entropy")              \
    X(LOSS_LABEL_SMOOTHING, "loss.label_smoothing", FLOAT, "[0,1]", "0", FIXED,                    \
      "share of the target given to all classes")                                                  \
    X(LOSS_DELTA, "loss.delta", FLOAT, "[9.3e-10,1.1e9]", "1", FIXED,                              \
      "where squares end and the line begins")                                                     \
    X(TRAIN_EPOCHS, "train.epochs", INT, "[1,)", NULL, SAID,                                       \
      "passes over the data; null: 1, or as many as steps need")                                   \
    X(TRAIN_STEPS, "train.steps", INT, "[1,)", NULL, SAID,                                         \
      "stop after so many steps in all; null: after the epochs")                                   \
    X(TRAIN_BATCH_SIZE, "train.batch_size", INT, "[1,16777216]", "64", FIXED,                      \
      "samples of a step, over all replicas")                                                      \
    X(TRAIN_TEST_BATCH_SIZE, "train.test_batch_size", INT, "[1,16777216]", "1000", SAID,           \
      "samples read at once when testing; never changes a digit")                                  \
    X(TRAIN_REPLICAS, "train.replicas", INT, "[1,4096]", "8", FIXED,                               \
      "shares of a batch: part of the arithmetic, and the most workers there can be")              \
    X(TRAIN_ACCUMULATE, "train.accumulate", INT, "[1,4096]", "1", FIXED,                           \
      "so many times more replicas, one after the other")                                          \
    X(TRAIN_WORKERS, "train.workers", INT, "[1,4096]", NULL, SAID,                                 \
      "cores to use: never changes a bit; null: all, but not more than replicas, and fewer for "   \
      "small steps")                                                                               \
    X(TRAIN_SEED, "train.seed", INT, "[0,)", "0", FIXED, "everything random follows from it")      \
    X(TRAIN_DEVICE, "train.device", STRING, NULL, NULL, SAID,                                      \
      "cpu or ref; null: the fastest that was built in")                                           \
    X(TRAIN_HASH_EVERY, "train.hash_every", INT, "[1,1000000000]", "100", FIXED,                   \
      "steps between links of the hash chain")                                                     \
    X(TRAIN_DRY_RUN, "train.dry_run", BOOL, NULL, "false", FREE,                                   \
      "one step and a test, to see that it runs; nothing is written")                              \
    X(TRAIN_EMA, "train.ema", FLOAT, "(0,1)", NULL, FIXED,                                         \
      "decay of a moving average of the parameters, such as 0.999; null: none is kept")            \
    X(TRAIN_EMA_EVALUATE, "train.ema_evaluate", BOOL, NULL, "true", FIXED,                         \
      "validate, test, predict and save the model with that average, where there is one")          \
    X(TRAIN_NOT_FINITE, "train.not_finite", CHOICE, "stop skip", "stop", SAID,                     \
      "a step whose loss is not finite: stop, or skip it and count (then the gradient is looked "  \
      "at too)")                                                                                   \
    X(TRAIN_LOSS_SCALE, "train.loss_scale", FLOAT, "[1,1.2e18]", NULL, FIXED,                      \
      "a power of two that the loss' gradient is multiplied by on its way through the network, "   \
      "for numbers of a small range; null: 1, or 65536 with loss_scale_steps")                     \
    X(TRAIN_LOSS_SCALE_STEPS, "train.loss_scale_steps", INT, "[1,1000000000]", NULL, FIXED,        \
      "a gradient that is not finite halves the scale, and its step is skipped and counted; so "   \
      "many steps without one double it (PyTorch: 2000); null: the scale stays")                   \
    X(TRAIN_BALANCE, "train.balance", WORD_FLOATS, "even auto (0,1000]", NULL, SAID,               \
      "replicas of each worker: even; auto: cut anew, as fast as each is, where a step gains "     \
      "more than a tenth; or a weight for each process, such as 3,1; never changes a bit; null: "  \
      "even")                                                                                      \
    X(TRAIN_BUCKET_BYTES, "train.bucket_bytes", INT, "[1,1073741824]", NULL, SAID,                 \
      "of gradients that processes exchange together, about; never changes a bit; null: 1 MiB, "   \
      "or "                                                                                        \
      "a 20th of all where that is more")                                                          \
    X(TRAIN_OVERLAP, "train.overlap", BOOL, NULL, "true", SAID,                                    \
      "exchange gradients while others are formed; never changes a bit")                           \
    X(TRAIN_SHARD, "train.shard_optimizer", CHOICE, "auto true false", "auto", SAID,               \
      "each process updates a part of the parameters, and alone keeps what the optimizer keeps "   \
      "for it; never changes a bit; auto: where all are on one host, with parameters in common; "  \
      "true: across hosts, too")                                                                   \
    X(TRAIN_COMM, "train.comm", CHOICE, "all none", "all", FIXED,                                  \
      "none: processes exchange nothing and each trains alone, with other bits, to measure what "  \
      "communication costs")                                                                       \
    X(TRAIN_REDUCTION, "train.reduction", CHOICE, "strict library", "strict", FIXED,               \
      "who adds gradients of processes: strict, in one order, with the bits of one process; "      \
      "library: what joins them, such as MPI, with bits that may depend on how many there are")    \
    X(TRAIN_DTYPE, "train.dtype", CHOICE, "f32 bf16 f16 bf16_storage", "f32", FIXED,               \
      "factors of the products of convolutions and dense layers: bf16 rounds them to bfloat16, "   \
      "with "                                                                                      \
      "the same bits everywhere, faster where the processor has AMX or AVX-512 BF16 (lockstep "    \
      "doctor); sums, parameters and all else stay f32; f16, on device ref alone: what layers "    \
      "write is rounded "                                                                          \
      "to half precision, to try train.loss_scale; bf16_storage: computes in f32, and keeps what " \
      "the backward pass reads in bfloat16, for less memory on any processor")                     \
    X(TRAIN_RECOMPUTE, "train.recompute", CHOICE, "none blocks", "none", SAID,                     \
      "blocks: what the backward pass reads is formed again, block by block of layers, instead "   \
      "of kept: less memory, more time; never changes a bit")                                      \
    X(TRAIN_AVERAGE_EVERY, "train.average_every", INT, "[1,1000000000]", NULL, FIXED,              \
      "processes step alone, each on its part of a batch, and average their models after every "   \
      "so many steps, at links and at ends of epochs: another algorithm, with bits that depend "   \
      "on the processes; null: they take every step together")                                     \
    X(KERNELS_WINOGRAD, "kernels.winograd", CHOICE, "auto off f2 f4", "auto", FIXED,               \
      "3x3 and 5x5 convolutions in fewer products: off; 2x2 outputs at a time (f2) or 4x4 "        \
      "(f4) wherever there is such a kernel; auto: by shapes alone, never by the machine")         \
    X(KERNELS_SKIP_ZEROS, "kernels.skip_zeros", BOOL, NULL, "true", FIXED,                         \
      "zeros that are known, such as a gradient behind relu, are not multiplied")                  \
    X(KERNELS_FUSE, "kernels.fuse", BOOL, NULL, "true", FIXED,                                     \
      "several operations in one kernel where there is one; false: each by its own")               \
    X(OPTIMIZER_NAME, "optimizer.name", CHOICE, LKI_OPTIMIZER_NAMES, "sgd", FIXED,                 \
      "with PyTorch's semantics and defaults")                                                     \
    X(OPTIMIZER_LR, "optimizer.lr", FLOAT, "[0,)", NULL, SAID, "learning rate; null: ")            \
    X(OPTIMIZER_LR_SCALING, "optimizer.lr_scaling", CHOICE, "none sqrt linear", "none", SAID,      \
      "what lr is multiplied by: the train.batch_size over lr_batch (linear), or the root of "     \
      "that (sqrt)")                                                                               \
    X(OPTIMIZER_LR_BATCH, "optimizer.lr_batch", INT, "[1,16777216]", NULL, SAID,                   \
      "batch size that lr is for; null: that of the run, and lr_scaling: none")                    \
    X(OPTIMIZER_WEIGHT_DECAY, "optimizer.weight_decay", FLOAT, "[0,)", NULL, FIXED,                \
      "adds this times the weight to the gradient; adamw: shrinks the weight by lr times this; "   \
      "null: ")                                                                                    \
    X(OPTIMIZER_DECAY_OF, "optimizer.decay_of", CHOICE, "all weights", "all", FIXED,               \
      "what decays; weights: not biases, nor parameters of normalisations")                        \
    X(OPTIMIZER_GROUPS, "optimizer.groups", TREE, NULL, NULL, FIXED,                               \
      "list of {match: '*.bias', weight_decay: 0, lr_factor: 0.1}: other values for parameters "   \
      "with such names; all that match apply, later ones win; null: none")                         \
    X(OPTIMIZER_CLIP_VALUE, "optimizer.clip_value", FLOAT, "(0,)", NULL, FIXED,                    \
      "limit every element of the gradient to so much, up and down; null: no limit")               \
    X(OPTIMIZER_CLIP_NORM, "optimizer.clip_norm", FLOAT, "(0,)", NULL, FIXED,                      \
      "scale the gradient down to this norm, of all parameters together; null: no limit")          \
    X(OPTIMIZER_MOMENTUM, "optimizer.momentum", FLOAT, "[0,1)", "0", FIXED,                        \
      "how much of the last direction the next step keeps")                                        \
    X(OPTIMIZER_DAMPENING, "optimizer.dampening", FLOAT, "[0,1]", "0", FIXED, "of the momentum")   \
    X(OPTIMIZER_NESTEROV, "optimizer.nesterov", BOOL, NULL, "false", FIXED,                        \
      "Nesterov's momentum; sgd: needs momentum, and no dampening")                                \
    X(OPTIMIZER_BETAS, "optimizer.betas", FLOATS, "[0,1)", "[0.9, 0.999]", FIXED,                  \
      "decay of the two moments")                                                                  \
    X(OPTIMIZER_RHO, "optimizer.rho", FLOAT, "[0,1)", "0.9", FIXED, "decay of the two averages")   \
    X(OPTIMIZER_ALPHA, "optimizer.alpha", FLOAT, "[0,1)", "0.99", FIXED,                           \
      "decay of the average of squares")                                                           \
    X(OPTIMIZER_CENTERED, "optimizer.centered", BOOL, NULL, "false", FIXED,                        \
      "divide by the estimated deviation, not by the root of the mean square")                     \
    X(OPTIMIZER_DELTA, "optimizer.delta", FLOAT, "[0,)", "0.1", FIXED,                             \
      "project where gradient and weight are this far from parallel")                              \
    X(OPTIMIZER_WD_RATIO, "optimizer.wd_ratio", FLOAT, "[0,)", "0.1", FIXED,                       \
      "weight decay times this where it is projected")                                             \
    X(OPTIMIZER_TRUST, "optimizer.trust", FLOAT, "[0,)", "0.001", FIXED,                           \
      "a tensor's rate is lr times this, times its norm over its gradient's")                      \
    X(OPTIMIZER_EPS, "optimizer.eps", FLOAT, "(0,)", NULL, FIXED,                                  \
      "keeps a divisor from 0; null: ")                                                            \
    X(SCHEDULE_NAME, "schedule.name", CHOICE, LKI_SCHEDULE_NAMES, "constant", SAID,                \
      "the learning rate over time")                                                               \
    X(SCHEDULE_PER_STEP, "schedule.per_step", BOOL, NULL, NULL, SAID,                              \
      "begin, step_size, milestones and length count steps, not epochs; null: false, for "         \
      "one_cycle true")                                                                            \
    X(SCHEDULE_BEGIN, "schedule.begin", INT, "[0,)", "0", SAID,                                    \
      "it begins behind so many epochs, as many as those of a warm-up that comes first")           \
    X(SCHEDULE_STEP_SIZE, "schedule.step_size", INT, "[1,)", "1", SAID,                            \
      "the rate is multiplied by gamma after so many epochs")                                      \
    X(SCHEDULE_MILESTONES, "schedule.milestones", INTS, "[1,)", NULL, SAID,                        \
      "the rate is multiplied by gamma after each of these epochs; null: none, and refused")       \
    X(SCHEDULE_GAMMA, "schedule.gamma", FLOAT, "(0,)", NULL, SAID,                                 \
      "the rate is multiplied by it; null: 0.1, but exponential, which does so every epoch, has "  \
      "none")                                                                                      \
    X(SCHEDULE_LENGTH, "schedule.length", INT, "[1,)", NULL, SAID,                                 \
      "epochs from the schedule's begin to its end; null: what the run has behind its begin")      \
    X(SCHEDULE_FINAL_LR, "schedule.final_lr", FLOAT, "[0,)", "0", SAID, "the rate at the end")     \
    X(SCHEDULE_POWER, "schedule.power", FLOAT, "(0,)", "1", SAID, "1 is linear")                   \
    X(SCHEDULE_RISE, "schedule.rise", FLOAT, "(0,1)", "0.3", SAID,                                 \
      "share of the length in which the rate rises to optimizer.lr")                               \
    X(SCHEDULE_START_DIV, "schedule.start_div", FLOAT, "(0,)", "25", SAID,                         \
      "it starts at optimizer.lr divided by this")                                                 \
    X(SCHEDULE_FINAL_DIV, "schedule.final_div", FLOAT, "(0,)", "10000", SAID,                      \
      "it ends at its start divided by this")                                                      \
    X(SCHEDULE_FACTOR, "schedule.factor", FLOAT, "(0,1)", "0.1", SAID, "multiplies the rate")      \
    X(SCHEDULE_PATIENCE, "schedule.patience", INT, "[0,1000000]", "10", SAID,                      \
      "after more than so many evaluations without a better loss (validation's, else the test's)") \
    X(SCHEDULE_THRESHOLD, "schedule.threshold", FLOAT, "[0,1)", "0.0001", SAID,                    \
      "better is a loss that is smaller by more than this share")                                  \
    X(SCHEDULE_MIN_LR, "schedule.min_lr", FLOAT, "[0,)", "0", SAID,                                \
      "the rate does not fall below it")                                                           \
    X(SCHEDULE_WARMUP_STEPS, "schedule.warmup_steps", INT, "[0,)", "0", SAID,                      \
      "the rate rises linearly over so many steps")                                                \
    X(SCHEDULE_WARMUP_EPOCHS, "schedule.warmup_epochs", INT, "[0,1000000]", "0", SAID,             \
      "the same, step by step, over so many epochs")                                               \
    X(VALIDATION_SAMPLES, "validation.samples", INT, "[1,)", NULL, FIXED,                          \
      "hold so many training samples back, the last; null: none")                                  \
    X(VALIDATION_FRACTION, "validation.fraction", FLOAT, "(0,1)", NULL, FIXED,                     \
      "the same as a share of the training samples; null: none")                                   \
    X(VALIDATION_SHUFFLE, "validation.shuffle", BOOL, NULL, "false", FIXED,                        \
      "draw the samples that are held back from all by train.seed, instead of the last")           \
    X(VALIDATION_PATIENCE, "validation.patience", INT, "[1,1000000]", NULL, SAID,                  \
      "stop after so many epochs without a better loss; null: never")                              \
    X(VALIDATION_RESTORE_BEST, "validation.restore_best", BOOL, NULL, "true", SAID,                \
      "with patience: the model ends as it was when its loss was the best; false: as after the "   \
      "last step")                                                                                 \
    X(VALIDATION_EVERY_EPOCHS, "validation.every_epochs", INT, "[1,)", "1", SAID,                  \
      "validate and test after every so many epochs")                                              \
    X(VALIDATION_FLIP, "validation.flip", BOOL, NULL, "false", SAID,                               \
      "validate, test and predict by the mean of what the network answers to an image and to its " \
      "mirror image, left and right; twice the time")                                              \
    X(CHECKPOINT_PATH, "checkpoint.path", STRING, NULL, NULL, FREE,                                \
      "folder of checkpoints; null: none are written")                                             \
    X(CHECKPOINT_RESUME, "checkpoint.resume", BOOL, NULL, "false", FREE,                           \
      "continue from the newest checkpoint, if there is one")                                      \
    X(CHECKPOINT_ACCEPT_CHANGES, "checkpoint.accept_changes", BOOL, NULL, "false", FREE,           \
      "continue although what makes the run is another one than in the checkpoint, such as its "   \
      "data")                                                                                      \
    X(CHECKPOINT_EVERY_EPOCHS, "checkpoint.every_epochs", INT, "[0,)", "1", SAID,                  \
      "save after every so many epochs; 0: never")                                                 \
    X(CHECKPOINT_EVERY_STEPS, "checkpoint.every_steps", INT, "[1,)", NULL, SAID,                   \
      "save after every so many steps too; null: only after epochs")                               \
    X(CHECKPOINT_KEEP, "checkpoint.keep", INT, "[1,1000000]", "2", SAID,                           \
      "newest checkpoints to keep; the best stays too")                                            \
    X(BENCH_CALLS, "bench.calls", INT, "[1,1000000000]", NULL, FREE,                               \
      "of bench --passes: calls of each pass that are timed; null: those of --seconds")            \
    X(BENCH_WARMUP, "bench.warmup", INT, "[0,1000000000]", "20", FREE,                             \
      "of bench --passes: calls of each pass before")                                              \
    X(LOG_INTERVAL, "log.interval", INT, "[1,)", "10", SAID, "batches between lines")              \
    X(LOG_FORMAT, "log.format", CHOICE, "text json csv iterations lightning ddp sc20", "text",     \
      SAID,                                                                                        \
      "text; json: an object for each step and epoch; csv: a line for each; iterations: the loss " \
      "every log.interval steps, and at the end a plot and cost_history.csv; lightning: text "     \
      "that begins as PyTorch Lightning does, with a table of layers; ddp: with settings and "     \
      "ranks, and precision, recall and F1 of each epoch; sc20: speed, time and accuracy in the "  \
      "words of NERSC's tutorial")                                                                 \
    X(LOG_QUIET, "log.quiet", BOOL, NULL, "false", SAID, "print only the last line, the hash")     \
    X(LOG_VERBOSE, "log.verbose", BOOL, NULL, "false", FREE,                                       \
      "say what is opened, chosen, saved, and how long it takes")                                  \
    X(LOG_RECORD, "log.record", STRING, NULL, NULL, SAID,                                          \
      "JSON file for all that is known about the run, kept current after every epoch, and every "  \
      "ten seconds within a long one; null: record.json in checkpoint.path, where that is set")    \
    X(LOG_CSV, "log.csv", STRING, NULL, NULL, FREE,                                                \
      "file for a table with a line for each epoch, kept current; null: none is written")          \
    X(LOG_TENSORBOARD, "log.tensorboard", STRING, NULL, NULL, FREE,                                \
      "folder for event files that TensorBoard shows: curves, and the configuration; true: "       \
      "tensorboard in checkpoint.path; null: none are written")                                    \
    X(LOG_CURVES, "log.curves", CHOICE, "epochs lightning", "epochs", FREE,                        \
      "names in TensorBoard: epochs (loss/train, acc1/valid, learning_rate, over epochs), or "     \
      "lightning (train_loss_epoch, val_loss, over steps); every log.interval steps both have "    \
      "curves of steps")                                                                           \
    X(LOG_HISTOGRAMS, "log.histograms", INT, "[1,)", NULL, FREE,                                   \
      "parameters and gradients in TensorBoard, behind every so many epochs; null: never")         \
    X(LOG_IMAGES, "log.images", INT, "[1,1000]", NULL, FREE,                                       \
      "so many training samples in TensorBoard, as the network saw them in the epoch, behind "     \
      "every epoch; null: none")

#endif
