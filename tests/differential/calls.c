/* The calls that have more than a status to tell. */
#include "player.h"

static void say_list(struct player *p, const char *what, unsigned count, const HSAuint32 *list)
{
    say(p, " %s=%u", what, count);
    if (!list)
        say(p, "(null)");
    else
        for (unsigned i = 0; i < count && i < 64; i++)
            say(p, "%c%u", i ? ',' : ':', list[i]);
}

void query(struct player *p, struct target t)
{
    HsaPointerInfo info;
    memset(&info, 0xaa, sizeof info);
    int status = hsaKmtQueryPointerInfo((void *)t.address, &info);
    if (t.outside) {
        bool self = status == HSAKMT_STATUS_SUCCESS && info.Type != HSA_POINTER_REGISTERED_USER && info.GPUAddress == t.outside->start;
        say(p, " outside self=%d", self);
        return;
    }
    say(p, " %d", status);
    if (info.NRegisteredNodes == 0xaaaaaaaa) {
        say(p, " untouched");
        return;
    }
    u64 cpu = (u64)info.CPUAddress;
    struct name gpu = info.Type == HSA_POINTER_REGISTERED_USER ? name_gpu(p, cpu, info.SizeInBytes, info.GPUAddress) : name_of(p, info.GPUAddress);
    say(p, " Type=%d Node=%u MemFlags=0x%x CPU=%s GPU=%s Size=0x%lx", info.Type, info.Node, info.MemFlags.Value, name_of(p, cpu).text, gpu.text, (u64)info.SizeInBytes);
    say_list(p, "Registered", info.NRegisteredNodes, info.RegisteredNodes);
    say_list(p, "Mapped", info.NMappedNodes, info.MappedNodes);
    say(p, " User=0x%lx", (u64)info.UserData);
}

void allocate(struct player *p, int slot, unsigned node, u64 size, u64 flags, u64 alignment, struct target fixed)
{
    HsaMemFlags f;
    f.Value = (HSAuint32)flags;
    void *address = (void *)(f.ui32.FixedAddress ? fixed.address : 0x123);
    int status;
#ifdef NEWTHUNK
    if (alignment)
        status = hsaKmtAllocMemoryAlign(node, size, alignment, f, &address);
    else
#endif
        status = hsaKmtAllocMemory(node, size, f, &address);
    say(p, " %d", status);
    if (status != HSAKMT_STATUS_SUCCESS) {
        if (!f.ui32.FixedAddress)
            say(p, " address=%s", !address ? "0" : address == (void *)0x123 ? "untouched" : "?");
        return;
    }
    if (f.ui32.FixedAddress && (u64)address != fixed.address)
        say(p, " ELSEWHERE");
    if (alignment && (u64)address & (alignment - 1))
        say(p, " UNALIGNED");
    bear(p, slot, (u64)address, size);
    const HSAuint32 no_memory = 1u << 18 | 1u << 19; /* NoAddress, OnlyAddress */
    if (f.ui32.HostAccess && !f.ui32.Scratch && !(f.Value & no_memory)) {
        /* A page at either end is the caller's to write. */
        volatile unsigned char *bytes = address;
        bytes[0] = 1, bytes[size - 1] = 2;
        say(p, " bytes=%d", bytes[0] + bytes[size - 1]);
    }
}

void node_properties(struct player *p, unsigned node)
{
    HsaNodeProperties n;
    memset(&n, 0, sizeof n);
    int status = hsaKmtGetNodeProperties(node, &n);
    say(p, " %d", status);
    if (status)
        return;
    say(p, " cores=%u simds=%u banks=%u caches=%u links=%u lo=%u,%u capability=0x%x", n.NumCPUCores, n.NumFComputeCores, n.NumMemoryBanks, n.NumCaches, n.NumIOLinks, n.CComputeIdLo, n.FComputeIdLo, n.Capability.Value & 0x3fffffff);
    say(p, " waves=%u lds=%u gds=%u wave=%u banks=%u arrays=%u cus=%u simd=%u slots=%u", n.MaxWavesPerSIMD, n.LDSSizeInKB, n.GDSSizeInKB, n.WaveFrontSize, n.NumShaderBanks, n.NumArrays, n.NumCUPerArray, n.NumSIMDPerCU, n.MaxSlotsScratchCU);
    say(p, " engine=%u.%u.%u vendor=0x%x device=0x%x location=0x%x local=0x%lx clocks=%u,%u minor=%d", n.EngineId.ui32.Major, n.EngineId.ui32.Minor, n.EngineId.ui32.Stepping, n.VendorId, n.DeviceId, n.LocationId, (u64)n.LocalMemSize, n.MaxEngineClockMhzFCompute, n.NumCPUCores ? 0 : n.MaxEngineClockMhzCCompute, n.DrmRenderMinor);
    say(p, " ucode=0x%x debug=0x%lx hive=0x%lx sdma=%u,%u,%u cp=%u gws=%u domain=%u unique=0x%lx", n.uCodeEngineVersions.Value, (u64)n.DebugProperties.Value, (u64)n.HiveID, n.NumSdmaEngines, n.NumSdmaXgmiEngines, n.NumSdmaQueuesPerEngine, n.NumCpQueues, n.NumGws, n.Domain, (u64)n.UniqueID);
}

void banks(struct player *p, unsigned node, unsigned count)
{
    HsaMemoryProperties banks[8];
    memset(banks, 0, sizeof banks);
    int status = hsaKmtGetNodeMemoryProperties(node, count < 8 ? count : 8, banks);
    say(p, " %d", status);
    for (unsigned i = 0; !status && i < count && i < 8; i++)
        say(p, " heap=%d size=0x%lx flags=0x%x width=%u clock=%u", banks[i].HeapType, (u64)banks[i].SizeInBytes, banks[i].Flags.MemoryProperty, banks[i].Width, banks[i].MemoryClockMax);
}

void links(struct player *p, unsigned node, unsigned count)
{
    HsaIoLinkProperties links[8];
    memset(links, 0, sizeof links);
    int status = hsaKmtGetNodeIoLinkProperties(node, count < 8 ? count : 8, links);
    say(p, " %d", status);
    for (unsigned i = 0; !status && i < count && i < 8; i++)
        say(p, " %d:%u-%u weight=%u bandwidth=%u-%u flags=0x%x", links[i].IoLinkType, links[i].NodeFrom, links[i].NodeTo, links[i].Weight, links[i].MinimumBandwidth, links[i].MaximumBandwidth, links[i].Flags.LinkProperty);
}

void tile(struct player *p, unsigned node)
{
    HSAuint32 tiles[64], macros[64];
    HsaGpuTileConfig config;
    memset(&config, 0, sizeof config);
    config.TileConfig = tiles, config.MacroTileConfig = macros;
    config.NumTileConfigs = config.NumMacroTileConfigs = 64;
    int status = hsaKmtGetTileConfig(node, &config);
    say(p, " %d tiles=%u,%u gb=0x%x banks=%u ranks=%u", status, config.NumTileConfigs, config.NumMacroTileConfigs, config.GbAddrConfig, config.NumBanks, config.NumRanks);
}

void share(struct player *p, int which, struct target t, u64 size)
{
    struct handle *h = &p->handles[which & 7];
    int status = hsaKmtShareMemory((void *)t.address, size, &h->handle);
    say(p, " %d", status);
    h->made = h->made || status == HSAKMT_STATUS_SUCCESS;
}

void import(struct player *p, int slot, int which, const char *list)
{
    struct handle *h = &p->handles[which & 7];
    HSAuint32 array[MOST_NODES], *pointer;
    if (!h->made) {
        say(p, " none");
        return;
    }
    void *address = NULL;
    HSAuint64 size = 0;
    unsigned count = nodes(list, array, &pointer);
    int status = strcmp(list, "all") ? hsaKmtRegisterSharedHandleToNodes(&h->handle, &address, &size, count, pointer)
                                     : hsaKmtRegisterSharedHandle(&h->handle, &address, &size);
    say(p, " %d", status);
    if (status == HSAKMT_STATUS_SUCCESS) {
        say(p, " size=0x%lx", (u64)size);
        bear(p, slot, (u64)address, size);
    }
}

/* Attributes "type:value,type:value"; the values come back from a get. */
void svm(struct player *p, bool get, struct target t, u64 size, const char *list)
{
    HSA_SVM_ATTRIBUTE attributes[16];
    unsigned count = 0;
    for (; *list && *list != '-' && count < 16; list += *list == ',') {
        attributes[count].type = (HSAuint32)strtoul(list, (char **)&list, 0);
        attributes[count++].value = (HSAuint32)strtoul(list + (*list == ':'), (char **)&list, 0);
    }
    int status = get ? hsaKmtSVMGetAttr((void *)t.address, size, count, attributes) : hsaKmtSVMSetAttr((void *)t.address, size, count, attributes);
    say(p, " %d", status);
    for (unsigned i = 0; get && status == HSAKMT_STATUS_SUCCESS && i < count; i++)
        say(p, " %u:0x%x", attributes[i].type, attributes[i].value);
}

#ifdef NEWTHUNK
void export(struct player *p, struct target t, u64 size, int slot, const char *list)
{
    int fd = -1;
    HSAuint64 offset = 0;
    int status = hsaKmtExportDMABufHandle((void *)t.address, size, &fd, &offset);
    say(p, " %d", status);
    if (status != HSAKMT_STATUS_SUCCESS)
        return;
    say(p, " offset=0x%lx", (u64)offset);
    if (slot >= 0) {
        HSAuint32 array[MOST_NODES], *pointer;
        unsigned count = nodes(list, array, &pointer);
        HsaGraphicsResourceInfo info;
        memset(&info, 0, sizeof info);
        status = hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)fd, &info, count, pointer);
        say(p, " import=%d", status);
        if (status == HSAKMT_STATUS_SUCCESS) {
            say(p, " size=0x%lx metadata=%lu node=%u", (u64)info.SizeInBytes, (u64)info.MetadataSizeInBytes, info.NodeId);
            bear(p, slot, (u64)info.MemoryAddress, info.SizeInBytes);
        }
    }
    close(fd);
}
#endif

/* What a forked child sees: nothing of the parent's until it opens, and then a process of its own. */
void forked(struct player *p, struct target t)
{
    int ends[2];
    if (pipe(ends))
        exit(3);
    pid_t child = fork();
    if (!child) {
        struct player c = *p;
        c.out = NULL, c.used = c.room = 0;
        HsaSystemProperties system;
        alarm(60);
        say(&c, " (");
        query(&c, t);
        /* What the parent mapped there is not mapped here: nothing new may come to lie there by luck. */
        for (int i = 0; i < c.count && !getenv("HSA_RESERVE_SVM"); i++)
            mmap((void *)c.symbols[i].start, c.symbols[i].size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        say(&c, " user=%d", hsaKmtSetMemoryUserData((void *)t.address, NULL));
        say(&c, " register=%d", hsaKmtRegisterMemory((void *)hosts[0], 64));
        say(&c, " close=%d", hsaKmtCloseKFD());
        say(&c, " open=%d", hsaKmtOpenKFD());
        hsaKmtReleaseSystemProperties();
        say(&c, " acquire=%d", hsaKmtAcquireSystemProperties(&system));
        query(&c, t);
        for (int i = 0; i < c.count; i++)
            c.symbols[i].alive = false;
        allocate(&c, 99, 1, 4096, 1, 0, t);
        say(&c, " )");
        if (write(ends[1], c.out, c.used) < 0)
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    char text[4096];
    ssize_t got;
    while ((got = read(ends[0], text, sizeof text)) > 0)
        say(p, "%.*s", (int)got, text);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        say(p, " child died %d", WTERMSIG(status));
}
