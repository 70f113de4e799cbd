(* Causal attention of 4 query heads over 2 key/value heads, and its gradients, in OCaml by ctypes and the numbers of `schema/generate.py layout`.
   Reads q, k, v and dout from files of the current folder and writes out, lse, dq, dk and dv.

     ocamlfind ocamlopt -package ctypes.foreign -linkpkg client.ml *)
open Ctypes

module Fa = struct
  let library = Dl.dlopen ~filename:Sys.argv.(1) ~flags:[ Dl.RTLD_NOW ]
  let foreign name signature = Foreign.foreign ~from:library name signature
  let desc_init = foreign "fa_desc_init" (ptr char @-> size_t @-> returning void)
  let args_init = foreign "fa_forward_args_init" (ptr char @-> size_t @-> returning void)
  let backward_args_init = foreign "fa_backward_args_init" (ptr char @-> size_t @-> returning void)

  let tensor_init =
    foreign "fa_tensor_init"
      (ptr char @-> ptr float @-> int32_t @-> int64_t @-> int64_t @-> int64_t @-> int64_t @-> returning void)

  let create = foreign "fa_create" (ptr char @-> ptr (ptr void) @-> returning int32_t)
  let forward = foreign "fa_forward" (ptr void @-> ptr char @-> returning int32_t)
  let backward = foreign "fa_backward" (ptr void @-> ptr char @-> returning int32_t)
  let destroy = foreign "fa_destroy" (ptr void @-> returning void)
  let last_error = foreign "fa_last_error" (void @-> returning string)
  let ok = 0l
  let f32 = 1l
  let mask_causal = 1l
  let check status = if status <> ok then failwith (last_error ())
end

let batch, queries, keys, heads, kv_heads, dim = (2, 5, 9, 4, 2, 16)
let q_shape = [| batch; queries; heads; dim |]
let k_shape = [| batch; keys; kv_heads; dim |]
let lse_shape = [| batch; heads; queries; 1 |]

(* The garbage collector does not move a bigarray, but frees it once no OCaml code refers to it: a pointer in a structure of C is
   no such reference. Here the code that writes the results is, and [keep] is one for the inputs. *)
let floats shape = Bigarray.(Genarray.create float32 c_layout shape)
let keep values = ignore (Sys.opaque_identity values)

let read name shape =
  let data = floats shape in
  let elements = Bigarray.reshape_1 data (Array.fold_left ( * ) 1 shape) in
  let file = open_in_bin name in
  let bytes = really_input_string file (4 * Bigarray.Array1.dim elements) in
  close_in file;
  for i = 0 to Bigarray.Array1.dim elements - 1 do
    elements.{i} <- Int32.float_of_bits (String.get_int32_le bytes (4 * i))
  done;
  data

let write name data =
  let elements = Bigarray.reshape_1 data (Array.fold_left ( * ) 1 (Bigarray.Genarray.dims data)) in
  let bytes = Bytes.create (4 * Bigarray.Array1.dim elements) in
  for i = 0 to Bigarray.Array1.dim elements - 1 do
    Bytes.set_int32_le bytes (4 * i) (Int32.bits_of_float elements.{i})
  done;
  let file = open_out_bin name in
  output_bytes file bytes;
  close_out file

let structure init size =
  let memory = allocate_n char ~count:size in
  init memory (Unsigned.Size_t.of_int size);
  memory

(* Writes an fa_tensor at an offset of a structure. *)
let describe memory offset data =
  let d i = Int64.of_int (Bigarray.Genarray.nth_dim data i) in
  Fa.tensor_init (memory +@ offset) (bigarray_start genarray data) Fa.f32 (d 0) (d 1) (d 2) (d 3)

let () =
  let q = read "q.f32" q_shape and k = read "k.f32" k_shape and v = read "v.f32" k_shape in
  let dout = read "dout.f32" q_shape in
  let out = floats q_shape and lse = floats lse_shape in
  let dq = floats q_shape and dk = floats k_shape and dv = floats k_shape in

  let desc = structure Fa.desc_init 104 in
  from_voidp int32_t (to_voidp (desc +@ 16)) <-@ Fa.f32; (* dtype_q *)
  from_voidp int32_t (to_voidp (desc +@ 28)) <-@ Fa.mask_causal; (* mask *)
  from_voidp int64_t (to_voidp (desc +@ 32)) <-@ Int64.of_int dim; (* head_dim *)
  let created = allocate (ptr void) null in
  Fa.check (Fa.create desc created);
  let op = !@created in

  let args = structure Fa.args_init 920 in
  List.iter2 (describe args) [ 8; 88; 168; 248; 328 ] [ q; k; v; out; lse ]; (* the backward pass reads lse *)
  Fa.check (Fa.forward op args);

  let backward = structure Fa.backward_args_init 1560 in
  List.iter2 (describe backward)
    [ 8; 88; 168; 248; 328; 408; 488; 568; 648 ]
    [ q; k; v; out; lse; dout; dq; dk; dv ];
  Fa.check (Fa.backward op backward);
  Fa.destroy op;
  keep [ q; k; v; dout ];

  write "out.f32" out;
  write "lse.f32" lse;
  write "dq.f32" dq;
  write "dk.f32" dk;
  write "dv.f32" dv
