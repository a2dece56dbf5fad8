/* What mpiexec starts in ssh's place: it hands its command to the leader, which sends it to the node. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/meet/meet.h"

bool reach_is_daemon(const char *name)
{
    static const char *const names[] = {"orted", "prted", "hydra_pmi_proxy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* The next word of a line as a shell has it, without what a shell would expand; false: there is none. */
static bool next_word(const char **line, char *word, size_t size)
{
    const char *at = *line;
    size_t used = 0;
    char quote = '\0';
    while (*at == ' ' || *at == '\t' || *at == ';') at++;
    *line = at;
    if (*at == '\0') return false;
    for (; *at != '\0' && (quote != '\0' || (*at != ' ' && *at != '\t' && *at != ';')); at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
            continue;
        }
        if (*at == quote) {
            quote = '\0';
            continue;
        }
        if (*at == '\\' && quote != '\'' && at[1] != '\0') at++;
        if (used + 1 >= size) return false;
        word[used++] = *at;
    }
    word[used] = '\0';
    if (quote != '\0') return false;
    *line = at;
    return true;
}

bool reach_parse(char *name, size_t size, char *words, size_t room, uint16_t *count,
                 const char *line)
{
    char word[4096];
    size_t used = 0;
    bool begun = false;
    *count = 0;
    while (next_word(&line, word, sizeof word)) {
        if (!begun) { /* variables may be set before */
            const char *slash = strrchr(word, '/'), *base = slash != NULL ? slash + 1 : word;
            begun = reach_is_daemon(base);
            if (begun) snprintf(name, size, "%s", base);
            continue;
        }
        const size_t length = strlen(word) + 1;
        if (used + length > room || *count == UINT16_MAX) return false;
        memcpy(words + used, word, length);
        used += length;
        ++*count;
    }
    return begun && *line == '\0';
}

bool reach_write(int fd, int type, const void *bytes, size_t count)
{
    char head[5] = {(char)type};
    const uint32_t length = (uint32_t)count;
    memcpy(head + 1, &length, sizeof length);
    if (send(fd, head, sizeof head, MSG_NOSIGNAL) != (ssize_t)sizeof head) return false;
    for (const char *at = bytes; count > 0;) {
        const ssize_t done = send(fd, at, count, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += done;
        count -= (size_t)done;
    }
    return true;
}

static bool read_all(int fd, void *bytes, size_t count)
{
    for (char *at = bytes; count > 0;) {
        const ssize_t done = recv(fd, at, count, 0);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += done;
        count -= (size_t)done;
    }
    return true;
}

bool reach_read(int fd, int *type, void *bytes, size_t room, size_t *count)
{
    char head[5];
    uint32_t length;
    if (!read_all(fd, head, sizeof head)) return false;
    memcpy(&length, head + 1, sizeof length);
    *type = head[0];
    *count = length;
    return length <= room && read_all(fd, bytes, length);
}

/* The leader's socket lies beside the name by which this was called. */
bool reach_is_called(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash != NULL && strcmp(slash, "/reach") == 0;
}

static int connect_leader(const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const int length = (int)(strrchr(name, '/') - name);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%.*s/socket", length, name);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) return -1;
    return fd;
}

int reach_main(int argc, char **argv)
{
    enum { NOT_REACHED = 255 };
    static char line[WIRE_BODY], bytes[WIRE_OUTPUT + 1];
    size_t used = 0, count;
    int first = 1, type;
    bool fits = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (first < argc && argv[first][0] == '-') first++;
    /* The host, and behind the end of its name the line for a shell. */
    for (int i = first; i < argc && fits; i++) {
        const size_t length = strlen(argv[i]);
        fits = used + length + 2 < sizeof line;
        if (!fits) break;
        memcpy(line + used, argv[i], length);
        line[used + length] = i == first ? '\0' : ' ';
        used += length + 1;
    }
    line[used++] = '\0';
    const int fd = argc > first + 1 && fits ? connect_leader(argv[0]) : -1;
    if (fd < 0 || !reach_write(fd, REACH_START, line, used)) {
        say_error("there is no rendezvous that could start '%s'", argc > first ? argv[first] : "");
        return NOT_REACHED;
    }
    while (reach_read(fd, &type, bytes, sizeof bytes, &count)) {
        if (type == REACH_ENDED && count == sizeof(int32_t)) {
            int32_t code;
            memcpy(&code, bytes, sizeof code);
            return code < 0 ? 128 - code : code;
        }
        if (write(type == REACH_OUTPUT ? STDOUT_FILENO : STDERR_FILENO, bytes, count) < 0) break;
    }
    return NOT_REACHED;
}
