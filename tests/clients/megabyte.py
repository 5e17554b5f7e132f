"""A megabyte to the GPU and back by tinygrad, a driver in user mode that shares no code with AMD's: it calls /dev/kfd by itself and
makes its own packets. Needs tinygrad 0.14 and DEV=KFD+AMD."""

from tinygrad import Device, Tensor

there = bytes((i * 7 + (i >> 9)) & 255 for i in range(1 << 20))
on_gpu = Tensor(there).to("AMD").realize()
back = bytes(on_gpu.data())
Device["AMD"].synchronize()
print(Device["AMD"].arch, len(back), "bytes there and back:", "the same" if back == there else "different")
