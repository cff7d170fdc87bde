#pragma once

// Functions that run on the host and, where a CUDA compiler reads this, on the device. The folder
// stays within C++17, the newest that CUDA 11 compiles.

#ifdef __CUDACC__
#define CAIRN_HOST_DEVICE __host__ __device__
// For what every functor calls and few need: inlined everywhere, it would be most of nvcc's work.
#define CAIRN_HOST_DEVICE_CALL __noinline__ __host__ __device__
#else
#define CAIRN_HOST_DEVICE
#define CAIRN_HOST_DEVICE_CALL [[gnu::noinline]]
#endif
