/* Addresses by object: what the player prints for one, what a script's word for one means, and which objects are gone. */
#include "player.h"

static u64 first_place;

void say(struct player *p, const char *format, ...)
{
    if (p->room - p->used < 4096)
        p->out = realloc(p->out, p->room += 65536);
    va_list list;
    va_start(list, format);
    p->used += (size_t)vsnprintf(p->out + p->used, 4096, format, list);
    va_end(list);
}

/* ---- Names for addresses ------------------------------------------------------------------------------------------- */

/* A query's answer, or false. Prints nothing. */
bool ask(u64 address, HsaPointerInfo *info)
{
    memset(info, 0xaa, sizeof *info);
    return hsaKmtQueryPointerInfo((void *)address, info) == HSAKMT_STATUS_SUCCESS;
}

static const struct symbol *symbol_at(const struct player *p, u64 address)
{
    for (int i = p->count - 1; i >= 0; i--) {
        const struct symbol *s = &p->symbols[i];
        if (s->alive && address >= s->start && address < s->start + s->size)
            return s;
    }
    return NULL;
}

/* A host buffer's number, or -1. The guard behind a buffer counts as its own. */
static int host_at(u64 address)
{
    for (int i = 0; i < HOSTS; i++)
        if (address >= hosts[i] && address < hosts[i] + 2 * HOST_BYTES)
            return i;
    return -1;
}

static struct seen *seen_of(struct player *p, u64 cpu, u64 size)
{
    for (int i = 0; i < p->seen_count; i++)
        if (p->seen[i].cpu == cpu && p->seen[i].size == size)
            return &p->seen[i];
    if (p->seen_count == MOST_SYMBOLS)
        return &p->seen[0];
    struct seen *s = &p->seen[p->seen_count++];
    *s = (struct seen){.cpu = cpu, .size = size};
    return s;
}

/* The name of a registered range's GPU address; it must stay where it is while the object lives, alone on its pages. */
struct name name_gpu(struct player *p, u64 cpu, u64 size, u64 gpu)
{
    struct seen *s = seen_of(p, cpu, size);
    u64 page = gpu & ~(PAGE - 1);
    const char *moved = s->sure && s->page != page ? "MOVED" : "";
    for (int i = 0; i < p->seen_count; i++)
        if (&p->seen[i] != s && p->seen[i].sure && p->seen[i].page == page)
            moved = "SHARED";
    s->page = page, s->sure = true;
    struct name n;
    snprintf(n.text, sizeof n.text, "%sg(%.64s,0x%lx)+0x%lx", moved, name_of(p, cpu).text, size, gpu & (PAGE - 1));
    return n;
}

struct name name_of(struct player *p, u64 address)
{
    struct name n;
    int host = host_at(address);
    const struct symbol *s = symbol_at(p, address);
    for (int i = 0; !s && i < THREADS && !p->together; i++)
        s = symbol_at(&players[i], address);
    if (!address)
        snprintf(n.text, sizeof n.text, "0");
    else if (s)
        snprintf(n.text, sizeof n.text, "A%d.%d.%d+0x%lx", s->thread, s->slot, s->birth, address - s->start);
    else if (host >= 0)
        snprintf(n.text, sizeof n.text, "H%d+0x%lx", host, address - hosts[host]);
    else
        snprintf(n.text, sizeof n.text, "?");
    return n;
}

/* The name of an address that a map call gave back. */
struct name name_alternate(struct player *p, u64 address)
{
    HsaPointerInfo info;
    struct name n = name_of(p, address);
    if (n.text[0] == '?' && ask(address, &info) && info.Type == HSA_POINTER_REGISTERED_USER) {
        u64 offset = address - info.GPUAddress;
        struct name g = name_gpu(p, (u64)info.CPUAddress, info.SizeInBytes, info.GPUAddress);
        snprintf(n.text, sizeof n.text, "%.128s+0x%lx", g.text, offset);
    }
    return n;
}

/* ---- Objects that are gone ----------------------------------------------------------------------------------------- */

static bool found(const struct symbol *s)
{
    u64 step = s->size / 8 < PAGE ? PAGE : s->size / 8 & ~(PAGE - 1);
    HsaPointerInfo info;
    for (u64 at = s->start; at < s->start + s->size; at += step)
        if (ask(at, &info) && info.Type != HSA_POINTER_REGISTERED_USER && info.GPUAddress == s->start)
            return true;
    return false;
}

/* After a call that may have ended objects: says which are gone, and keeps their addresses. */
void bury(struct player *p)
{
    for (int i = 0; i < p->seen_count; i++)
        p->seen[i].sure = false;
    for (int i = 0; i < p->count; i++) {
        struct symbol *s = &p->symbols[i];
        if (!s->alive || found(s))
            continue;
        say(p, " gone=A%d.%d.%d", s->thread, s->slot, s->birth);
        s->alive = false;
        s->kept = dangling && !p->together;
        if (s->kept) /* refused where the library keeps the range itself: that is as good */
            mmap((void *)s->start, s->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    }
}

/* What a call that ends objects is about to find. */
void say_was(struct player *p, u64 address)
{
    HsaPointerInfo info;
    if (ask(address, &info))
        say(p, " was=%d,%u", info.Type, info.NMappedNodes);
}

struct symbol *bear(struct player *p, int slot, u64 start, u64 size)
{
    int birth = 0;
    for (int i = 0; i < p->count; i++)
        birth += p->symbols[i].slot == slot;
    if (p->count == MOST_SYMBOLS)
        exit(3);
    HsaPointerInfo info;
    if (ask(start, &info) && info.GPUAddress == start && info.SizeInBytes)
        size = info.SizeInBytes;
    struct symbol *s = &p->symbols[p->count++];
    *s = (struct symbol){p->thread, slot, birth, start, size, true, false};
    say(p, " made=A%d.%d.%d", p->thread, slot, birth);
    if (placed) {
        first_place = first_place ? first_place : start;
        say(p, " at=%ld", (long)(start - first_place));
    }
    return s;
}

/* ---- Reading a line ------------------------------------------------------------------------------------------------ */

static const struct symbol *in_slot(int thread, int slot)
{
    const struct player *p = &players[thread];
    for (int i = p->count - 1; i >= 0; i--)
        if (p->symbols[i].slot == slot)
            return &p->symbols[i];
    return NULL;
}

/* 0 | W<hex> | H<n>+<hex> | A<thread>.<slot>+<hex> | g<n>+<hex>+<hex>: GPU address of what is registered there. */
struct target target(struct player *p, const char *word)
{
    struct target t = {0, NULL, NULL, UINT64_MAX};
    unsigned number = 0, slot = 0;
    long offset = 0, more = 0;
    if (sscanf(word, "H%u+%li", &number, &offset) == 2) {
        t.address = hosts[number % HOSTS] + (u64)offset;
    } else if (sscanf(word, "g%u+%li+%li", &number, &offset, &more) == 3) {
        HsaPointerInfo info;
        if (!ask(hosts[number % HOSTS] + (u64)offset, &info) || info.Type != HSA_POINTER_REGISTERED_USER)
            t.none = "unregistered";
        else {
            /* Not beyond the pages of the object: what lies there differs. */
            u64 extent = ((info.GPUAddress & (PAGE - 1)) + info.SizeInBytes + PAGE - 1) & ~(PAGE - 1);
            u64 start = info.GPUAddress & ~(PAGE - 1), in = (info.GPUAddress - start) + (u64)more;
            t.address = start + (in >= extent ? extent - 1 : in);
        }
    } else if (sscanf(word, "A%u.%u+%li", &number, &slot, &offset) == 3) {
        const struct symbol *s = in_slot((int)(number % THREADS), (int)slot);
        if (!s)
            t.none = "empty";
        else if (!s->alive && (!s->kept || p->together || offset < 0 || (u64)offset >= s->size))
            t.none = "gone";
        else {
            t.address = s->start + (u64)offset;
            t.room = s->size - (u64)offset;
            if (offset < 0 || (u64)offset >= s->size)
                t.outside = s;
        }
    } else if (word[0] == 'W') {
        t.address = strtoul(word + 1, NULL, 16);
    }
    return t;
}

/* "1,2" | "-" (none of them) | "null" (a null array that is said to have one). */
unsigned nodes(const char *word, HSAuint32 *array, HSAuint32 **pointer)
{
    unsigned count = 0;
    *pointer = array;
    if (!strcmp(word, "null")) {
        *pointer = NULL;
        return 1;
    }
    for (; *word && *word != '-' && count < MOST_NODES; word += *word == ',')
        array[count++] = (HSAuint32)strtoul(word, (char **)&word, 0);
    return count;
}
