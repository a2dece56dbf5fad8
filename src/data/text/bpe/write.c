/* tokenizer.json, as the package tokenizers of any version reads it. */
#include <stdio.h>

#include "data/text/bpe/bpe.h"
#include "data/text/sink.h"
#include "data/text/utf8.h"

static void put_json(lki_sink *to, const char *text)
{
    lki_sink_put(to, text, strlen(text));
}

/* What stands in a string of JSON. */
static void put_escaped(lki_sink *to, const char *text, size_t bytes)
{
    char escaped[8];
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t byte = (uint8_t)text[i];
        if (byte < ' ')
            lki_sink_put(to, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", byte));
        else if (byte == '"' || byte == '\\')
            lki_sink_put(to, (char[]){'\\', text[i]}, 2);
        else
            lki_sink_put(to, &text[i], 1);
    }
}

static const lki_bpe_added *added_of(const lki_bpe *bpe, int32_t id)
{
    int low = 0, high = bpe->adds;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (bpe->added[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < bpe->adds && bpe->added[low].id == id ? &bpe->added[low] : NULL;
}

/* An added token as it stands in texts, others as the characters that stand for their bytes. */
static void put_token_name(lki_sink *to, const lki_bpe *bpe, int32_t id)
{
    size_t bytes;
    const char *text = lki_bpe_token(bpe, id, &bytes);
    const lki_bpe_added *added = added_of(bpe, id);
    if (added != NULL) put_escaped(to, added->text, added->bytes);
    for (size_t i = 0; i < bytes && added == NULL; i++) {
        char letter[LKI_UTF8_BYTES];
        const int length = lki_utf8_write(lki_bpe_letter((uint8_t)text[i]), letter);
        put_escaped(to, letter, (size_t)length);
    }
}

static void put_added(lki_sink *to, const lki_bpe *bpe)
{
    char text[80];
    for (int i = 0; i < bpe->adds; i++) {
        const lki_bpe_added *added = &bpe->added[i];
        snprintf(text, sizeof text, "%s\n    {\"id\": %d, \"content\": \"", i > 0 ? "," : "",
                 added->id);
        put_json(to, text);
        put_escaped(to, added->text, added->bytes);
        put_json(
            to,
            "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": ");
        put_json(to, added->second ? "true" : "false");
        put_json(to, added->special ? ", \"special\": true}" : ", \"special\": false}");
    }
}

static void put_vocabulary(lki_sink *to, const lki_bpe *bpe)
{
    char text[40];
    bool some = false;
    for (int32_t id = 0; id < bpe->size; id++) {
        const lki_bpe_added *added = added_of(bpe, id);
        if (added != NULL && !added->known) continue;
        put_json(to, some ? ",\n      \"" : "\n      \"");
        put_token_name(to, bpe, id);
        snprintf(text, sizeof text, "\": %d", id);
        put_json(to, text);
        some = true;
    }
}

static void put_file(lki_sink *to, const lks_tokenizer *tokenizer)
{
    const lki_bpe *bpe = tokenizer->own;
    put_json(to, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                 "  \"added_tokens\": [");
    put_added(to, bpe);
    put_json(to, "],\n  \"normalizer\": null,\n  \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                 "\"add_prefix_space\": ");
    put_json(to, bpe->prefix ? "true" : "false");
    put_json(to,
             ", \"trim_offsets\": true, \"use_regex\": true},\n  \"post_processor\": null,\n"
             "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
             "\"trim_offsets\": true, \"use_regex\": true},\n"
             "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ");
    if (tokenizer->unknown >= 0) {
        put_json(to, "\"");
        put_token_name(to, bpe, tokenizer->unknown);
        put_json(to, "\"");
    } else {
        put_json(to, "null");
    }
    put_json(
        to,
        ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
        "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
        "    \"vocab\": {");
    put_vocabulary(to, bpe);
    put_json(to, "\n    },\n    \"merges\": [");
    for (int32_t i = 0; i < bpe->merges.size; i++) {
        put_json(to, i > 0 ? ",\n      \"" : "\n      \"");
        put_token_name(to, bpe, bpe->merges.pair[i].left);
        put_json(to, " ");
        put_token_name(to, bpe, bpe->merges.pair[i].right);
        put_json(to, "\"");
    }
    put_json(to, "\n    ]\n  }\n}\n");
    lki_sink_flush(to);
}

lks_status lki_bpe_write(const lks_tokenizer *tokenizer, lki_writer *writer)
{
    lki_sink to = {.writer = writer};
    put_file(&to, tokenizer);
    return to.status;
}

lks_status lki_bpe_hash(uint64_t *out, const lks_tokenizer *tokenizer)
{
    lki_sink to = {.writer = NULL};
    const lks_status status = lki_hash_stream_open(&to.stream, tokenizer->context);
    if (status != LKS_OK) return status;
    put_file(&to, tokenizer);
    *out = lki_hash_stream_close(to.stream);
    return LKS_OK;
}
