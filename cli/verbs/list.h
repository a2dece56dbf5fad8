/*
 * Every verb, once, in the order of help: its name, operands as help prints them, least and most of these,
 * what it does. Its bit for the options that it takes (VERB_<ID>), the declaration of what does it
 * (verb_<name>()), parser, help, manual page and completion follow from this list.
 *
 * X(ID, name, operands, least, most, summary)
 */
#ifndef CLI_VERBS_LIST_H
#define CLI_VERBS_LIST_H

#define CLI_VERB_LIST(X)                                                                           \
    X(TRAIN, train, "CONFIG", 1, 1, "train the network of a configuration")                        \
    X(EVAL, eval, "CONFIG [PNG]", 1, 2,                                                            \
      "loss and accuracy of saved weights, on the test set or another --split")                    \
    X(PREDICT, predict, "CONFIG", 1, 1, "class and probability of each sample, by saved weights")  \
    X(SAMPLE, sample, "CHECKPOINT", 1, 1,                                                          \
      "text of a network that was trained on text, token by token as it is made; CHECKPOINT: the " \
      "folder of a training, or one of its files")                                                 \
    X(INFO, info, "CONFIG|NETWORK|CHECKPOINT", 0, 1,                                               \
      "the layers of a network, of a configuration or by name; or what is in a checkpoint or a "   \
      "safetensors file")                                                                          \
    X(DATA, data, "NAME | show|check|stats|vocabulary WHAT | pack DIR | shard X Y | columns", 1,   \
      3,                                                                                           \
      "get a data set, digits, mnist, fashion, cifar10 or cifar100: digits are drawn and written " \
      "to --out as IDX files, the others downloaded; or see one (WHAT: a name, a folder, a "       \
      "configuration): show samples, check its files, or count its values and classes; or pack "   \
      "JPEG and PNG files of your own to train on (DIR: a folder with a folder for each "          \
      "class, or with such ones in train and val, or a CSV file of files and classes); or cut "    \
      "two large .npy files or datasets of HDF5 files (x.h5:/x), "                                 \
      "samples X and targets Y, into shards, or write the vocabulary of a text to --out, or draw " \
      "columns of air with the radiation through them")                                            \
    X(VERIFY, verify, "CONFIG", 1, 1,                                                              \
      "train with several numbers of workers and compare the bits: of parameters, buffers "        \
      "and averages, not of the optimizer's state, which shows in them a step later")              \
    X(COMPARE, compare, "A B", 2, 2,                                                               \
      "the first step, tensor and element in which two records, checkpoints or safetensors "       \
      "files differ")                                                                              \
    X(REPORT, report, "RUN...", 1, RUNS_MOST,                                                      \
      "trainings side by side, by their records or folders: a table, what differs in their "       \
      "configurations, and curves")                                                                \
    X(WATCH, watch, "RUN|DIR", 1, 1,                                                               \
      "how a training, or each one of a folder, is doing: epoch, time left, speed, memory and "    \
      "curves, by the record that "                                                                \
      "it writes behind every epoch (train --out, --record) or the lines of train --format json; " \
      "on a "                                                                                      \
      "terminal drawn anew as they grow, until the run ends or Ctrl-C")                            \
    X(PS, ps, "", 0, 0,                                                                            \
      "your trainings on this host, or on others, rank by rank: step, speed, memory")              \
    X(STOP, stop, "RUN", 1, 1,                                                                     \
      "end one training, as Ctrl-C does: after the step, and saved with --out; RUN: its number, "  \
      "as ps shows it, or its folder")                                                             \
    X(DOCTOR, doctor, "", 0, 0,                                                                    \
      "what this machine gives a training, what would be slow or wrong, and what to do "           \
      "about it")                                                                                  \
    X(BENCH, bench, "CONFIG", 1, 1,                                                                \
      "how fast a configuration trains, and where the time of a step goes")                        \
    X(FIND, find, "lr|batch CONFIG", 2, 2,                                                         \
      "values for a configuration: the learning rate, by a sweep over many, or the batch size, "   \
      "by "                                                                                        \
      "memory and speed of each")                                                                  \
    X(SWEEP, sweep, "CONFIG", 1, 1,                                                                \
      "a training for every point of a grid of settings, several at once where there are cores, "  \
      "and their report; the same command goes on where it was stopped")                           \
    X(OP, op, "LINE", 1, 64,                                                                       \
      "one operation alone, such as 'conv2d filters=32 kernel=3 in=8x28x28x1' (samples x "         \
      "shape): checked against device ref, and timed")                                             \
    X(LAUNCH, launch, "VERB ...", 1, 1 << 30,                                                      \
      "run a verb as several processes, the ranks, that train one model together: by srun "        \
      "inside a Slurm allocation, else by mpiexec; words behind the verb are the ranks'")          \
    X(SLURM, slurm, "CONFIG [-- OPTIONS]", 1, 1 << 30,                                             \
      "print the script of a Slurm job that trains on its nodes, and is queued again when its "    \
      "time is up; options behind -- are train's")

#endif
