! Causal attention of 4 query heads over 2 key/value heads, and its gradients, in Fortran by iso_c_binding. Reads q, k, v and dout
! from files of the current folder and writes out, lse, dq, dk and dv.
!
!   gfortran client.f90 -lfa

! The part of fa.h that this program needs. The types have all of their fields, in the header's order.
module fa
  use iso_c_binding
  implicit none

  integer(c_int32_t), parameter :: FA_OK = 0, FA_F32 = 1, FA_MASK_CAUSAL = 1

  type, bind(c) :: fa_tensor
    type(c_ptr) :: data
    integer(c_int64_t) :: shape(4), stride(4)
    integer(c_int32_t) :: dtype, reserved
  end type

  type, bind(c) :: fa_desc
    integer(c_size_t) :: struct_size
    integer(c_int32_t) :: device, device_index, dtype_q, dtype_kv, dtype_out, mask
    integer(c_int64_t) :: head_dim, head_dim_v, window_left, window_right, attention_chunk
    real(c_float) :: softmax_scale, softcap
    integer(c_int32_t) :: flags, num_threads
    type(c_funptr) :: parallel_for
    type(c_ptr) :: parallel_for_user
  end type

  type, bind(c) :: fa_forward_args
    integer(c_size_t) :: struct_size
    type(fa_tensor) :: q, k, v, out, lse, bias, mask, alibi_slopes, sinks, block_table
    type(c_ptr) :: cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k, kv_batch_idx, q_offset
    integer(c_int64_t) :: num_seqs, max_seqlen_q, max_seqlen_k
    integer(c_int32_t) :: num_splits, reserved
    type(c_ptr) :: workspace
    integer(c_size_t) :: workspace_size
    type(c_ptr) :: stream
  end type

  type, bind(c) :: fa_backward_args
    integer(c_size_t) :: struct_size
    type(fa_tensor) :: q, k, v, out, lse, dout, dq, dk, dv, dlse, delta
    type(fa_tensor) :: bias, mask, alibi_slopes, sinks, block_table, dbias, dsinks
    type(c_ptr) :: cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k, kv_batch_idx, q_offset
    integer(c_int64_t) :: num_seqs, max_seqlen_q, max_seqlen_k
    integer(c_int32_t) :: accumulate, reserved
    type(c_ptr) :: workspace
    integer(c_size_t) :: workspace_size
    type(c_ptr) :: stream
  end type

  interface
    subroutine fa_desc_init(desc, struct_size) bind(c)
      import
      type(fa_desc), intent(out) :: desc
      integer(c_size_t), value :: struct_size
    end subroutine

    subroutine fa_forward_args_init(args, struct_size) bind(c)
      import
      type(fa_forward_args), intent(out) :: args
      integer(c_size_t), value :: struct_size
    end subroutine

    subroutine fa_backward_args_init(args, struct_size) bind(c)
      import
      type(fa_backward_args), intent(out) :: args
      integer(c_size_t), value :: struct_size
    end subroutine

    subroutine fa_tensor_init(tensor, data, dtype, d0, d1, d2, d3) bind(c)
      import
      type(fa_tensor), intent(out) :: tensor
      type(c_ptr), value :: data
      integer(c_int32_t), value :: dtype
      integer(c_int64_t), value :: d0, d1, d2, d3
    end subroutine

    function fa_create(desc, op) result(status) bind(c)
      import
      type(fa_desc), intent(in) :: desc
      type(c_ptr), intent(out) :: op
      integer(c_int32_t) :: status
    end function

    function fa_forward(op, args) result(status) bind(c)
      import
      type(c_ptr), value :: op
      type(fa_forward_args), intent(in) :: args
      integer(c_int32_t) :: status
    end function

    function fa_backward(op, args) result(status) bind(c)
      import
      type(c_ptr), value :: op
      type(fa_backward_args), intent(in) :: args
      integer(c_int32_t) :: status
    end function

    subroutine fa_destroy(op) bind(c)
      import
      type(c_ptr), value :: op
    end subroutine

    function fa_last_error() result(text) bind(c)
      import
      type(c_ptr) :: text
    end function

    function strlen(text) result(length) bind(c)
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  subroutine check(status)
    integer(c_int32_t), intent(in) :: status
    type(c_ptr) :: text
    character(kind=c_char), pointer :: characters(:)
    if (status == FA_OK) return
    text = fa_last_error()
    call c_f_pointer(text, characters, [strlen(text)])
    write (0, '(*(a))') characters
    stop 1
  end subroutine

end module

program client
  use fa
  implicit none

  integer(c_int64_t), parameter :: batch = 2, queries = 5, keys = 9, heads = 4, kv_heads = 2, dim = 16, one = 1

  ! Fortran's first index is the fastest: the last dimension of fa.h comes first.
  real(c_float), dimension(dim, heads, queries, batch), target :: q, out, dout, dq
  real(c_float), dimension(dim, kv_heads, keys, batch), target :: k, v, dk, dv
  real(c_float), dimension(queries, heads, batch), target :: lse

  type(fa_desc) :: desc
  type(fa_forward_args) :: args
  type(fa_backward_args) :: backward
  type(c_ptr) :: op
  integer :: file

  open (newunit=file, file='q.f32', access='stream', status='old', action='read')
  read (file) q
  close (file)
  open (newunit=file, file='k.f32', access='stream', status='old', action='read')
  read (file) k
  close (file)
  open (newunit=file, file='v.f32', access='stream', status='old', action='read')
  read (file) v
  close (file)
  open (newunit=file, file='dout.f32', access='stream', status='old', action='read')
  read (file) dout
  close (file)

  call fa_desc_init(desc, c_sizeof(desc))
  desc%dtype_q = FA_F32
  desc%head_dim = dim
  desc%mask = FA_MASK_CAUSAL
  call check(fa_create(desc, op))

  call fa_forward_args_init(args, c_sizeof(args))
  call fa_tensor_init(args%q, c_loc(q), FA_F32, batch, queries, heads, dim)
  call fa_tensor_init(args%k, c_loc(k), FA_F32, batch, keys, kv_heads, dim)
  call fa_tensor_init(args%v, c_loc(v), FA_F32, batch, keys, kv_heads, dim)
  call fa_tensor_init(args%out, c_loc(out), FA_F32, batch, queries, heads, dim)
  call fa_tensor_init(args%lse, c_loc(lse), FA_F32, batch, heads, queries, one) ! the backward pass reads it
  call check(fa_forward(op, args))

  call fa_backward_args_init(backward, c_sizeof(backward))
  backward%q = args%q
  backward%k = args%k
  backward%v = args%v
  backward%out = args%out
  backward%lse = args%lse
  call fa_tensor_init(backward%dout, c_loc(dout), FA_F32, batch, queries, heads, dim)
  call fa_tensor_init(backward%dq, c_loc(dq), FA_F32, batch, queries, heads, dim)
  call fa_tensor_init(backward%dk, c_loc(dk), FA_F32, batch, keys, kv_heads, dim)
  call fa_tensor_init(backward%dv, c_loc(dv), FA_F32, batch, keys, kv_heads, dim)
  call check(fa_backward(op, backward))
  call fa_destroy(op)

  open (newunit=file, file='out.f32', access='stream', status='new', action='write')
  write (file) out
  close (file)
  open (newunit=file, file='lse.f32', access='stream', status='new', action='write')
  write (file) lse
  close (file)
  open (newunit=file, file='dq.f32', access='stream', status='new', action='write')
  write (file) dq
  close (file)
  open (newunit=file, file='dk.f32', access='stream', status='new', action='write')
  write (file) dk
  close (file)
  open (newunit=file, file='dv.f32', access='stream', status='new', action='write')
  write (file) dv
  close (file)
end program
