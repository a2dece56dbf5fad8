#include "cli/meet/wire.h"

#include <string.h>

/* The most that the body of each type may have. */
static const size_t limits[WIRE_TYPES] = {
    [WIRE_HELLO] = WIRE_RANDOM,
    [WIRE_CHALLENGE] = WIRE_RANDOM + WIRE_PROOF,
    [WIRE_PROVE] = WIRE_PROOF,
    [WIRE_JOIN] = 1024 + 16,
    [WIRE_WELCOME] = 16,
    [WIRE_REFUSE] = 1024,
    [WIRE_START] = WIRE_BODY,
    [WIRE_SAID] = 5 + WIRE_OUTPUT,
    [WIRE_ENDED] = 8,
    [WIRE_STOP] = 8,
    [WIRE_BEAT] = 0,
    [WIRE_BYE] = 4,
};

bool wire_is_sealed(wire_type type)
{
    return type > WIRE_PROVE;
}

bool wire_header_read(wire_type *type, size_t *length, const uint8_t header[WIRE_HEADER],
                      bool sealed)
{
    const size_t found = (size_t)header[4] << 24 | (size_t)header[5] << 16 |
                         (size_t)header[6] << 8 | (size_t)header[7];
    if (header[0] != 'L' || header[1] != 'K' || header[2] != WIRE_VERSION) return false;
    if (header[3] < WIRE_HELLO || header[3] >= WIRE_TYPES) return false;
    *type = (wire_type)header[3];
    *length = found;
    if (wire_is_sealed(*type) != sealed) return false;
    return sealed ? found >= WIRE_TAG && found - WIRE_TAG <= limits[*type] : found == limits[*type];
}

void wire_header_write(uint8_t header[WIRE_HEADER], wire_type type, size_t length)
{
    const uint8_t bytes[WIRE_HEADER] = {'L',
                                        'K',
                                        WIRE_VERSION,
                                        (uint8_t)type,
                                        (uint8_t)(length >> 24),
                                        (uint8_t)(length >> 16),
                                        (uint8_t)(length >> 8),
                                        (uint8_t)length};
    memcpy(header, bytes, sizeof bytes);
}

/* One walk over the fields both writes and reads them, so that the two cannot differ. */
typedef struct walk {
    uint8_t *out;      /* NULL: it reads */
    const uint8_t *in; /* and this is where it reads from */
    size_t at, end;
    bool bad;
    char *words; /* where read words go; */
    size_t room; /* how much fits there */
} walk;

static bool walk_room(walk *w, size_t count)
{
    w->bad |= w->end - w->at < count;
    return !w->bad;
}

static void walk_bytes(walk *w, void *bytes, size_t count)
{
    if (!walk_room(w, count)) return;
    if (w->out != NULL)
        memcpy(w->out + w->at, bytes, count);
    else
        memcpy(bytes, w->in + w->at, count);
    w->at += count;
}

static void walk_u8(walk *w, uint8_t *number)
{
    walk_bytes(w, number, 1);
}

static void walk_u16(walk *w, uint16_t *number)
{
    uint8_t bytes[2] = {(uint8_t)(*number >> 8), (uint8_t)*number};
    walk_bytes(w, bytes, 2);
    *number = (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static void walk_i32(walk *w, int32_t *number)
{
    const uint32_t bits = (uint32_t)*number;
    uint8_t bytes[4] = {(uint8_t)(bits >> 24), (uint8_t)(bits >> 16), (uint8_t)(bits >> 8),
                        (uint8_t)bits};
    walk_bytes(w, bytes, 4);
    const uint32_t found = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
                           (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
    memcpy(number, &found, sizeof found);
}

/* Without control characters, which is why a 0 can stand behind it. */
static bool is_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127) return false;
    return true;
}

static void walk_text(walk *w, char *text, size_t size)
{
    uint16_t length = 0;
    if (w->out != NULL) length = (uint16_t)strnlen(text, size);
    walk_u16(w, &length);
    if (w->bad) return;
    w->bad = length >= size || (w->out != NULL && !is_text(text, length));
    if (w->bad) return;
    walk_bytes(w, text, length);
    if (w->out != NULL) return;
    text[w->bad ? 0 : length] = '\0';
    w->bad |= !is_text(text, length);
}

static void walk_words(walk *w, wire_message *m)
{
    const char *from = m->list;
    char *to = w->words;
    walk_u16(w, &m->words);
    if (w->out == NULL) m->list = w->words;
    for (int i = 0; i < m->words && !w->bad; i++) {
        uint16_t length = 0;
        if (w->out != NULL) {
            const size_t found = strlen(from);
            w->bad |= found > UINT16_MAX || !is_text(from, found);
            length = (uint16_t)found;
        }
        walk_u16(w, &length);
        if (!walk_room(w, length)) return;
        if (w->out != NULL) {
            memcpy(w->out + w->at, from, length);
            from += length + 1;
        } else {
            w->bad = (size_t)(to - w->words) + length + 1 > w->room ||
                     !is_text((const char *)w->in + w->at, length);
            if (w->bad) return;
            memcpy(to, w->in + w->at, length);
            to[length] = '\0';
            to += length + 1;
        }
        w->at += length;
    }
}

static void walk_output(walk *w, wire_message *m)
{
    walk_i32(w, &m->number);
    walk_u8(w, &m->stream);
    w->bad |= m->stream != 1 && m->stream != 2;
    if (w->bad) return;
    if (w->out == NULL) {
        m->output = w->in + w->at;
        m->output_bytes = w->end - w->at;
        w->at = w->end;
    } else if (walk_room(w, m->output_bytes)) {
        if (m->output_bytes > 0) memcpy(w->out + w->at, m->output, m->output_bytes);
        w->at += m->output_bytes;
    }
}

static void walk_join(walk *w, wire_message *m)
{
    char *const texts[] = {m->id, m->version, m->host, m->starter};
    int32_t *const numbers[] = {&m->node, &m->nodes, &m->ranks, &m->process};
    for (int i = 0; i < 4; i++) walk_text(w, texts[i], WIRE_TEXT);
    for (int i = 0; i < 4; i++) walk_i32(w, numbers[i]);
    w->bad |= m->node < -1 || m->nodes < 1 || m->ranks < 1;
}

static void walk_welcome(walk *w, wire_message *m)
{
    int32_t *const numbers[] = {&m->node, &m->nodes, &m->first, &m->ranks};
    for (int i = 0; i < 4; i++) walk_i32(w, numbers[i]);
    w->bad |= m->node < 0 || m->node >= m->nodes || m->first < 0 || m->first >= m->ranks;
}

static void walk_message(walk *w, wire_message *m)
{
    switch (m->type) {
    case WIRE_HELLO:
        walk_bytes(w, m->random, WIRE_RANDOM);
        return;
    case WIRE_CHALLENGE:
        walk_bytes(w, m->random, WIRE_RANDOM);
        walk_bytes(w, m->proof, WIRE_PROOF);
        return;
    case WIRE_PROVE:
        walk_bytes(w, m->proof, WIRE_PROOF);
        return;
    case WIRE_JOIN:
        walk_join(w, m);
        return;
    case WIRE_WELCOME:
        walk_welcome(w, m);
        return;
    case WIRE_REFUSE:
        walk_u8(w, &m->reason);
        walk_text(w, m->text, WIRE_TEXT);
        w->bad |= m->reason < 1 || m->reason >= WIRE_REASONS;
        return;
    case WIRE_START:
        walk_i32(w, &m->number);
        walk_text(w, m->text, WIRE_TEXT);
        walk_words(w, m);
        return;
    case WIRE_SAID:
        walk_output(w, m);
        return;
    case WIRE_ENDED:
        walk_i32(w, &m->number);
        walk_i32(w, &m->code);
        return;
    case WIRE_STOP:
        walk_i32(w, &m->number);
        walk_i32(w, &m->signal);
        w->bad |= m->signal < 1 || m->signal > 64;
        return;
    case WIRE_BEAT:
        return;
    case WIRE_BYE:
        walk_i32(w, &m->code);
        return;
    case WIRE_TYPES:
        break;
    }
    w->bad = true;
}

size_t wire_write(uint8_t *body, size_t room, const wire_message *message, bool *good)
{
    wire_message copy = *message;
    const bool known = copy.type >= WIRE_HELLO && copy.type < WIRE_TYPES;
    const size_t limit = known ? limits[copy.type] : 0;
    walk w = {.out = body, .end = room < limit ? room : limit, .bad = !known};
    if (known) walk_message(&w, &copy);
    *good = !w.bad;
    return w.bad ? 0 : w.at;
}

bool wire_read(wire_message *out, wire_type type, const uint8_t *body, size_t length, char *words)
{
    *out = (wire_message){.type = type};
    if (type < WIRE_HELLO || type >= WIRE_TYPES || length > limits[type]) return false;
    walk w = {.in = body, .end = length, .words = words, .room = WIRE_BODY};
    walk_message(&w, out);
    return !w.bad && w.at == w.end;
}
