# The CUDA device of the executor. cairn_find_cuda(<variable>) says in one line whether it is built,
# and cairn_add_cuda(<target>) adds it, where the variable is on; device_no_cuda.cc stands in for it
# elsewhere. nvcc chooses its own host compiler (CUDAHOSTCXX names another), as an older nvcc knows
# no newer g++ than its own time's.

set(cuda_device_sources executor/cuda/device_cuda.cc executor/cuda/kernels_first_half.cu
                        executor/cuda/kernels_second_half.cu)

macro(cairn_find_cuda result)
  set(${result} OFF)
  if(NOT CAIRN_CUDA)
    message(STATUS "CUDA: left out, as CAIRN_CUDA is off")
  else()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_ARCHITECTURES OFF)  # stated below
      enable_language(CUDA)
      foreach(config DEBUG RELEASE RELWITHDEBINFO)  # one object for all: ccache has it then
        set(CMAKE_CUDA_FLAGS_${config} "")
      endforeach()
      find_package(CUDAToolkit 11.8 REQUIRED)
      set(${result} ON)
      message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, for sm_80, sm_90 and newer by PTX")
    else()
      message(STATUS "CUDA: left out, as nvcc is not found or does not work here")
    endif()
  endif()
endmacro()

function(cairn_add_cuda target)
  target_sources(${target} PRIVATE ${cuda_device_sources})
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
                        CUDA_RUNTIME_LIBRARY Static)
  # Both kinds of GPU from one pass over the source, and PTX for newer ones. No fused multiply-add:
  # the CPU's code has none either, and what both compute then differs in exp, log and the like only.
  set(options "-gencode=arch=compute_80,code=[sm_80,sm_90,compute_80]" -fmad=false
              "-Xcompiler=-Wall,-Wextra")
  if(CAIRN_WERROR)
    list(APPEND options -Werror=all-warnings)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${options}>")
endfunction()
