#include "recipe/board/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "recipe/board/record.h"

/* Fields of the messages, as their .proto files number them. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_IMAGE = 4,
    VALUE_HISTOGRAM = 5,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    METADATA_CLASS = 4,
    CLASS_TENSOR = 2,
    PLUGIN_NAME = 1,
    PLUGIN_CONTENT = 2,
    TENSOR_TYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_STRING = 8,
    TYPE_FLOAT = 1,
    TYPE_STRING = 7,
    SHAPE_DIM = 2,
    SESSION_STATUS = 1,
    SESSION_START = 1,
    IMAGE_HEIGHT = 1,
    IMAGE_WIDTH = 2,
    IMAGE_COLORSPACE = 3, /* 1: grey, 3: red, green, blue */
    IMAGE_ENCODED = 4,
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX = 2,
    HISTOGRAM_NUM = 3,
    HISTOGRAM_SUM = 4,
    HISTOGRAM_SQUARES = 5,
    HISTOGRAM_LIMIT = 6,
    HISTOGRAM_COUNT = 7,
    HPARAMS_EXPERIMENT = 2,
    HPARAMS_START = 3,
    HPARAMS_END = 4,
    EXPERIMENT_METRIC = 5,
    METRIC_NAME = 1,
    METRIC_TAG = 2,
    START_HPARAM = 1,
    START_GROUP = 4,
    START_TIME = 5,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    VALUE_NUMBER = 2,
    VALUE_TEXT = 3,
    VALUE_BOOL = 4,
    END_STATUS = 1,
    END_TIME = 2,
    END_SUCCESS = 1,
    END_FAILURE = 2,
};

struct lki_events {
    int descriptor;
    off_t size;       /* of whole records */
    lki_message m;    /* the event that is open, or the record that it becomes */
    size_t summary;   /* where it is open */
    size_t opened[5]; /* of hparams: value, metadata, plugin, content, what it is */
    char path[PATH_MAX];
};

static double wall_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void begin_event(lki_events *events, int64_t step)
{
    events->m.used = 0;
    events->m.failed = false;
    lki_record_begin(&events->m);
    lki_message_double(&events->m, EVENT_WALL_TIME, wall_time());
    if (step != 0) lki_message_int(&events->m, EVENT_STEP, (uint64_t)step);
}

static lks_status write_event(lki_events *events)
{
    lki_message *m = &events->m;
    lki_record_end(m);
    if (m->failed) return LKI_FAIL(LKS_E_NOMEM, "no memory for an event of '%s'", events->path);
    for (size_t done = 0; done < m->used;) {
        const ssize_t wrote = write(events->descriptor, m->data + done, m->used - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) {
            const int error = errno;
            /* What comes next would otherwise stand behind half a record, where nobody finds it. */
            if (done > 0 && ftruncate(events->descriptor, events->size) != 0)
                return lki_fail_io("shorten", events->path, errno);
            return lki_fail_io("write", events->path, error);
        }
        done += (size_t)wrote;
    }
    events->size += (off_t)m->used;
    return LKS_OK;
}

/* "events.out.tfevents.<seconds>.<host>.<process>.<number>.lockstep": one that is not there yet. */
static lks_status create(lki_events *events, const char *folder)
{
    char host[64] = "localhost";
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "localhost");
    for (int i = 0;; i++) {
        const int length = snprintf(events->path, sizeof events->path,
                                    "%s/events.out.tfevents.%lld.%s.%lld.%d" LKI_EVENTS_END, folder,
                                    (long long)time(NULL), host, (long long)getpid(), i);
        if (length < 0 || length >= PATH_MAX) return lki_fail_io("write", folder, ENAMETOOLONG);
        events->descriptor = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
                                  0666);
        if (events->descriptor >= 0) return LKS_OK;
        if (errno != EEXIST) return lki_fail_io("write", events->path, errno);
    }
}

lks_status lki_events_open(lki_events **out, const char *folder, int64_t step)
{
    *out = NULL;
    lki_events *events = calloc(1, sizeof *events);
    if (events == NULL) return LKI_FAIL(LKS_E_NOMEM, "no memory for a file of events");
    events->descriptor = -1;
    lks_status status = create(events, folder);
    if (status == LKS_OK) {
        begin_event(events, 0);
        lki_message_text(&events->m, EVENT_FILE_VERSION, LKI_EVENTS_VERSION);
        status = write_event(events);
    }
    if (status == LKS_OK) {
        begin_event(events, step + 1);
        const size_t log = lki_message_open(&events->m, EVENT_SESSION_LOG);
        lki_message_int(&events->m, SESSION_STATUS, SESSION_START);
        lki_message_close(&events->m, log);
        status = write_event(events);
    }
    if (status != LKS_OK) {
        lki_events_close(events);
        return status;
    }
    *out = events;
    return LKS_OK;
}

void lki_events_close(lki_events *events)
{
    if (events == NULL) return;
    if (events->descriptor >= 0) close(events->descriptor);
    free(events->m.data);
    free(events);
}

void lki_events_begin(lki_events *events, int64_t step)
{
    begin_event(events, step);
    events->summary = lki_message_open(&events->m, EVENT_SUMMARY);
}

lks_status lki_events_end(lki_events *events)
{
    lki_message_close(&events->m, events->summary);
    return write_event(events);
}

static size_t open_value(lki_events *events, const char *tag)
{
    const size_t value = lki_message_open(&events->m, SUMMARY_VALUE);
    lki_message_text(&events->m, VALUE_TAG, tag);
    return value;
}

void lki_events_scalar(lki_events *events, const char *tag, double value)
{
    const size_t opened = open_value(events, tag);
    lki_message_float(&events->m, VALUE_SIMPLE, (float)value);
    lki_message_close(&events->m, opened);
}

/* Which plugin of the viewer shows the value. */
static void open_plugin(lki_events *events, size_t opened[2], const char *name)
{
    opened[0] = lki_message_open(&events->m, VALUE_METADATA);
    lki_message_int(&events->m, METADATA_CLASS, CLASS_TENSOR);
    opened[1] = lki_message_open(&events->m, METADATA_PLUGIN);
    lki_message_text(&events->m, PLUGIN_NAME, name);
}

static void close_plugin(lki_events *events, const size_t opened[2])
{
    lki_message_close(&events->m, opened[1]);
    lki_message_close(&events->m, opened[0]);
}

void lki_events_text(lki_events *events, const char *tag, const char *text)
{
    size_t plugin[2];
    const size_t opened = open_value(events, tag);
    open_plugin(events, plugin, "text");
    close_plugin(events, plugin);
    const size_t tensor = lki_message_open(&events->m, VALUE_TENSOR);
    lki_message_int(&events->m, TENSOR_TYPE, TYPE_STRING);
    lki_message_bytes(&events->m, TENSOR_SHAPE, NULL, 0);
    lki_message_text(&events->m, TENSOR_STRING, text);
    lki_message_close(&events->m, tensor);
    lki_message_close(&events->m, opened);
}

/*
 * Buckets grow by a tenth from 1e-12 to 1e20 on both sides of 0, as TensorFlow's do (histogram.cc), so that
 * gradients and weights of all sizes are seen. Bucket b has the values below its limit that are not below
 * that of b - 1.
 */
enum { SIDE = 775, BUCKETS = 2 * SIDE + 2 };

static void fill_limits(double limit[BUCKETS])
{
    double size = 1e-12;
    limit[SIDE] = 0;
    for (int i = 1; i <= SIDE; i++, size *= 1.1) {
        limit[SIDE + i] = size;
        limit[SIDE - i] = -size;
    }
    limit[BUCKETS - 1] = 1.7976931348623157e308;
}

static int bucket_of(const double limit[BUCKETS], double value)
{
    int low = 0, high = BUCKETS - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (value < limit[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Empty buckets in a row become one. */
static int64_t drop_empty(double limit[BUCKETS], double count[BUCKETS])
{
    int64_t kept = 0;
    for (int i = 0; i < BUCKETS; i++) {
        if (count[i] == 0 && kept > 0 && count[kept - 1] == 0) kept--;
        if (count[i] == 0 && i == BUCKETS - 1) break;
        limit[kept] = limit[i];
        count[kept++] = count[i];
    }
    return kept;
}

void lki_events_histogram(lki_events *events, const char *tag, const float *value, int64_t count)
{
    double limit[BUCKETS], in[BUCKETS] = {0}, least = 0, most = 0, sum = 0, squares = 0;
    int64_t used = 0;
    fill_limits(limit);
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)value[i];
        if (!isfinite(x)) continue;
        least = used == 0 || x < least ? x : least;
        most = used == 0 || x > most ? x : most;
        sum += x;
        squares += x * x;
        in[bucket_of(limit, x)]++;
        used++;
    }
    const int64_t kept = drop_empty(limit, in);
    lki_message *m = &events->m;
    const size_t opened = open_value(events, tag);
    const size_t histogram = lki_message_open(m, VALUE_HISTOGRAM);
    lki_message_double(m, HISTOGRAM_MIN, least);
    lki_message_double(m, HISTOGRAM_MAX, most);
    lki_message_double(m, HISTOGRAM_NUM, (double)used);
    lki_message_double(m, HISTOGRAM_SUM, sum);
    lki_message_double(m, HISTOGRAM_SQUARES, squares);
    lki_message_doubles(m, HISTOGRAM_LIMIT, limit, kept);
    lki_message_doubles(m, HISTOGRAM_COUNT, in, kept);
    lki_message_close(m, histogram);
    lki_message_close(m, opened);
}

void lki_events_image(lki_events *events, const char *tag, int height, int width, int channels,
                      const void *png, size_t bytes)
{
    lki_message *m = &events->m;
    const size_t opened = open_value(events, tag);
    const size_t image = lki_message_open(m, VALUE_IMAGE);
    lki_message_int(m, IMAGE_HEIGHT, (uint64_t)height);
    lki_message_int(m, IMAGE_WIDTH, (uint64_t)width);
    lki_message_int(m, IMAGE_COLORSPACE, (uint64_t)channels);
    lki_message_bytes(m, IMAGE_ENCODED, png, bytes);
    lki_message_close(m, image);
    lki_message_close(m, opened);
}

/* ---------------------------------------------------------------- hyperparameters */

/* The plugin finds all it shows in the metadata of values of certain tags. */
static void open_hparams(lki_events *events, const char *tag, int what)
{
    lki_message *m = &events->m;
    lki_events_begin(events, 0);
    events->opened[0] = open_value(events, tag);
    open_plugin(events, events->opened + 1, "hparams");
    events->opened[3] = lki_message_open(m, PLUGIN_CONTENT);
    events->opened[4] = lki_message_open(m, what);
}

static lks_status close_hparams(lki_events *events)
{
    lki_message *m = &events->m;
    lki_message_close(m, events->opened[4]);
    lki_message_close(m, events->opened[3]);
    close_plugin(events, events->opened + 1);
    const size_t tensor = lki_message_open(m,
                                           VALUE_TENSOR); /* of no numbers: there has to be one */
    lki_message_int(m, TENSOR_TYPE, TYPE_FLOAT);
    const size_t shape = lki_message_open(m, TENSOR_SHAPE);
    lki_message_bytes(m, SHAPE_DIM, NULL, 0);
    lki_message_close(m, shape);
    lki_message_close(m, tensor);
    lki_message_close(m, events->opened[0]);
    return lki_events_end(events);
}

lks_status lki_events_experiment(lki_events *events, const char *const *tag, int count)
{
    lki_message *m = &events->m;
    open_hparams(events, "_hparams_/experiment", HPARAMS_EXPERIMENT);
    for (int i = 0; i < count; i++) {
        const size_t metric = lki_message_open(m, EXPERIMENT_METRIC);
        const size_t name = lki_message_open(m, METRIC_NAME);
        lki_message_text(m, METRIC_TAG, tag[i]);
        lki_message_close(m, name);
        lki_message_close(m, metric);
    }
    return close_hparams(events);
}

void lki_events_hparams_begin(lki_events *events, const char *group)
{
    open_hparams(events, "_hparams_/session_start_info", HPARAMS_START);
    lki_message_text(&events->m, START_GROUP, group);
    lki_message_double(&events->m, START_TIME, wall_time());
}

static void open_hparam(lki_events *events, size_t opened[2], const char *name)
{
    opened[0] = lki_message_open(&events->m, START_HPARAM);
    lki_message_text(&events->m, ENTRY_KEY, name);
    opened[1] = lki_message_open(&events->m, ENTRY_VALUE);
}

static void close_hparam(lki_events *events, const size_t opened[2])
{
    lki_message_close(&events->m, opened[1]);
    lki_message_close(&events->m, opened[0]);
}

void lki_events_hparam_number(lki_events *events, const char *name, double value)
{
    size_t opened[2];
    open_hparam(events, opened, name);
    lki_message_double(&events->m, VALUE_NUMBER, value);
    close_hparam(events, opened);
}

void lki_events_hparam_bool(lki_events *events, const char *name, bool value)
{
    size_t opened[2];
    open_hparam(events, opened, name);
    lki_message_int(&events->m, VALUE_BOOL, value);
    close_hparam(events, opened);
}

void lki_events_hparam_text(lki_events *events, const char *name, const char *value)
{
    size_t opened[2];
    open_hparam(events, opened, name);
    lki_message_text(&events->m, VALUE_TEXT, value);
    close_hparam(events, opened);
}

lks_status lki_events_hparams_end(lki_events *events)
{
    return close_hparams(events);
}

lks_status lki_events_finish(lki_events *events, bool complete)
{
    open_hparams(events, "_hparams_/session_end_info", HPARAMS_END);
    lki_message_int(&events->m, END_STATUS, complete ? END_SUCCESS : END_FAILURE);
    lki_message_double(&events->m, END_TIME, wall_time());
    return close_hparams(events);
}
