/* Plays sequences of calls on a libhsakmt and prints what it answered, in words that do not depend on where things lie.
 *
 * In: sequences on stdin, each lines up to "end"; see script() for the language. Out: for each sequence one line per
 * call, "died SIGNAL" if a call ended the process, and "done". Every sequence runs in a child of its own, so nothing
 * survives it. Compiled once for each library, against that library's header: it uses only what both headers have,
 * unless NEWTHUNK says that the header is the 2025-08 one.
 *
 * Addresses are printed by object: A<slot>.<birth>+offset for what a call made, H<n>+offset for the player's own host
 * buffers, g(address,size)+offset for where a GPU sees a registered host range, ? for anything else. An object that
 * is gone keeps its address range (mapped without access), so that a call on a dangling address cannot find by luck
 * what one library put there and another did not. A query outside its object says only whether it found the object.
 */
#include "player.h"

struct player players[THREADS];
u64 hosts[HOSTS];
bool dangling, placed;
int openings;

/* ---- The script ---------------------------------------------------------------------------------------------------- */

#define STATUS(call) say(p, " %d", (int)(call))
#define IS(word) (!strcmp(verb, word))

/* One call. The words behind the verb:
 *   alloc SLOT NODE SIZE FLAGS ALIGNMENT ADDRESS      free ADDRESS SIZE             query ADDRESS
 *   register ADDRESS SIZE                             register-to ADDRESS SIZE NODES register-with ADDRESS SIZE FLAGS
 *   deregister ADDRESS    unmap ADDRESS               map ADDRESS SIZE              map-to ADDRESS SIZE NODES
 *   user ADDRESS VALUE    share HANDLE ADDRESS SIZE   import SLOT HANDLE NODES|all  svm-set, svm-get ADDRESS SIZE LIST
 *   export ADDRESS SIZE SLOT|- NODES                  open close acquire release version fork ADDRESS
 *   node N  banks N COUNT  links N COUNT  tile N  xnack-get  xnack-set MODE  available NODE */
static void call_alone(struct player *p, const char *line)
{
    char verb[24] = "", w1[64] = "", w2[64] = "", w3[64] = "", w4[64] = "", w5[64] = "", w6[64] = "";
    sscanf(line, "%23s %63s %63s %63s %63s %63s %63s", verb, w1, w2, w3, w4, w5, w6);
    const u64 n1 = strtoul(w1, NULL, 0), n2 = strtoul(w2, NULL, 0), n3 = strtoul(w3, NULL, 0), n4 = strtoul(w4, NULL, 0), n5 = strtoul(w5, NULL, 0);
    const bool first = strchr("HAWg0", w1[0]) != NULL; /* the address is the first word, or else the last or second */
    const struct target t = target(p, IS("alloc") ? w6 : first && !IS("share") ? w1 : w2);
    const u64 size = n2 < t.room ? n2 : t.room; /* of memory that is read or registered */
    void *address = (void *)t.address;
    HSAuint32 array[MOST_NODES], *pointer = NULL;
    HSAuint64 alternate = 0xdead;
    HsaMemMapFlags mapping;
    mapping.Value = 0;
    say(p, "%d %s", p->thread, verb);
    if (t.none || (t.outside && !IS("query"))) {
        say(p, " %s\n", t.none ? t.none : "outside");
        return;
    }
    if (IS("alloc"))
        allocate(p, (int)n1, (unsigned)n2, n3, n4, n5, t);
    else if (IS("query"))
        query(p, t);
    else if (IS("free"))
        say_was(p, t.address), STATUS(hsaKmtFreeMemory(address, n2)), bury(p);
    else if (IS("register"))
        STATUS(hsaKmtRegisterMemory(address, size));
    else if (IS("register-to")) {
        unsigned count = nodes(w3, array, &pointer);
        STATUS(hsaKmtRegisterMemoryToNodes(address, size, count, pointer));
    } else if (IS("register-with")) {
        HsaMemFlags flags;
        flags.Value = (HSAuint32)n3;
        STATUS(hsaKmtRegisterMemoryWithFlags(address, size, flags));
    } else if (IS("deregister"))
        say_was(p, t.address), STATUS(hsaKmtDeregisterMemory(address)), bury(p);
    else if (IS("map")) {
        STATUS(hsaKmtMapMemoryToGPU(address, n2, &alternate));
        say(p, " alternate=%s", alternate == 0xdead ? "untouched" : name_alternate(p, alternate).text);
    } else if (IS("map-to")) {
        unsigned count = nodes(w3, array, &pointer);
        STATUS(hsaKmtMapMemoryToGPUNodes(address, n2, &alternate, mapping, count, pointer));
        say(p, " alternate=%s", alternate == 0xdead ? "untouched" : name_alternate(p, alternate).text);
    } else if (IS("unmap"))
        STATUS(hsaKmtUnmapMemoryToGPU(address));
    else if (IS("user"))
        STATUS(hsaKmtSetMemoryUserData(address, (void *)n2));
    else if (IS("query-null"))
        STATUS(hsaKmtQueryPointerInfo(address, NULL));
    else if (IS("share"))
        share(p, (int)n1, t, n3);
    else if (IS("import"))
        import(p, (int)n1, (int)n2, w3);
    else if (IS("svm-set") || IS("svm-get"))
        svm(p, IS("svm-get"), t, size, w3);
    else if (IS("fork"))
        forked(p, t);
    else if (IS("open")) {
        const int status = hsaKmtOpenKFD();
        openings += status == HSAKMT_STATUS_SUCCESS || status == HSAKMT_STATUS_KERNEL_ALREADY_OPENED;
        say(p, " %d", status);
    } else if (IS("open-close")) { /* in threads that run together, none of which may be the first to open */
        if (openings)
            STATUS(hsaKmtOpenKFD()), STATUS(hsaKmtCloseKFD());
        else
            say(p, " closed");
    } else if (IS("close")) {
        const int status = hsaKmtCloseKFD();
        openings -= status == HSAKMT_STATUS_SUCCESS;
        say(p, " %d", status);
        bury(p);
    }
    else if (IS("acquire")) {
        HsaSystemProperties system;
        memset(&system, 0xaa, sizeof system);
        STATUS(hsaKmtAcquireSystemProperties(&system));
        say(p, " nodes=%u", system.NumNodes);
    } else if (IS("acquire-null"))
        STATUS(hsaKmtAcquireSystemProperties(NULL));
    else if (IS("release"))
        STATUS(hsaKmtReleaseSystemProperties());
    else if (IS("version")) {
        HsaVersionInfo version = {0, 0};
        STATUS(hsaKmtGetVersion(&version));
        say(p, " %u.%u", version.KernelInterfaceMajorVersion, version.KernelInterfaceMinorVersion);
    } else if (IS("node"))
        node_properties(p, (unsigned)n1);
    else if (IS("banks"))
        banks(p, (unsigned)n1, (unsigned)n2);
    else if (IS("links"))
        links(p, (unsigned)n1, (unsigned)n2);
    else if (IS("tile"))
        tile(p, (unsigned)n1);
    else if (IS("xnack-set"))
        STATUS(hsaKmtSetXNACKMode((HSAint32)n1));
    else if (IS("xnack-get")) {
        HSAint32 mode = 7;
        STATUS(hsaKmtGetXNACKMode(&mode));
        say(p, " mode=%d", mode);
    }
#ifdef NEWTHUNK
    else if (IS("export"))
        export(p, t, n2, w3[0] == '-' ? -1 : (int)n3, w4);
    else if (IS("available")) {
        HSAuint64 bytes = 1;
        STATUS(hsaKmtAvailableMemory((HSAuint32)n1, &bytes));
        say(p, " bytes=0x%lx", (u64)bytes);
    }
#endif
    else
        say(p, " what?");
    say(p, "\n");
}

/* Whether a call gives addresses back, or takes new ones. */
static bool moves(const char *line)
{
    static const char *const verbs[] = {"alloc ", "free ", "register", "deregister ", "import ", "export "};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strncmp(line, verbs[i], strlen(verbs[i])))
            return true;
    return false;
}

/* Threads that run together take turns with calls that move addresses: else one may find, where its object has just gone,
 * what another has just made there. */
static void call(struct player *p, const char *line)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    const bool alone = p->together && moves(line);
    if (alone)
        pthread_mutex_lock(&turn);
    call_alone(p, line);
    if (alone)
        pthread_mutex_unlock(&turn);
}

static char *lines[MOST_LINES];
static int first_together, last_together;

static void *one_thread(void *argument)
{
    struct player *p = argument;
    for (int i = first_together; i < last_together; i++)
        if (lines[i][0] - '0' == p->thread)
            call(p, lines[i] + 2);
    return NULL;
}

static void flush(struct player *p)
{
    for (size_t at = 0; at < p->used;) {
        ssize_t put = write(STDOUT_FILENO, p->out + at, p->used - at);
        if (put <= 0)
            _exit(4);
        at += (size_t)put;
    }
    p->used = 0;
}

/* Lines: "# COMMENT"; "env NAME=VALUE" before anything else; "dangling" and "placed" switch those on; "THREAD CALL" is a call;
 * calls between "together" and "apart" run in as many threads as they name. */
static void script(int count)
{
    for (int i = 0; i < count; i++) {
        if (lines[i][0] == '#')
            continue;
        if (!strncmp(lines[i], "env ", 4))
            putenv(lines[i] + 4);
        else if (!strcmp(lines[i], "dangling"))
            dangling = true;
        else if (!strcmp(lines[i], "placed"))
            placed = true;
        else if (!strcmp(lines[i], "together")) {
            pthread_t threads[THREADS];
            for (first_together = last_together = i + 1; last_together < count && strcmp(lines[last_together], "apart");)
                last_together++;
            for (int t = 1; t < THREADS; t++)
                players[t].together = true, pthread_create(&threads[t], NULL, one_thread, &players[t]);
            for (int t = 1; t < THREADS; t++)
                pthread_join(threads[t], NULL);
            for (int t = 1; t < THREADS; t++)
                players[t].together = false, flush(&players[t]);
            i = last_together;
        } else {
            /* Said line by line, so that the calls before a crash are known. */
            struct player *p = &players[(lines[i][0] - '0') & (THREADS - 1)];
            call(p, lines[i] + 2);
            flush(p);
        }
    }
}

static void hosts_of_my_own(void)
{
    for (int i = 0; i < HOSTS; i++) {
        /* Far from where mmap puts things by itself, and the same in every run; a guard behind each. */
        hosts[i] = 0x300000000000ul + (u64)i * 16 * HOST_BYTES;
        void *at = mmap((void *)hosts[i], 2 * HOST_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (at != (void *)hosts[i] || mprotect(at, HOST_BYTES, i == HOSTS - 1 ? PROT_READ : PROT_READ | PROT_WRITE))
            exit(3);
    }
}

int main(void)
{
    static char text[1 << 16];
    size_t used = 0;
    int count = 0;
    while (fgets(text + used, (int)(sizeof text - used), stdin)) {
        char *line = text + used;
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, "end")) {
            if (count == MOST_LINES || used + strlen(line) + 256 > sizeof text)
                return 3;
            lines[count++] = line;
            used += strlen(line) + 1;
            continue;
        }
        pid_t child = fork();
        if (!child) {
            alarm(60);
            hosts_of_my_own();
            for (int t = 0; t < THREADS; t++)
                players[t].thread = t;
            script(count);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            printf("died %d\n", WTERMSIG(status));
        else if (WEXITSTATUS(status))
            printf("failed %d\n", WEXITSTATUS(status));
        printf("done\n");
        fflush(stdout);
        used = 0, count = 0;
    }
    return 0;
}
