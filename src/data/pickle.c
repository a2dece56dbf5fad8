/* The opcodes are those of Python's pickletools, protocols 2 to 5. */
#include "data/pickle_value.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* A file of CIFAR-100 has 200,000 values; more than this many are not believed. */
enum { MOST_VALUES = 1 << 20, FIRST_ROOM = 16 };

typedef enum class { RECONSTRUCT, NDARRAY, DTYPE_CLASS } class;

static const lki_pickle_value none = {.kind = LKI_PICKLE_NONE}, mark = {.kind = LKI_PICKLE_MARK};

typedef struct machine {
    lki_arena *arena;
    const char *path;
    const uint8_t *data;
    size_t bytes, at, op_at; /* where it reads, and where the opcode is */
    lki_pickle_list stack, memo;
    int64_t values;
} machine;

/* ---------------------------------------------------------------- the machine */

static lks_status pickle_refuse(const machine *m, const char *found)
{
    return LKI_FAIL(
        LKS_E_FORMAT,
        "'%s': at byte %zu of the pickle there is %s, expected only a dictionary with arrays of "
        "bytes and lists, as CIFAR's Python version has; it is damaged or another file (nothing "
        "in it is executed)",
        m->path, m->op_at, found);
}

static lks_status pickle_take(machine *m, size_t count, const uint8_t **out)
{
    *out = m->data + m->at;
    if (count > m->bytes - m->at)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s': the pickle ends too early, after %zu byte%s; it is truncated, copy or "
            "download it again",
            m->path, m->bytes, LKI_S(m->bytes));
    m->at += count;
    return LKS_OK;
}

/* A little-endian number of up to 8 bytes. */
static lks_status pickle_number(machine *m, size_t bytes, uint64_t *out)
{
    const uint8_t *b;
    *out = 0;
    LKI_TRY(pickle_take(m, bytes, &b));
    for (size_t i = bytes; i-- > 0;) *out = *out << 8 | b[i];
    return LKS_OK;
}

static lks_status pickle_append(machine *m, lki_pickle_list *to, const lki_pickle_value *value)
{
    if (to->count == to->room) {
        void *memory;
        const size_t room = to->room > 0 ? 2 * to->room : FIRST_ROOM;
        LKI_TRY(lki_arena_alloc(m->arena, &memory, room * sizeof *to->at, "a pickle"));
        if (to->count > 0) memcpy(memory, to->at, to->count * sizeof *to->at);
        to->at = memory;
        to->room = room;
    }
    to->at[to->count++] = value;
    return LKS_OK;
}

static lks_status pickle_push(machine *m, const lki_pickle_value *value)
{
    return pickle_append(m, &m->stack, value);
}

/* A new value on the stack. */
static lks_status pickle_make(machine *m, lki_pickle_kind kind, lki_pickle_value **out)
{
    void *memory;
    if (++m->values > MOST_VALUES) return pickle_refuse(m, "more than a million values");
    LKI_TRY(lki_arena_alloc(m->arena, &memory, sizeof **out, "a pickle"));
    *out = memory;
    (*out)->kind = kind;
    return pickle_push(m, *out);
}

/* What is on top is of this kind, and taken off. */
static lks_status pickle_pop(machine *m, const lki_pickle_value **out)
{
    if (m->stack.count == 0 || m->stack.at[m->stack.count - 1]->kind == LKI_PICKLE_MARK)
        return pickle_refuse(m, "an instruction without what it needs");
    *out = m->stack.at[--m->stack.count];
    return LKS_OK;
}

/* Everything above the last mark, which goes too: count values at `from`, valid until the next push. */
static lks_status pickle_pop_marked(machine *m, const lki_pickle_value ***from, size_t *count)
{
    size_t first = m->stack.count;
    while (first > 0 && m->stack.at[first - 1]->kind != LKI_PICKLE_MARK) first--;
    if (first == 0) return pickle_refuse(m, "an instruction without its mark");
    *from = m->stack.at + first;
    *count = m->stack.count - first;
    m->stack.count = first - 1;
    return LKS_OK;
}

/* The container on top of the stack, which is this machine's own to change. */
static lks_status pickle_top(machine *m, lki_pickle_kind kind, lki_pickle_value **out)
{
    const size_t count = m->stack.count;
    *out = count > 0 ? (lki_pickle_value *)(uintptr_t)m->stack.at[count - 1] : NULL;
    if (*out == NULL || (*out)->kind != kind)
        return pickle_refuse(m, "something put into what cannot hold it");
    return LKS_OK;
}

/* ---------------------------------------------------------------- opcodes */

static lks_status pickle_integer(machine *m, size_t bytes, bool is_signed)
{
    lki_pickle_value *value;
    uint64_t read;
    LKI_TRY(pickle_number(m, bytes, &read));
    LKI_TRY(pickle_make(m, LKI_PICKLE_INTEGER, &value));
    value->number = is_signed ? (int64_t)(int32_t)(uint32_t)read : (int64_t)read;
    return LKS_OK;
}

/* A text with its length before it. */
static lks_status pickle_text(machine *m, size_t length_bytes)
{
    lki_pickle_value *value;
    uint64_t size;
    const uint8_t *bytes;
    LKI_TRY(pickle_number(m, length_bytes, &size));
    if (size > SIZE_MAX / 2) size = SIZE_MAX / 2; /* more than is left in any case */
    LKI_TRY(pickle_take(m, (size_t)size, &bytes));
    LKI_TRY(pickle_make(m, LKI_PICKLE_TEXT, &value));
    value->bytes = bytes;
    value->size = (size_t)size;
    return LKS_OK;
}

static lks_status pickle_tuple(machine *m, size_t count)
{
    const lki_pickle_value *item[3];
    lki_pickle_value *value;
    for (size_t i = count; i-- > 0;) LKI_TRY(pickle_pop(m, &item[i]));
    LKI_TRY(pickle_make(m, LKI_PICKLE_TUPLE, &value));
    for (size_t i = 0; i < count; i++) LKI_TRY(pickle_append(m, &value->items, item[i]));
    return LKS_OK;
}

static lks_status pickle_marked_tuple(machine *m)
{
    const lki_pickle_value **from;
    size_t count;
    lki_pickle_list items = {0};
    lki_pickle_value *value;
    LKI_TRY(pickle_pop_marked(m, &from, &count));
    for (size_t i = 0; i < count; i++) LKI_TRY(pickle_append(m, &items, from[i]));
    LKI_TRY(pickle_make(m, LKI_PICKLE_TUPLE, &value));
    value->items = items;
    return LKS_OK;
}

/* Into the list or the dictionary below what was marked. */
static lks_status pickle_fill(machine *m, lki_pickle_kind kind)
{
    const lki_pickle_value **from;
    size_t count;
    lki_pickle_value *into;
    LKI_TRY(pickle_pop_marked(m, &from, &count));
    LKI_TRY(pickle_top(m, kind, &into));
    if (kind == LKI_PICKLE_DICTIONARY && count % 2 != 0)
        return pickle_refuse(m, "a key without a value");
    for (size_t i = 0; i < count; i++) LKI_TRY(pickle_append(m, &into->items, from[i]));
    return LKS_OK;
}

static lks_status pickle_fill_one(machine *m, lki_pickle_kind kind)
{
    const lki_pickle_value *key = NULL, *value;
    lki_pickle_value *into;
    LKI_TRY(pickle_pop(m, &value));
    if (kind == LKI_PICKLE_DICTIONARY) LKI_TRY(pickle_pop(m, &key));
    LKI_TRY(pickle_top(m, kind, &into));
    if (key != NULL) LKI_TRY(pickle_append(m, &into->items, key));
    return pickle_append(m, &into->items, value);
}

static lks_status pickle_remember(machine *m, uint64_t place)
{
    if (m->stack.count == 0) return pickle_refuse(m, "an instruction without what it needs");
    if (place >= MOST_VALUES) return pickle_refuse(m, "a reference beyond a million");
    while (m->memo.count <= place) LKI_TRY(pickle_append(m, &m->memo, NULL));
    m->memo.at[place] = m->stack.at[m->stack.count - 1];
    return LKS_OK;
}

static lks_status pickle_recall(machine *m, uint64_t place)
{
    if (place >= m->memo.count || m->memo.at[place] == NULL ||
        m->memo.at[place]->kind == LKI_PICKLE_MARK)
        return pickle_refuse(m, "a reference to nothing");
    return pickle_push(m, m->memo.at[place]);
}

static lks_status pickle_reference(machine *m, size_t bytes, bool puts)
{
    uint64_t place;
    LKI_TRY(pickle_number(m, bytes, &place));
    return puts ? pickle_remember(m, place) : pickle_recall(m, place);
}

bool lki_pickle_is(const lki_pickle_value *value, const char *word)
{
    return value->kind == LKI_PICKLE_TEXT && value->size == strlen(word) &&
           memcmp(value->bytes, word, value->size) == 0;
}

static lks_status pickle_name_class(machine *m, const lki_pickle_value *module,
                                    const lki_pickle_value *name)
{
    static const struct {
        const char *module, *name;
        class class;
    } known[] = {
        {"numpy.core.multiarray", "_reconstruct", RECONSTRUCT},
        {"numpy._core.multiarray", "_reconstruct", RECONSTRUCT},
        {"numpy", "ndarray", NDARRAY},
        {"numpy", "dtype", DTYPE_CLASS},
    };
    lki_pickle_value *value;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!lki_pickle_is(module, known[i].module) || !lki_pickle_is(name, known[i].name))
            continue;
        LKI_TRY(pickle_make(m, LKI_PICKLE_CLASS, &value));
        value->number = known[i].class;
        return LKS_OK;
    }
    return pickle_refuse(m, "an object that is no array of NumPy");
}

static lks_status pickle_line(machine *m, lki_pickle_value *out)
{
    const uint8_t *from = m->data + m->at;
    const uint8_t *end = memchr(from, '\n', m->bytes - m->at);
    *out = (lki_pickle_value){.kind = LKI_PICKLE_TEXT, .bytes = from};
    if (end == NULL) return pickle_take(m, m->bytes - m->at + 1, &from);
    out->size = (size_t)(end - from);
    m->at += out->size + 1;
    return LKS_OK;
}

static lks_status pickle_global(machine *m)
{
    lki_pickle_value module, name;
    LKI_TRY(pickle_line(m, &module));
    LKI_TRY(pickle_line(m, &name));
    return pickle_name_class(m, &module, &name);
}

static lks_status pickle_stack_global(machine *m)
{
    const lki_pickle_value *module, *name;
    LKI_TRY(pickle_pop(m, &name));
    LKI_TRY(pickle_pop(m, &module));
    return pickle_name_class(m, module, name);
}

/* A call of what was named: an array without elements yet, or the type of elements. */
static lks_status pickle_reduce(machine *m)
{
    const lki_pickle_value *arguments, *called;
    lki_pickle_value *made;
    LKI_TRY(pickle_pop(m, &arguments));
    LKI_TRY(pickle_pop(m, &called));
    if (called->kind != LKI_PICKLE_CLASS || arguments->kind != LKI_PICKLE_TUPLE)
        return pickle_refuse(m, "a call of nothing");
    if (called->number == RECONSTRUCT) return pickle_make(m, LKI_PICKLE_ARRAY, &made);
    if (called->number != DTYPE_CLASS || arguments->items.count == 0 ||
        arguments->items.at[0]->kind != LKI_PICKLE_TEXT)
        return pickle_refuse(m, "a call that no array needs");
    LKI_TRY(pickle_make(m, LKI_PICKLE_DTYPE, &made));
    made->bytes = arguments->items.at[0]->bytes;
    made->size = arguments->items.at[0]->size;
    return LKS_OK;
}

/* The state of an array is (version, shape, type, in Fortran's order, bytes); a type's is of no interest. */
static lks_status pickle_build(machine *m)
{
    const lki_pickle_value *state;
    lki_pickle_value *array;
    LKI_TRY(pickle_pop(m, &state));
    if (m->stack.count > 0 && m->stack.at[m->stack.count - 1]->kind == LKI_PICKLE_DTYPE)
        return LKS_OK;
    LKI_TRY(pickle_top(m, LKI_PICKLE_ARRAY, &array));
    const lki_pickle_value *const *part = state->items.at;
    if (state->kind != LKI_PICKLE_TUPLE || state->items.count != 5 ||
        part[1]->kind != LKI_PICKLE_TUPLE || part[2]->kind != LKI_PICKLE_DTYPE ||
        part[3]->kind != LKI_PICKLE_INTEGER || part[4]->kind != LKI_PICKLE_TEXT)
        return pickle_refuse(m, "an array of another kind");
    array->shape = part[1];
    array->type = part[2];
    array->number = part[3]->number;
    array->bytes = part[4]->bytes;
    array->size = part[4]->size;
    return LKS_OK;
}

static lks_status pickle_truth(machine *m, bool is_true)
{
    lki_pickle_value *value;
    LKI_TRY(pickle_make(m, LKI_PICKLE_INTEGER, &value));
    value->number = is_true;
    return LKS_OK;
}

static lks_status pickle_step(machine *m, uint8_t op)
{
    lki_pickle_value *made;
    uint64_t ignored;
    char found[40];
    switch (op) {
    case 0x80:
        return pickle_number(m, 1, &ignored); /* PROTO */
    case 0x95:
        return pickle_number(m, 8, &ignored); /* FRAME */
    case '(':
        return pickle_push(m, &mark);
    case 'N':
        return pickle_push(m, &none);
    case 0x88:
        return pickle_truth(m, true);
    case 0x89:
        return pickle_truth(m, false);
    case 'J':
        return pickle_integer(m, 4, true);
    case 'K':
        return pickle_integer(m, 1, false);
    case 'M':
        return pickle_integer(m, 2, false);
    case 'U': /* SHORT_BINSTRING, SHORT_BINUNICODE, SHORT_BINBYTES */
    case 0x8c:
    case 'C':
        return pickle_text(m, 1);
    case 'T': /* BINSTRING, BINUNICODE, BINBYTES */
    case 'X':
    case 'B':
        return pickle_text(m, 4);
    case 0x8e:
        return pickle_text(m, 8); /* BINBYTES8 */
    case '}':
        return pickle_make(m, LKI_PICKLE_DICTIONARY, &made);
    case ']':
        return pickle_make(m, LKI_PICKLE_LIST, &made);
    case ')':
        return pickle_tuple(m, 0);
    case 0x85:
        return pickle_tuple(m, 1);
    case 0x86:
        return pickle_tuple(m, 2);
    case 0x87:
        return pickle_tuple(m, 3);
    case 't':
        return pickle_marked_tuple(m);
    case 'a':
        return pickle_fill_one(m, LKI_PICKLE_LIST);
    case 'e':
        return pickle_fill(m, LKI_PICKLE_LIST);
    case 's':
        return pickle_fill_one(m, LKI_PICKLE_DICTIONARY);
    case 'u':
        return pickle_fill(m, LKI_PICKLE_DICTIONARY);
    case 'q':
        return pickle_reference(m, 1, true);
    case 'r':
        return pickle_reference(m, 4, true);
    case 'h':
        return pickle_reference(m, 1, false);
    case 'j':
        return pickle_reference(m, 4, false);
    case 0x94:
        return pickle_remember(m, m->memo.count); /* MEMOIZE */
    case 'c':
        return pickle_global(m);
    case 0x93:
        return pickle_stack_global(m);
    case 'R':
        return pickle_reduce(m);
    case 'b':
        return pickle_build(m);
    default:
        break;
    }
    snprintf(found, sizeof found, "the instruction 0x%02x", op);
    return pickle_refuse(m, found);
}

static lks_status pickle_run(machine *m, const lki_pickle_value **root)
{
    const uint8_t *op;
    for (;;) {
        m->op_at = m->at;
        LKI_TRY(pickle_take(m, 1, &op));
        if (*op == '.') break;
        LKI_TRY(pickle_step(m, *op));
    }
    LKI_TRY(pickle_pop(m, root));
    if ((*root)->kind != LKI_PICKLE_DICTIONARY || m->stack.count != 0)
        return pickle_refuse(m, "the end of something else");
    m->op_at = m->at;
    return m->at == m->bytes ? LKS_OK : pickle_refuse(m, "more behind the end");
}

/* ---------------------------------------------------------------- all of it */

lks_status lki_pickle_read(lki_pickle *out, lks_context *context, const uint8_t *data, size_t bytes,
                           const char *path)
{
    *out = (lki_pickle){.arena.context = context, .path = path};
    machine m = {.arena = &out->arena, .path = path, .data = data, .bytes = bytes};
    return pickle_run(&m, &out->root);
}

void lki_pickle_close(lki_pickle *pickle)
{
    lki_arena_release(&pickle->arena);
    pickle->root = NULL;
}
