/* doctor of several processes: each looks at itself, all at what is between them, and the first talks. */
#include "cli/doctor/doctor_across.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <lockstep/context.h>

#include "cli/out/text.h"
#include "recipe/text/setting.h"

static const double PEAK_SECONDS = 0.25;

void across_find_address(across_rank *mine)
{
    struct addrinfo *found = NULL;
    const struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    if (getaddrinfo(mine->crowd.host, NULL, &wanted, &found) != 0) return;
    const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)found->ai_addr;
    if ((ntohl(address->sin_addr.s_addr) >> 24) == 127)
        inet_ntop(AF_INET, &address->sin_addr, mine->address, sizeof mine->address);
    freeaddrinfo(found);
}

static void find_memory(across_rank *mine, const cli_doctor *doctor)
{
    struct statvfs room;
    char line[DOCTOR_LINE];
    mine->memory = doctor_entry(doctor, line, "/proc/meminfo", "MemAvailable")
                       ? 1024 * strtod(line, NULL)
                       : -1;
    const lks_machine machine = lks_machine_get(NULL);
    if (machine.memory > 0 && (mine->memory < 0 || (double)machine.memory < mine->memory))
        mine->memory = (double)machine.memory;
    mine->shared = statvfs("/dev/shm", &room) == 0 ? (double)room.f_bavail * (double)room.f_bsize
                                                   : -1;
}

/* While all others do the same. */
static lks_status find_speed(across_rank *mine, lks_comm *comm)
{
    lks_context *context;
    strcpy(mine->instructions, "none");
    const lks_status begun = lks_context_create(&context, NULL);
    lks_status status = lks_comm_barrier(comm);
    if (begun != LKS_OK) return status;
    const char *last = strrchr(lks_context_fingerprint(context), ' ');
    if (last != NULL)
        snprintf(mine->instructions, sizeof mine->instructions, "%.*s",
                 (int)strcspn(last + 1, ";,"), last + 1);
    if (status == LKS_OK &&
        lks_peak(&mine->flops, context, mine->crowd.workers, PEAK_SECONDS) != LKS_OK)
        mine->flops = 0;
    lks_context_destroy(context);
    return status;
}

static lks_status gather_ranks(across *all, lks_comm *comm, const cli_doctor *doctor, int workers)
{
    across_rank mine = {.process = (int64_t)getpid(),
                        .local = lks_comm_local_rank(comm),
                        .watched = lks_comm_watched(comm)};
    crowd_read(&mine.crowd, workers);
    snprintf(mine.library, sizeof mine.library, "%s", lks_comm_library(comm));
    find_memory(&mine, doctor);
    if (lks_comm_local_size(comm) < all->size) across_find_address(&mine);
    lks_status status = find_speed(&mine, comm);
    if (status == LKS_OK) status = lks_comm_clock(comm, &mine.ahead, &mine.error);
    all->rank = pool_alloc(all->pool, (size_t)all->size * sizeof *all->rank);
    return status == LKS_OK ? lks_comm_all_gather(comm, &mine, sizeof mine, all->rank) : status;
}

static lks_status gather_links(across *all, lks_comm *comm)
{
    lks_link mine[ACROSS_LINKS];
    int count = 0;
    all->link = pool_alloc(all->pool, (size_t)all->size * sizeof mine);
    memset(mine, 0, sizeof mine);
    const lks_status status = lks_comm_measure(comm, mine, ACROSS_LINKS, &count);
    for (int i = count; i < ACROSS_LINKS; i++) mine[i].rank = -1;
    return status == LKS_OK ? lks_comm_all_gather(comm, mine, sizeof mine, all->link) : status;
}

/* Those of what one rank of each host has found on it that several processes have to know. */
static const char *look_at_host(cli_doctor *doctor)
{
    json_t *list = json_array();
    doctor_look(doctor, false);
    for (int i = 0; i < doctor->count; i++) {
        if (doctor->finding[i].level > LEVEL_OK)
            json_array_append_new(list, doctor_finding_json(&doctor->finding[i]));
        json_decref(doctor->finding[i].values);
    }
    char *text = text_json(list);
    const char *kept = pool_copy(&doctor->pool, text != NULL ? text : "",
                                 text != NULL ? strlen(text) : 0);
    free(text);
    json_decref(list);
    return kept;
}

/* Everybody's text, in order of ranks. */
static lks_status gather_texts(const char ***out, cli_pool *pool, lks_comm *comm, const char *text)
{
    const size_t size = (size_t)lks_comm_size(comm), mine = strlen(text) + 1;
    size_t *bytes = pool_alloc(pool, size * sizeof *bytes), most = 0;
    const lks_status status = lks_comm_all_gather(comm, &mine, sizeof mine, bytes);
    if (status != LKS_OK) return status;
    for (size_t r = 0; r < size; r++)
        if (bytes[r] > most) most = bytes[r];
    char *own = pool_alloc(pool, most), *all = pool_alloc(pool, size * most);
    memcpy(own, text, mine);
    *out = pool_alloc(pool, size * sizeof **out);
    for (size_t r = 0; r < size; r++) (*out)[r] = all + r * most;
    return lks_comm_all_gather(comm, own, most, all);
}

static lks_status take_workers(int *workers, const cli_args *cli, lks_comm *comm)
{
    const char *text = cli->local[LOCAL_WORKERS];
    int64_t count = lks_comm_cores(comm);
    if (text != NULL && (!lki_text_is_int(text, &count) || count < 1 || count > 1 << 20))
        return lks_fail(LKS_E_INVALID, "--workers is '%.60s', expected a number of at least 1",
                        text);
    *workers = (int)count;
    return LKS_OK;
}

static void talk(const cli_args *cli, lks_recipe *recipe, int *code, const across *all,
                 const char *const *notes)
{
    int counts[4] = {0};
    cli_doctor *doctor = pool_alloc(cli->pool, sizeof *doctor);
    doctor->area = "Processes";
    across_look(doctor, all);
    across_hosts(doctor, all, notes);
    if (strcmp(lks_recipe_text(recipe, "log.format"), "json") == 0)
        across_print_json(doctor, all);
    else
        across_print(doctor, all);
    *code = doctor_exit_code(doctor_worst(doctor, counts));
    pool_clear(&doctor->pool);
}

static lks_status look_together(const cli_args *cli, lks_recipe *recipe, int *code)
{
    lks_comm *comm = lks_recipe_get_parts(recipe).comm;
    across all = {.pool = cli->pool, .size = lks_comm_size(comm)};
    const char **notes = NULL;
    int workers = 0;
    lks_status status = lks_comm_agree(comm, take_workers(&workers, cli, comm));
    if (status != LKS_OK) return status;
    cli_doctor *host = pool_alloc(cli->pool, sizeof *host);
    host->root = cli->local[LOCAL_ROOT] != NULL ? cli->local[LOCAL_ROOT] : "";
    host->folder = lks_recipe_text(recipe, "checkpoint.path");
    status = gather_ranks(&all, comm, host, workers);
    if (status == LKS_OK) status = gather_links(&all, comm);
    const char *text = status == LKS_OK && lks_comm_local_rank(comm) == 0 ? look_at_host(host) : "";
    if (status == LKS_OK) status = gather_texts(&notes, cli->pool, comm, text);
    pool_clear(&host->pool);
    if (status == LKS_OK && lks_comm_rank(comm) == 0) talk(cli, recipe, code, &all, notes);
    return status;
}

lks_status doctor_across(const cli_args *cli, int *code)
{
    return cli_with_ranks(cli, code, look_together);
}
