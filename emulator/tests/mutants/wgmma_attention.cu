// ../kernels/wgmma_attention.cu with a fault by number:
//
//   0 none                                         5 the producer does not wait for a stage to be empty
//   1 a descriptor that leads to the wrong rows    6 the consumer waits for the wrong phase
//   2 a stage given back before it is read         7 fewer bytes expected than come
//   3 the consumer does not wait for data          8 no wgmma.fence after writes of the registers
//   4 scores used before they are there
//
#define FAULT(number) (fault == (number))
#define FAULT_PARAMETER , int fault
#include "../kernels/wgmma_attention.cu"
