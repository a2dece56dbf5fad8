#include "cli/meet/seal.h"

#include <string.h>

#include <lockstep/context.h>

#if defined(CLI_HAVE_SODIUM)

#include <dlfcn.h>
#include <sodium.h>

_Static_assert(SEAL_KEY == crypto_generichash_KEYBYTES &&
                   SEAL_KEY == crypto_aead_chacha20poly1305_ietf_KEYBYTES &&
                   WIRE_PROOF == crypto_generichash_BYTES &&
                   WIRE_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES,
               "the sizes of the protocol are those of libsodium");

static struct sodium {
    int (*init)(void);
    void (*random)(void *const, const size_t);
    int (*same)(const void *const, const void *const, size_t);
    int (*hash)(unsigned char *, size_t, const unsigned char *, unsigned long long,
                const unsigned char *, size_t);
    int (*encrypt)(unsigned char *, unsigned long long *, const unsigned char *, unsigned long long,
                   const unsigned char *, unsigned long long, const unsigned char *,
                   const unsigned char *, const unsigned char *);
    int (*decrypt)(unsigned char *, unsigned long long *, unsigned char *, const unsigned char *,
                   unsigned long long, const unsigned char *, unsigned long long,
                   const unsigned char *, const unsigned char *);
} sodium;

static lks_status no_sodium(const char *why)
{
    return lks_fail(LKS_E_UNSUPPORTED,
                    "a rendezvous needs libsodium, which could not be loaded (%.200s); install it "
                    "(on Debian: apt-get install libsodium23)",
                    why);
}

lks_status seal_begin(void)
{
    static const struct symbol {
        const char *name;
        size_t offset;
    } symbols[] = {
        {"sodium_init", offsetof(struct sodium, init)},
        {"randombytes_buf", offsetof(struct sodium, random)},
        {"sodium_memcmp", offsetof(struct sodium, same)},
        {"crypto_generichash", offsetof(struct sodium, hash)},
        {"crypto_aead_chacha20poly1305_ietf_encrypt", offsetof(struct sodium, encrypt)},
        {"crypto_aead_chacha20poly1305_ietf_decrypt", offsetof(struct sodium, decrypt)},
    };
    static bool begun;
    if (begun) return LKS_OK;
    void *loaded = dlopen("libsodium.so.23", RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL) return no_sodium(dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(loaded, symbols[i].name);
        if (symbol == NULL) return no_sodium(dlerror());
        memcpy((char *)&sodium + symbols[i].offset, &symbol, sizeof symbol);
    }
    begun = sodium.init() >= 0;
    return begun ? LKS_OK : no_sodium("sodium_init failed");
}

void seal_random(void *out, size_t bytes)
{
    sodium.random(out, bytes);
}

lks_status seal_key(uint8_t key[SEAL_KEY], const char *secret)
{
    const size_t length = strlen(secret);
    if (length < SEAL_SECRET_LEAST || length > SEAL_SECRET_MOST)
        return lks_fail(LKS_E_INVALID,
                        "the secret of the rendezvous has %zu bytes, expected %d to %d", length,
                        SEAL_SECRET_LEAST, SEAL_SECRET_MOST);
    sodium.hash(key, SEAL_KEY, (const unsigned char *)secret, length, NULL, 0);
    return LKS_OK;
}

/* MAC(K, purpose | version | m | l) */
static void derive(uint8_t out[SEAL_KEY], const uint8_t key[SEAL_KEY], const char *purpose,
                   const seal_draw *draw)
{
    uint8_t text[32 + 1 + 2 * WIRE_RANDOM];
    size_t length = strlen(purpose);
    memcpy(text, purpose, length);
    text[length++] = WIRE_VERSION;
    memcpy(text + length, draw->member, WIRE_RANDOM);
    memcpy(text + length + WIRE_RANDOM, draw->leader, WIRE_RANDOM);
    sodium.hash(out, SEAL_KEY, text, length + 2 * WIRE_RANDOM, key, SEAL_KEY);
}

void seal_prove(uint8_t proof[WIRE_PROOF], const uint8_t key[SEAL_KEY], bool leader,
                const seal_draw *draw)
{
    derive(proof, key, leader ? "lockstep leader" : "lockstep member", draw);
}

bool seal_is_proof(const uint8_t proof[WIRE_PROOF], const uint8_t key[SEAL_KEY], bool leader,
                   const seal_draw *draw)
{
    uint8_t expected[WIRE_PROOF];
    seal_prove(expected, key, leader, draw);
    return sodium.same(expected, proof, WIRE_PROOF) == 0;
}

void seal_open_link(seal_link *link, const uint8_t key[SEAL_KEY], bool leader,
                    const seal_draw *draw)
{
    *link = (seal_link){.received = 0};
    derive(leader ? link->out : link->in, key, "lockstep to member", draw);
    derive(leader ? link->in : link->out, key, "lockstep to leader", draw);
}

enum { NONCE = crypto_aead_chacha20poly1305_ietf_NPUBBYTES };

static void number_frame(uint8_t nonce[NONCE], uint64_t *count)
{
    memset(nonce, 0, NONCE);
    for (int i = 0; i < 8; i++) nonce[NONCE - 1 - i] = (uint8_t)(*count >> 8 * i);
    ++*count;
}

size_t seal_close(seal_link *link, uint8_t *frame, wire_type type, size_t length)
{
    uint8_t *body = frame + WIRE_HEADER;
    uint8_t nonce[NONCE];
    unsigned long long sealed;
    wire_header_write(frame, type, length + WIRE_TAG);
    number_frame(nonce, &link->sent);
    sodium.encrypt(body, &sealed, body, length, frame, WIRE_HEADER, NULL, nonce, link->out);
    return WIRE_HEADER + (size_t)sealed;
}

bool seal_open(seal_link *link, const uint8_t header[WIRE_HEADER], uint8_t *body, size_t length)
{
    uint8_t nonce[NONCE];
    unsigned long long opened;
    number_frame(nonce, &link->received);
    return sodium.decrypt(body, &opened, NULL, body, length, header, WIRE_HEADER, nonce,
                          link->in) == 0;
}

#else

lks_status seal_begin(void)
{
    return lks_fail(LKS_E_UNSUPPORTED,
                    "this program was built without libsodium, which a rendezvous needs; build it "
                    "where sodium.h is (on Debian: apt-get install libsodium-dev)");
}

/* Nobody gets here: seal_begin() has failed. */
void seal_random(void *out, size_t bytes)
{
    memset(out, 0, bytes);
}

lks_status seal_key(uint8_t key[SEAL_KEY], const char *secret)
{
    (void)key, (void)secret;
    return seal_begin();
}

void seal_prove(uint8_t proof[WIRE_PROOF], const uint8_t key[SEAL_KEY], bool leader,
                const seal_draw *draw)
{
    (void)key, (void)leader, (void)draw;
    memset(proof, 0, WIRE_PROOF);
}

bool seal_is_proof(const uint8_t proof[WIRE_PROOF], const uint8_t key[SEAL_KEY], bool leader,
                   const seal_draw *draw)
{
    (void)proof, (void)key, (void)leader, (void)draw;
    return false;
}

void seal_open_link(seal_link *link, const uint8_t key[SEAL_KEY], bool leader,
                    const seal_draw *draw)
{
    (void)key, (void)leader, (void)draw;
    *link = (seal_link){.received = 0};
}

size_t seal_close(seal_link *link, uint8_t *frame, wire_type type, size_t length)
{
    (void)link, (void)frame, (void)type, (void)length;
    return 0;
}

bool seal_open(seal_link *link, const uint8_t header[WIRE_HEADER], uint8_t *body, size_t length)
{
    (void)link, (void)header, (void)body, (void)length;
    return false;
}

#endif
