/*
 * Event files as TensorBoard reads them: records, each with its length and two checksums, of messages
 * of Protocol Buffers (tensorflow/core/lib/io/record_writer.h; event.proto, summary.proto and
 * plugins/hparams/plugin_data.proto of TensorBoard). A record is appended whole by one call of the system, so
 * that what a killed process leaves is whole records and at most one that is cut off, which readers drop.
 */
#ifndef LKI_RECIPE_BOARD_EVENTS_H
#define LKI_RECIPE_BOARD_EVENTS_H

#include <lockstep/status.h>

#include "recipe/board/message.h"

typedef struct lki_events lki_events;

/* A new file in a folder that is there, for what comes behind `step`: a viewer that shows the folder drops
 * what it has of later steps. */
LKS_MUSTUSE lks_status lki_events_open(lki_events **out, const char *folder, int64_t step);
void lki_events_close(lki_events *events); /* NULL is fine */

/* An event: begin, what it has, end, which writes it. Behind a failure the file is as it was before. */
void lki_events_begin(lki_events *events, int64_t step);
LKS_MUSTUSE lks_status lki_events_end(lki_events *events);
void lki_events_scalar(lki_events *events, const char *tag, double value);
/* Values that are not finite are left out. */
void lki_events_histogram(lki_events *events, const char *tag, const float *value, int64_t count);
/* A PNG file. */
void lki_events_image(lki_events *events, const char *tag, int height, int width, int channels,
                      const void *png, size_t bytes);
/* Markdown. */
void lki_events_text(lki_events *events, const char *tag, const char *text);

/* Of the hyperparameters: a table of runs, with columns for the scalars of these tags; this run's values, set
 * in between; and, at its end, that it has ended. Each is an event of its own. */
LKS_MUSTUSE lks_status lki_events_experiment(lki_events *events, const char *const *tag, int count);
void lki_events_hparams_begin(lki_events *events, const char *group);
void lki_events_hparam_number(lki_events *events, const char *name, double value);
void lki_events_hparam_bool(lki_events *events, const char *name, bool value);
void lki_events_hparam_text(lki_events *events, const char *name, const char *value);
LKS_MUSTUSE lks_status lki_events_hparams_end(lki_events *events);
LKS_MUSTUSE lks_status lki_events_finish(lki_events *events, bool complete);

/* Cuts off what lki_events_open()'s files in the folder have of steps behind this one, and records that are
 * not whole. Those of others stay as they are. */
LKS_MUSTUSE lks_status lki_events_cut(const char *folder, int64_t step);
/* Of such a file the bytes before the first record that is later than `step`, or not whole; 0: it is none. */
size_t lki_events_keep(const uint8_t *data, size_t bytes, int64_t step);

#endif
