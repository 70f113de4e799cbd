// Causal attention of 4 query heads over 2 key/value heads, and its gradients, in Go by cgo. Reads q, k, v and dout from files of
// the current folder and writes out, lse, dq, dk and dv.
//
//	go build client.go    (CGO_CFLAGS and CGO_LDFLAGS say where fa.h and libfa.so are)
package main

// #cgo LDFLAGS: -lfa
// #include <fa.h>
import "C"

import (
	"encoding/binary"
	"errors"
	"log"
	"os"
	"runtime"
	"unsafe"
)

const (
	batch, queries, keys, heads, kvHeads, dim = 2, 5, 9, 4, 2, 16

	qSize = batch * queries * heads * dim
	kSize = batch * keys * kvHeads * dim
)

// failure makes an error of a status. The text belongs to the thread that made the call: lock it before.
func failure(status C.fa_status) error {
	if status == C.FA_OK {
		return nil
	}
	return errors.New(C.GoString(C.fa_last_error()))
}

func create(desc *C.fa_desc) (op *C.fa_op, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = failure(C.fa_create(desc, &op))
	return op, err
}

func forward(op *C.fa_op, args *C.fa_forward_args) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return failure(C.fa_forward(op, args))
}

func backward(op *C.fa_op, args *C.fa_backward_args) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return failure(C.fa_backward(op, args))
}

// tensor describes a slice, whose memory is pinned first: C may hold a pointer to Go's memory only where that cannot move.
func tensor(pinner *runtime.Pinner, data []float32, d0, d1, d2, d3 int) (t C.fa_tensor) {
	pinner.Pin(&data[0])
	C.fa_tensor_init(&t, unsafe.Pointer(&data[0]), C.FA_F32, C.int64_t(d0), C.int64_t(d1), C.int64_t(d2), C.int64_t(d3))
	return t
}

func read(name string, n int) []float32 {
	file, err := os.Open(name)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	data := make([]float32, n)
	if err := binary.Read(file, binary.LittleEndian, data); err != nil {
		log.Fatal(err)
	}
	return data
}

func write(name string, data []float32) {
	file, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(binary.Write(file, binary.LittleEndian, data), file.Close()); err != nil {
		log.Fatal(err)
	}
}

func main() {
	q, k, v, dout := read("q.f32", qSize), read("k.f32", kSize), read("v.f32", kSize), read("dout.f32", qSize)
	out, lse := make([]float32, qSize), make([]float32, batch*heads*queries)
	dq, dk, dv := make([]float32, qSize), make([]float32, kSize), make([]float32, kSize)

	var pinner runtime.Pinner
	defer pinner.Unpin() // after the calls

	var desc C.fa_desc
	C.fa_desc_init(&desc, C.sizeof_fa_desc)
	desc.dtype_q = C.FA_F32
	desc.head_dim = dim
	desc.mask = C.FA_MASK_CAUSAL
	op, err := create(&desc)
	if err != nil {
		log.Fatal(err)
	}
	defer C.fa_destroy(op)

	var args C.fa_forward_args
	C.fa_forward_args_init(&args, C.sizeof_fa_forward_args)
	args.q = tensor(&pinner, q, batch, queries, heads, dim)
	args.k = tensor(&pinner, k, batch, keys, kvHeads, dim)
	args.v = tensor(&pinner, v, batch, keys, kvHeads, dim)
	args.out = tensor(&pinner, out, batch, queries, heads, dim)
	args.lse = tensor(&pinner, lse, batch, heads, queries, 1) // the backward pass reads it
	if err := forward(op, &args); err != nil {
		log.Fatal(err)
	}

	var grad C.fa_backward_args
	C.fa_backward_args_init(&grad, C.sizeof_fa_backward_args)
	grad.q, grad.k, grad.v, grad.out, grad.lse = args.q, args.k, args.v, args.out, args.lse
	grad.dout = tensor(&pinner, dout, batch, queries, heads, dim)
	grad.dq = tensor(&pinner, dq, batch, queries, heads, dim)
	grad.dk = tensor(&pinner, dk, batch, keys, kvHeads, dim)
	grad.dv = tensor(&pinner, dv, batch, keys, kvHeads, dim)
	if err := backward(op, &grad); err != nil {
		log.Fatal(err)
	}

	write("out.f32", out)
	write("lse.f32", lse)
	write("dq.f32", dq)
	write("dk.f32", dk)
	write("dv.f32", dv)
}
