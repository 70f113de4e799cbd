// Causal attention of 4 query heads over 2 key/value heads, and its gradients, in Java 22 by java.lang.foreign and the numbers of
// `schema/generate.py layout`. Reads q, k, v and dout from files of the current folder and writes out, lse, dq, dk and dv.
//
//   java --enable-native-access=ALL-UNNAMED Client.java libfa.so.0

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;

final class Client {
    /** The functions of fa.h that this program calls. */
    static final class Fa {
        static final int OK = 0, F32 = 1, MASK_CAUSAL = 1;

        final MethodHandle descInit, argsInit, backwardArgsInit, tensorInit, create, forward, backward, destroy, lastError;

        Fa(Path library, Arena arena) {
            SymbolLookup symbols = SymbolLookup.libraryLookup(library, arena);
            descInit = procedure(symbols, "fa_desc_init", ADDRESS, JAVA_LONG);
            argsInit = procedure(symbols, "fa_forward_args_init", ADDRESS, JAVA_LONG);
            backwardArgsInit = procedure(symbols, "fa_backward_args_init", ADDRESS, JAVA_LONG);
            tensorInit =
                    procedure(symbols, "fa_tensor_init", ADDRESS, ADDRESS, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
            create = function(symbols, "fa_create", JAVA_INT, ADDRESS, ADDRESS);
            forward = function(symbols, "fa_forward", JAVA_INT, ADDRESS, ADDRESS);
            backward = function(symbols, "fa_backward", JAVA_INT, ADDRESS, ADDRESS);
            destroy = procedure(symbols, "fa_destroy", ADDRESS);
            lastError = function(symbols, "fa_last_error", ADDRESS);
        }

        static MethodHandle procedure(SymbolLookup symbols, String name, MemoryLayout... parameters) {
            return Linker.nativeLinker().downcallHandle(symbols.find(name).orElseThrow(), FunctionDescriptor.ofVoid(parameters));
        }

        static MethodHandle function(SymbolLookup symbols, String name, MemoryLayout result, MemoryLayout... parameters) {
            return Linker.nativeLinker().downcallHandle(symbols.find(name).orElseThrow(), FunctionDescriptor.of(result, parameters));
        }

        /** The text is the thread's: a virtual thread has to be pinned from the call up to here. */
        void check(int status) throws Throwable {
            if (status == OK) return;
            MemorySegment text = (MemorySegment) lastError.invokeExact();
            throw new IllegalStateException(text.reinterpret(Long.MAX_VALUE).getString(0));
        }
    }

    /** An array outside of Java's heap, where the garbage collector moves nothing. */
    record Tensor(MemorySegment data, long d0, long d1, long d2, long d3) {
        static Tensor allocate(Arena arena, long d0, long d1, long d2, long d3) {
            return new Tensor(arena.allocate(4 * d0 * d1 * d2 * d3, 4), d0, d1, d2, d3);
        }

        Tensor read(String name) throws IOException {
            byte[] bytes = Files.readAllBytes(Path.of(name));
            if (bytes.length != data.byteSize()) throw new IOException(name + " has " + bytes.length + " bytes");
            data.copyFrom(MemorySegment.ofArray(bytes));
            return this;
        }

        void write(String name) throws IOException {
            Files.write(Path.of(name), data.toArray(JAVA_BYTE));
        }

        /** Writes an fa_tensor at an offset of a structure. */
        void describe(Fa fa, MemorySegment structure, long offset) throws Throwable {
            fa.tensorInit.invokeExact(structure.asSlice(offset, 80), data, Fa.F32, d0, d1, d2, d3);
        }
    }

    static final long BATCH = 2, QUERIES = 5, KEYS = 9, HEADS = 4, KV_HEADS = 2, DIM = 16;

    static void attention(Fa fa, Arena arena) throws Throwable {
        Tensor q = Tensor.allocate(arena, BATCH, QUERIES, HEADS, DIM).read("q.f32");
        Tensor k = Tensor.allocate(arena, BATCH, KEYS, KV_HEADS, DIM).read("k.f32");
        Tensor v = Tensor.allocate(arena, BATCH, KEYS, KV_HEADS, DIM).read("v.f32");
        Tensor dout = Tensor.allocate(arena, BATCH, QUERIES, HEADS, DIM).read("dout.f32");
        Tensor out = Tensor.allocate(arena, BATCH, QUERIES, HEADS, DIM);
        Tensor lse = Tensor.allocate(arena, BATCH, HEADS, QUERIES, 1);
        Tensor dq = Tensor.allocate(arena, BATCH, QUERIES, HEADS, DIM);
        Tensor dk = Tensor.allocate(arena, BATCH, KEYS, KV_HEADS, DIM);
        Tensor dv = Tensor.allocate(arena, BATCH, KEYS, KV_HEADS, DIM);

        MemorySegment desc = arena.allocate(104, 8);
        fa.descInit.invokeExact(desc, desc.byteSize());
        desc.set(JAVA_INT, 16, Fa.F32); // dtype_q
        desc.set(JAVA_INT, 28, Fa.MASK_CAUSAL); // mask
        desc.set(JAVA_LONG, 32, DIM); // head_dim
        MemorySegment created = arena.allocate(ADDRESS);
        fa.check((int) fa.create.invokeExact(desc, created));
        MemorySegment op = created.get(ADDRESS, 0);

        MemorySegment args = arena.allocate(920, 8);
        fa.argsInit.invokeExact(args, args.byteSize());
        q.describe(fa, args, 8);
        k.describe(fa, args, 88);
        v.describe(fa, args, 168);
        out.describe(fa, args, 248);
        lse.describe(fa, args, 328); // the backward pass reads it
        fa.check((int) fa.forward.invokeExact(op, args));

        MemorySegment backward = arena.allocate(1560, 8);
        fa.backwardArgsInit.invokeExact(backward, backward.byteSize());
        q.describe(fa, backward, 8);
        k.describe(fa, backward, 88);
        v.describe(fa, backward, 168);
        out.describe(fa, backward, 248);
        lse.describe(fa, backward, 328);
        dout.describe(fa, backward, 408);
        dq.describe(fa, backward, 488);
        dk.describe(fa, backward, 568);
        dv.describe(fa, backward, 648);
        fa.check((int) fa.backward.invokeExact(op, backward));
        fa.destroy.invokeExact(op);

        out.write("out.f32");
        lse.write("lse.f32");
        dq.write("dq.f32");
        dk.write("dk.f32");
        dv.write("dv.f32");
    }

    public static void main(String[] arguments) throws Throwable {
        try (Arena arena = Arena.ofConfined()) {
            attention(new Fa(Path.of(arguments[0]), arena), arena);
        }
    }
}
