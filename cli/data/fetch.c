#include "cli/data/fetch.h"

#include <stddef.h>

#if defined(CLI_HAVE_CURL)

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include <lockstep/status.h>

#include "cli/out/text.h"
#include "cli/process.h"

enum { LEAST_BYTES = 1024, REDIRECTS = 10, HTTP_PARTIAL = 206, HTTP_RANGE = 416 };

struct cli_fetch {
    CURLcode (*global_init)(long);
    void (*global_cleanup)(void);
    CURL *(*init)(void);
    void (*cleanup)(CURL *);
    CURLcode (*setopt)(CURL *, CURLoption, ...);
    CURLcode (*perform)(CURL *);
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    const char *(*error_text)(CURLcode);
    char *(*version)(void);
    void *loaded;
    bool begun; /* global_init succeeded */
};

static const struct symbol {
    const char *name;
    size_t offset; /* of its pointer */
} symbols[] = {
    {"curl_global_init", offsetof(cli_fetch, global_init)},
    {"curl_global_cleanup", offsetof(cli_fetch, global_cleanup)},
    {"curl_easy_init", offsetof(cli_fetch, init)},
    {"curl_easy_cleanup", offsetof(cli_fetch, cleanup)},
    {"curl_easy_setopt", offsetof(cli_fetch, setopt)},
    {"curl_easy_perform", offsetof(cli_fetch, perform)},
    {"curl_easy_getinfo", offsetof(cli_fetch, getinfo)},
    {"curl_easy_strerror", offsetof(cli_fetch, error_text)},
    {"curl_version", offsetof(cli_fetch, version)},
};

static lks_status no_library(const char *why)
{
    return lks_fail(LKS_E_IO,
                    "downloading needs libcurl, which could not be loaded (%.200s); install it (on "
                    "Debian: apt-get install libcurl4)",
                    why);
}

/* Debian has it once for each library of TLS; any will do. */
static lks_status fetch_load_library(cli_fetch *fetch)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};
    char why[200] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names && fetch->loaded == NULL; i++) {
        fetch->loaded = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (fetch->loaded == NULL && i == 0) snprintf(why, sizeof why, "%s", dlerror());
    }
    if (fetch->loaded == NULL) return no_library(why);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(fetch->loaded, symbols[i].name);
        if (symbol == NULL) return no_library(dlerror());
        memcpy((char *)fetch + symbols[i].offset, &symbol, sizeof symbol);
    }
    fetch->begun = fetch->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    return fetch->begun ? LKS_OK : no_library("curl_global_init failed");
}

lks_status fetch_open(cli_fetch **out)
{
    cli_fetch *fetch = calloc(1, sizeof *fetch);
    *out = NULL;
    if (fetch == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for a download");
    const lks_status status = fetch_load_library(fetch);
    if (status != LKS_OK)
        fetch_close(fetch);
    else
        *out = fetch;
    return status;
}

void fetch_close(cli_fetch *fetch)
{
    if (fetch == NULL) return;
    /* It stays loaded: the libraries under it do not all survive being unloaded. */
    if (fetch->begun) fetch->global_cleanup();
    free(fetch);
}

const char *fetch_version(const cli_fetch *fetch)
{
    return fetch->version();
}

typedef struct transfer {
    const cli_fetch *fetch;
    const fetch_request *request;
    CURL *handle;
    int64_t start;    /* bytes that were there */
    int64_t have;     /* and are now */
    bool answered;    /* the first bytes have come */
    bool impatient;   /* stopped for that */
    bool too_long;    /* stopped for that */
    bool failed;      /* the file could not be written */
    double mark_time; /* since when `mark_have` counts */
    int64_t mark_have;
} transfer;

static fetch_end cannot_write(void)
{
    (void)!lks_fail(LKS_E_IO, "what is downloaded cannot be written: %s", strerror(errno));
    return FETCH_FAILED;
}

/* libcurl has `count` more bytes; to return less stops it. */
static size_t fetch_take(char *data, size_t one, size_t count, void *user)
{
    transfer *t = user;
    const size_t bytes = one * count;
    if (!t->answered) {
        long code = 0;
        t->answered = true;
        t->fetch->getinfo(t->handle, CURLINFO_RESPONSE_CODE, &code);
        if (t->start > 0 && code != HTTP_PARTIAL) { /* the whole file all the same */
            t->failed = ftruncate(t->request->file, 0) != 0;
            t->have = t->start = 0;
        }
    }
    if ((int64_t)bytes > t->request->bytes - t->have) {
        t->too_long = true;
        return 0;
    }
    for (size_t done = 0; done < bytes && !t->failed;) {
        const ssize_t written = write(t->request->file, data + done, bytes - done);
        if (written < 0 && errno == EINTR) continue;
        t->failed = written < 0;
        if (t->failed) break;
        done += (size_t)written;
        t->have += written;
    }
    if (!t->failed) return bytes;
    (void)cannot_write();
    return 0;
}

/* Called by libcurl at least once a second, also while nothing arrives. Not 0 stops it. */
static int watch(void *user, curl_off_t total, curl_off_t now, curl_off_t up, curl_off_t up_now)
{
    transfer *t = user;
    (void)total, (void)now, (void)up, (void)up_now;
    t->request->progress(t->request->user, t->have);
    const double clock = process_clock();
    if (t->have - t->mark_have >= LEAST_BYTES) {
        t->mark_have = t->have;
        t->mark_time = clock;
    }
    t->impatient = clock - t->mark_time > t->request->patience;
    return t->impatient;
}

static CURLcode perform(transfer *t, char error[CURL_ERROR_SIZE])
{
    const cli_fetch *f = t->fetch;
    char range[32];
    snprintf(range, sizeof range, "%" PRId64 "-", t->start);
    const long patience = (long)(1000 * t->request->patience) + 1;
    CURLcode code = CURLE_OK;
#define SET(option, value)                                                                         \
    if (code == CURLE_OK) code = f->setopt(t->handle, option, value)
    SET(CURLOPT_ERRORBUFFER, error);
    SET(CURLOPT_URL, t->request->address);
    SET(CURLOPT_USERAGENT, "lockstep");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_FAILONERROR, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)REDIRECTS);
    SET(CURLOPT_CONNECTTIMEOUT_MS, patience);
    SET(CURLOPT_WRITEFUNCTION, fetch_take);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_XFERINFOFUNCTION, watch);
    SET(CURLOPT_XFERINFODATA, t);
    SET(CURLOPT_NOPROGRESS, 0L);
    if (t->start > 0) SET(CURLOPT_RANGE, range);
#undef SET
    return code == CURLE_OK ? f->perform(t->handle) : code;
}

static bool may_go_on(CURLcode code)
{
    return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_GOT_NOTHING || code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM;
}

/* What the end of a transfer means. */
static fetch_end fetch_judge(const transfer *t, CURLcode code, const char *error, long answer,
                             char reason[FETCH_REASON])
{
    const int64_t bytes = t->request->bytes;
    if (t->failed) return FETCH_FAILED;
    if (t->too_long) {
        snprintf(reason, FETCH_REASON, "it sends more than the %" PRId64 " byte%s of the file",
                 bytes, TEXT_S(bytes));
        return FETCH_WRONG;
    }
    if (code == CURLE_OK && t->have == bytes) return FETCH_DONE;
    if (code == CURLE_OK) {
        snprintf(reason, FETCH_REASON, "it sends %" PRId64 " byte%s, but the file has %" PRId64,
                 t->have, TEXT_S(t->have), bytes);
        return FETCH_WRONG;
    }
    if (t->impatient) {
        snprintf(reason, FETCH_REASON, "nothing came for %g second%s", t->request->patience,
                 TEXT_S(t->request->patience));
        return FETCH_BROKEN;
    }
    if (code == CURLE_HTTP_RETURNED_ERROR) {
        snprintf(reason, FETCH_REASON, "the server answers with error %ld", answer);
        return FETCH_REFUSED;
    }
    snprintf(reason, FETCH_REASON, "%s", *error != '\0' ? error : t->fetch->error_text(code));
    return may_go_on(code) ? FETCH_BROKEN : FETCH_REFUSED;
}

static fetch_end run_from(cli_fetch *fetch, const fetch_request *request, int64_t start,
                          long *answer, char reason[FETCH_REASON])
{
    char error[CURL_ERROR_SIZE] = "";
    transfer t = {.fetch = fetch,
                  .request = request,
                  .handle = fetch->init(),
                  .start = start,
                  .have = start,
                  .mark_time = process_clock(),
                  .mark_have = start};
    if (t.handle == NULL) {
        snprintf(reason, FETCH_REASON, "libcurl has no memory");
        return FETCH_REFUSED;
    }
    const CURLcode code = perform(&t, error);
    fetch->getinfo(t.handle, CURLINFO_RESPONSE_CODE, answer);
    fetch->cleanup(t.handle);
    return fetch_judge(&t, code, error, *answer, reason);
}

fetch_end fetch_run(cli_fetch *fetch, const fetch_request *request, char reason[FETCH_REASON])
{
    struct stat info;
    long answer = 0;
    *reason = '\0';
    if (fstat(request->file, &info) != 0) return cannot_write();
    fetch_end end = run_from(fetch, request, info.st_size, &answer, reason);
    if (end != FETCH_REFUSED || info.st_size == 0 || answer != HTTP_RANGE) return end;
    /* It has no such part: its file is another one, or it cannot send parts. */
    if (ftruncate(request->file, 0) != 0) return cannot_write();
    return run_from(fetch, request, 0, &answer, reason);
}

#else

lks_status fetch_open(cli_fetch **out)
{
    *out = NULL;
    return lks_fail(LKS_E_UNSUPPORTED,
                    "this program was built without libcurl and cannot download; install its "
                    "header (on Debian: apt-get install libcurl4-openssl-dev), then configure and "
                    "build again");
}

const char *fetch_version(const cli_fetch *fetch)
{
    (void)fetch;
    return "";
}

void fetch_close(cli_fetch *fetch)
{
    (void)fetch;
}

fetch_end fetch_run(cli_fetch *fetch, const fetch_request *request, char reason[FETCH_REASON])
{
    (void)fetch;
    (void)request;
    *reason = '\0';
    return FETCH_REFUSED;
}

#endif
