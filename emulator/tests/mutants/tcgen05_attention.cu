// ../kernels/tcgen05_attention.cu with a fault by number:
//
//   0 none                                         6 fewer bytes expected than come
//   1 values are not said to be transposed         7 lanes of another warp's quarter
//   2 scores read before their mma is done         8 no fence after waiting for the scores
//   3 tensor memory is not given back              9 scores used before tcgen05.wait::ld
//   4 nothing ends a step together                10 no tcgen05.wait::st before the product that reads it
//   5 the product before all have stored          11 no fence between the stores and the barrier
//
#define FAULT(number) (fault == (number))
#define FAULT_PARAMETER , int fault
#include "../kernels/tcgen05_attention.cu"
