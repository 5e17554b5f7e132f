// A buffer that a graphics library made, taken over by libhsakmt: the way of an OpenGL texture into compute. Uses
// libdrm for the one side and whichever libhsakmt it is linked to for the other. Prints what came over.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <fcntl.h>
#include HSAKMT_H
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MUST(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); return 1; } } while (0)

static int take_over(amdgpu_device_handle device, unsigned metadata_size)
{
	struct amdgpu_bo_alloc_request request = { .alloc_size = 4 << 20, .phys_alignment = 4096, .preferred_heap = AMDGPU_GEM_DOMAIN_VRAM };
	amdgpu_bo_handle buffer;
	uint32_t fd;
	MUST(amdgpu_bo_alloc(device, &request, &buffer) == 0);
	struct amdgpu_bo_metadata metadata = { .size_metadata = metadata_size };
	for (unsigned i = 0; i < metadata_size / 4; i++)
		metadata.umd_metadata[i] = 0x100 + i;
	MUST(amdgpu_bo_set_metadata(buffer, &metadata) == 0);
	MUST(amdgpu_bo_export(buffer, amdgpu_bo_handle_type_dma_buf_fd, &fd) == 0);

	HsaGraphicsResourceInfo info;
	HSAuint32 node = 1;
	HsaPointerInfo pointer;
	MUST(hsaKmtRegisterGraphicsHandleToNodes(fd, &info, 1, &node) == HSAKMT_STATUS_SUCCESS);
	printf("size 0x%llx metadata %u\n", (unsigned long long)info.SizeInBytes, info.MetadataSizeInBytes);
	for (unsigned i = 0; i < metadata_size / 4; i++)
		MUST(((const unsigned *)info.Metadata)[i] == 0x100 + i);
	MUST(((unsigned long)info.MemoryAddress & 0x3ffff) == 0);
	MUST(hsaKmtQueryPointerInfo((char *)info.MemoryAddress + 5, &pointer) == HSAKMT_STATUS_SUCCESS);
	printf("type %d node %u flags 0x%x cpu %p\n", pointer.Type, pointer.Node, pointer.MemFlags.Value, pointer.CPUAddress);
	HSAuint64 alternate;
	MUST(hsaKmtMapMemoryToGPU(info.MemoryAddress, 4 << 20, &alternate) == HSAKMT_STATUS_SUCCESS);
	close(fd);
	MUST(amdgpu_bo_free(buffer) == 0);
	MUST(hsaKmtUnmapMemoryToGPU(info.MemoryAddress) == HSAKMT_STATUS_SUCCESS);
	MUST(hsaKmtDeregisterMemory(info.MemoryAddress) == HSAKMT_STATUS_SUCCESS);
	return 0;
}

int main(void)
{
	HsaSystemProperties system;
	uint32_t major, minor;
	amdgpu_device_handle device;
	MUST(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS && hsaKmtAcquireSystemProperties(&system) == HSAKMT_STATUS_SUCCESS);
	int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	MUST(fd >= 0 && amdgpu_device_initialize(fd, &major, &minor, &device) == 0);
	printf("drm %u.%u\n", major, minor);
	if (take_over(device, 16) || take_over(device, 256) || take_over(device, 0))
		return 1;
	amdgpu_device_deinitialize(device);
	return 0;
}
