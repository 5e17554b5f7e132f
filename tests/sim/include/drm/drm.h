// <linux/kfd_ioctl.h> includes this for its integer types; Debian keeps the real one in libdrm-dev.
#include <linux/ioctl.h>
#include <linux/types.h>
