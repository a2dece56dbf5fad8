/* doctor of several processes: what is found in what they tell, and how it is printed; the terminal has 80
 * columns, however many they are. */
#include "cli/golden.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <lockstep/lockstep.h>

#include "cli/doctor/doctor_across.h"
#include "cli/out/text.h"

enum { MOST = 300 };

static cli_pool pool;
static across_rank rank[MOST];
static lks_link link_of[MOST * ACROSS_LINKS];
static const char *notes[MOST];
static across all;

static const char *address; /* of any host's name; NULL: it has none */

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out);
void __wrap_freeaddrinfo(struct addrinfo *info);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    static struct sockaddr_in found;
    static struct addrinfo info = {.ai_family = AF_INET, .ai_addrlen = sizeof found};
    (void)port;
    assert_string_equal(host, "node0");
    assert_int_equal(hints->ai_family, AF_INET);
    if (address == NULL) return EAI_NONAME;
    found = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &found.sin_addr), 1);
    info.ai_addr = (struct sockaddr *)(void *)&found;
    *out = &info;
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *info)
{
    (void)info;
}

static void set_cpus(across_rank *r, int first, int count)
{
    memset(r->crowd.cpus, 0, sizeof r->crowd.cpus);
    for (int cpu = first; cpu < first + count; cpu++)
        r->crowd.cpus[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

/* So many ranks, `each` on a host, each with two CPUs of its own: nothing is wrong. */
static void make(int size, int each)
{
    all = (across){.pool = &pool, .size = size, .rank = rank, .link = link_of};
    for (int r = 0; r < size; r++) {
        rank[r] = (across_rank){.crowd = {.boot = "b", .workers = 2, .online = 2 * each},
                                .process = 1000 + r,
                                .memory = 8e9,
                                .shared = 1e9,
                                .flops = 100e9,
                                .ahead = r < each ? 0 : 0.002,
                                .error = 0.0001,
                                .local = r % each,
                                .watched = 1,
                                .library = "Some MPI 1.2",
                                .instructions = "avx2"};
        snprintf(rank[r].crowd.host, sizeof rank[r].crowd.host, "node%d", r / each);
        set_cpus(&rank[r], 2 * (r % each), 2);
        notes[r] = "";
        int count = 0;
        for (int other = 0; other < size && count < ACROSS_LINKS; other++) {
            const bool near = other / each == r / each;
            if (other == r || abs(other - r) > ACROSS_LINKS / 2) continue;
            link_of[r * ACROSS_LINKS + count++] = (lks_link){.rank = other,
                                                             .common = near,
                                                             .latency = near ? 1e-6 : 25.5e-6,
                                                             .bandwidth = near ? 8e9 : 1.15e9};
        }
        for (; count < ACROSS_LINKS; count++) link_of[r * ACROSS_LINKS + count].rank = -1;
    }
}

static lks_link *between(int a, int b)
{
    for (int i = 0; i < ACROSS_LINKS; i++)
        if (link_of[a * ACROSS_LINKS + i].rank == b) return &link_of[a * ACROSS_LINKS + i];
    fail_msg("no link %d-%d", a, b);
    return NULL;
}

static void print_it(const void *user)
{
    const cli_doctor *doctor = user;
    across_print(doctor, &all);
}

/* Everything: its findings alone, or all that is printed, of which no line is too wide. */
static void look(const char *title, bool print)
{
    static char seen[OUTPUT_SIZE];
    cli_doctor *doctor = pool_alloc(&pool, sizeof *doctor);
    doctor->area = "Processes";
    across_look(doctor, &all);
    across_hosts(doctor, &all, notes);
    head(title);
    for (int i = 0; i < doctor->count && !print; i++) {
        const doctor_finding *f = &doctor->finding[i];
        fprintf(text, "%s %s: %s\n    -> %s\n", doctor_level_name(f->level), f->name, f->found,
                f->advice);
    }
    if (print) {
        write_stream(STDOUT_FILENO, print_it, doctor);
        read_text(seen, "out.txt");
        for (char *line = strtok(seen, "\n"); line != NULL; line = strtok(NULL, "\n"))
            if (strlen(line) > 80) fail_msg("%zu columns: %s", strlen(line), line);
    }
    pool_clear(&doctor->pool);
}

static void what_is_wrong(void **state)
{
    (void)state;
    make(4, 2);
    look("nothing", false);
    set_cpus(&rank[3], 0, 2);
    rank[3].flops = 1e9; /* which follows */
    look("two ranks of node1 have the same CPUs", false);
    make(4, 2);
    rank[1].crowd.quota = 3;
    look("a quota", false);
    make(4, 2);
    strcpy(rank[2].library, "Some MPI 1.3");
    strcpy(rank[2].instructions, "portable");
    strcpy(rank[3].instructions, "portable");
    look("another MPI and other instructions", false);
    make(4, 2);
    rank[1].flops = 55e9;
    look("one is slow", false);
    make(4, 2);
    rank[2].ahead = rank[3].ahead = -3.25;
    look("a clock is behind", false);
    rank[2].ahead = rank[3].ahead = 0.5;
    look("a clock is ahead", false);
    rank[2].error = rank[3].error = 0.45;
    look("a clock may be ahead", false);
    make(4, 2);
    between(2, 3)->common = false;
    look("no memory in common", false);
    rank[2].shared = rank[3].shared = 15 << 20;
    look("no room for memory in common", false);
    between(0, 1)->common = false;
    look("as on the other host, which is said first", false);
    make(6, 2);
    between(1, 4)->bandwidth = 0.1e9;
    between(0, 5)->latency = 900e-6;
    look("slow links between hosts", false);
    make(4, 4);
    between(1, 2)->latency = 20e-6; /* which on a machine is nothing */
    look("a slower answer on a host", false);
    make(4, 4);
    between(0, 3)->bandwidth = 0.5e9;
    look("a slow link on a host", false);
    make(2, 1);
    between(0, 1)->bandwidth = 0.1e9;
    look("one link has nothing to be compared with", false);
    make(3, 2);
    between(1, 2)->bandwidth = 0.1e9;
    look("of two links nobody knows which is usual", false);
    make(4, 2);
    strcpy(rank[2].address, "127.0.1.1");
    look("a name that means the host itself", false);
    for (int r = 0; r < 4; r++) strcpy(rank[r].address, "127.0.1.1");
    look("as many do", false);
    make(4, 2);
    rank[2].watched = rank[3].watched = 0;
    look("a host out of reach of the watch", false);
    rank[0].watched = rank[1].watched = 0;
    look("nobody watches", false);
}

/* Debian gives a host's name the address 127.0.1.1. */
static void a_name_of_loopback_is_noticed(void **state)
{
    (void)state;
    static const struct row {
        const char *address, *noticed;
    } rows[] = {{"127.0.1.1", "127.0.1.1"}, {"127.255.255.254", "127.255.255.254"},
                {"128.0.0.1", ""},          {"126.255.255.255", ""},
                {"10.127.0.1", ""},         {NULL, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make(1, 1);
        address = rows[i].address;
        across_find_address(&rank[0]);
        assert_string_equal(rank[0].address, rows[i].noticed);
    }
}

static void what_hosts_say(void **state)
{
    (void)state;
    static const char little[] =
        "{\"name\": \"memory\", \"level\": \"warning\", \"found\": \"1 MiB\", "
        "\"advice\": \"more\"}";
    static const char cores[] = "{\"name\": \"cores\", \"level\": \"note\", \"found\": \"1\", "
                                "\"advice\": \"fewer\"}";
    static const char folder_[] =
        "{\"name\": \"folder\", \"level\": \"error\", \"found\": \"r cannot "
        "be written to\", \"advice\": \"choose another\"}";
    make(6, 2);
    notes[0] = pool_format(&pool, "[%s]", cores);
    notes[2] = pool_format(&pool, "[%s, %s]", little, cores);
    notes[4] = pool_format(&pool, "[%s, %s]", folder_, little);
    look("what hosts say", false);
    notes[2] = "no JSON";
    look("what a host says cannot be read", false);
}

static void it_is_printed(void **state)
{
    (void)state;
    make(4, 2);
    rank[1].crowd.quota = 3;
    strcpy(rank[2].address, "127.0.1.1");
    strcpy(rank[3].crowd.host, "a-host-with-a-name.of.many.letters");
    look("four", true);
    make(11, 4);
    look("eleven", true);
    make(MOST, 3);
    for (int r = 0; r < MOST; r++) set_cpus(&rank[r], r % 2 == 0 ? 1000 : 3, 2);
    set_cpus(&rank[0], 3, 1020);
    look("many", true);
}

static void json_has_all_of_it(void **state)
{
    (void)state;
    cli_doctor *doctor = pool_alloc(&pool, sizeof *doctor);
    make(3, 2);
    doctor->area = "Processes";
    rank[1].watched = 0;
    across_look(doctor, &all);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO), file = open(in_folder("j.json"), O_RDWR | O_CREAT, 0666);
    dup2(file, STDOUT_FILENO);
    across_print_json(doctor, &all);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(file);
    json_t *json = json_load_file(in_folder("j.json"), 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "ranks")), 3);
    assert_int_equal(json_array_size(json_object_get(json, "links")), 3);
    assert_int_equal(json_array_size(json_object_get(json, "checks")), 1);
    assert_string_equal(json_string_value(json_object_get(json, "worst")), "warning");
    const json_t *second = json_array_get(json_object_get(json, "ranks"), 1);
    assert_string_equal(json_string_value(json_object_get(second, "cpus")), "2-3");
    assert_true(json_is_false(json_object_get(second, "watched")));
    json_decref(json);
    pool_clear(&doctor->pool);
}

int main(void)
{
    golden = "across.txt";
    text = tmpfile();
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    const struct CMUnitTest tests[] = {
        TEST(what_is_wrong),      TEST(a_name_of_loopback_is_noticed),
        TEST(what_hosts_say),     TEST(it_is_printed),
        TEST(json_has_all_of_it), cmocka_unit_test(all_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
