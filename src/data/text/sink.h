/* Where the bytes of a vocabulary's file go: to disk, or into its hash. */
#ifndef LKI_DATA_TEXT_SINK_H
#define LKI_DATA_TEXT_SINK_H

#include <string.h>

#include "base/file.h"
#include "numeric/hash.h"

enum { LKI_SINK = 4096 };

typedef struct lki_sink {
    lki_writer *writer; /* NULL: the stream */
    lki_hash_stream *stream;
    size_t used;
    lks_status status; /* the first failure; behind it nothing is put */
    char piece[LKI_SINK];
} lki_sink;

static inline void lki_sink_flush(lki_sink *sink)
{
    const size_t bytes = sink->used;
    sink->used = 0;
    if (sink->status != LKS_OK) return;
    if (sink->writer != NULL)
        sink->status = lki_writer_write(sink->writer, sink->piece, bytes);
    else
        lki_hash_stream_add(sink->stream, sink->piece, bytes);
}

static inline void lki_sink_put(lki_sink *sink, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const size_t room = LKI_SINK - sink->used, some = bytes < room ? bytes : room;
        memcpy(sink->piece + sink->used, text, some);
        sink->used += some;
        text += some;
        bytes -= some;
        if (sink->used == LKI_SINK) lki_sink_flush(sink);
    }
}

#endif
