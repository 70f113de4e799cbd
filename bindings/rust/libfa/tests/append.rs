//! New keys and values in dense and paged caches, rotated on their way: all numbers of the cache are those that fa.h's text gives.
use libfa::half::f16;
use libfa::{
    AppendArgs, ComputedScales, DType, Device, Element, Error, ForwardArgs, Op, Result, TensorMut, TensorRef, Workspace,
};

const HEADS: usize = 2;
const D: usize = 8;
const ROW: usize = HEADS * D;
const ROTARY: usize = 6; // the elements of a head that have pairs
const POSITIONS: usize = 16;
const TABLE: [usize; 4] = [1, POSITIONS, 1, ROTARY / 2];
const OLD: f32 = -7.0; // the numbers of rows that nothing is written to

fn numbers(count: usize, seed: f64) -> Vec<f32> {
    (0..count).map(|i| (((i as f64 + seed) * 12.9898).sin() * 43758.5453).fract() as f32).collect()
}

/// The tables of cosines and sines.
fn tables() -> (Vec<f32>, Vec<f32>) {
    let angle = |i: usize| (i / (ROTARY / 2)) as f32 * 0.1f32.powi((i % (ROTARY / 2)) as i32);
    (0..POSITIONS * ROTARY / 2).map(|i| (angle(i).cos(), angle(i).sin())).unzip()
}

#[derive(Clone, Copy, Default)]
struct Pairs {
    interleaved: bool,
    tail: bool,
}

/// The row of a token at this position.
fn rotated(row: &[f32], position: usize, pairs: Pairs) -> Vec<f32> {
    let (cos, sin) = tables();
    let mut result = row.to_vec();
    for head in result.chunks_mut(D) {
        let part = if pairs.tail { &mut head[D - ROTARY..] } else { &mut head[..ROTARY] };
        for pair in 0..ROTARY / 2 {
            let (a, b) = if pairs.interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + ROTARY / 2) };
            let (cos, sin) = (cos[position * ROTARY / 2 + pair], sin[position * ROTARY / 2 + pair]);
            (part[a], part[b]) = (part[a] * cos - part[b] * sin, part[a] * sin + part[b] * cos);
        }
    }
    result
}

/// Whether the cache has these rows, in order of their places, and old ones elsewhere.
fn assert_rows<T: Element + Into<f32>>(cache: &[T], rows: &[(usize, Vec<f32>)], near: f32) {
    for (place, found) in cache.chunks(ROW).enumerate() {
        let new = rows.iter().find(|(row, _)| *row == place).map(|(_, numbers)| numbers.as_slice());
        let expected = new.unwrap_or(&[OLD; ROW]);
        let same = found.iter().zip(expected).all(|(found, expected)| ((*found).into() - expected).abs() <= near);
        assert!(same, "row {place}");
    }
}

#[test]
fn dense_with_queries() -> Result<()> {
    const ROWS: usize = 10; // of each of the three entries of the cache
    let op = Op::builder(DType::F32, D).build()?;
    let (k, v, queries) = (numbers(2 * 3 * ROW, 0.1), numbers(2 * 3 * ROW, 0.2), numbers(2 * 3 * 2 * ROW, 0.3));
    let (cos, sin) = tables();
    let (mut k_cache, mut v_cache) = (vec![OLD; 3 * ROWS * ROW], vec![OLD; 3 * ROWS * ROW]);
    let (new, cache, wide) = ([2, 3, HEADS, D], [3, ROWS, HEADS, D], [2, 3, 2 * HEADS, D]);
    let (entries, held, pads) = ([2i32, 0], [4i32, 7], [1i32, 0]);
    let mut q = queries.clone();
    let args = AppendArgs::new(
        TensorRef::new(&k, new)?,
        TensorRef::new(&v, new)?,
        TensorMut::new(&mut k_cache, cache)?,
        TensorMut::new(&mut v_cache, cache)?,
    )
    .q_in_place(TensorMut::new(&mut q, wide)?)
    .rotary_cos(TensorRef::new(&cos, TABLE)?)
    .rotary_sin(TensorRef::new(&sin, TABLE)?)
    .cache_seqlens(&held)
    .leftpad_k(&pads)
    .kv_batch_idx(&entries)
    .max_seqlen_new(3);
    let mut workspace = Workspace::new(op.append_workspace_size(&args)?)?;
    op.append(&mut args.workspace(&mut workspace))?;

    let token = |i: usize| (i / 3, held[i / 3] as usize + i % 3); // its sequence and its row
    let position = |i: usize| token(i).1 - pads[token(i).0] as usize;
    let place = |i: usize| entries[token(i).0] as usize * ROWS + token(i).1;
    let row = |of: &[f32], i: usize| of[i * ROW..(i + 1) * ROW].to_vec();
    let keys: Vec<_> = (0..6).map(|i| (place(i), rotated(&row(&k, i), position(i), Pairs::default()))).collect();
    assert_rows(&k_cache, &keys, 1e-6);
    assert_rows(&v_cache, &(0..6).map(|i| (place(i), row(&v, i))).collect::<Vec<_>>(), 0.0);
    for (i, (found, from)) in q.chunks(2 * ROW).zip(queries.chunks(2 * ROW)).enumerate() {
        let expected = rotated(from, position(i), Pairs::default());
        assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "query {i}");
    }

    // The cache is one that forward reads: of the last key of sequence 0 alone, out is its value.
    let (mut out, used) = (vec![0f32; 2 * ROW], [1i32]);
    let stride = [ROW, ROW, D, 1].map(|step| step as isize);
    let last = keys[2].0 * ROW;
    let [k, v] = [&k_cache, &v_cache].map(|data| TensorRef::strided(data, last, [1, 1, HEADS, D], stride));
    let (one, q) = ([1, 1, 2 * HEADS, D], TensorRef::new(&q[..2 * ROW], [1, 1, 2 * HEADS, D])?);
    op.forward(&mut ForwardArgs::new(q, k?, v?, TensorMut::new(&mut out, one)?).seqused_k(&used))?;
    assert!(out.chunks(D).enumerate().all(|(head, row)| *row == v_cache[last + head / 2 * D..][..D]));
    Ok(())
}

/// Packed tokens of two sequences, 3 and 2 of them, rounded to f16 pages.
#[test]
fn pages_of_packed_sequences() -> Result<()> {
    const PAGE: usize = 4;
    let op = Op::builder(DType::F32, D).dtype_kv(DType::F16).build()?;
    let (k, v) = (numbers(5 * ROW, 0.4), numbers(5 * ROW, 0.5));
    let (cos, sin) = tables();
    let (held, offsets, pages) = ([3i32, 8], [0i32, 3, 5], [5i32, 2, 0, 1, 4, 3]);
    let (new, cache) = ([1, 5, HEADS, D], [6, PAGE, HEADS, D]);
    let row = |of: &[f32], i: usize| of[i * ROW..(i + 1) * ROW].to_vec();
    for (interleaved, tail) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut k_cache = vec![f16::from_f32(OLD); 6 * PAGE * ROW];
        let mut v_cache = k_cache.clone();
        let mut args = AppendArgs::new(
            TensorRef::new(&k, new)?,
            TensorRef::new(&v, new)?,
            TensorMut::new(&mut k_cache, cache)?,
            TensorMut::new(&mut v_cache, cache)?,
        )
        .block_table(TensorRef::new(&pages, [2, 3, 1, 1])?)
        .cu_seqlens_new(&offsets)
        .cache_seqlens(&held)
        .rotary_cos(TensorRef::new(&cos, TABLE)?)
        .rotary_sin(TensorRef::new(&sin, TABLE)?)
        .rotary_interleaved(interleaved)
        .rotary_tail(tail);
        op.append(&mut args)?;

        let position = |i: usize| if i < 3 { 3 + i } else { 8 + i - 3 };
        let page = |i: usize| pages[i / 3 * 3 + position(i) / PAGE] as usize;
        let place = |i: usize| page(i) * PAGE + position(i) % PAGE;
        let pairs = Pairs { interleaved, tail };
        let keys: Vec<_> = (0..5).map(|i| (place(i), rotated(&row(&k, i), position(i), pairs))).collect();
        assert_rows(&k_cache, &keys, 1e-3);
        let rounded = |i| row(&v, i).iter().map(|x| f16::from_f32(*x).to_f32()).collect();
        assert_rows(&v_cache, &(0..5).map(|i| (place(i), rounded(i))).collect::<Vec<_>>(), 0.0);
    }
    Ok(())
}

/// Keys alone, at slots and positions of 64 and of 32 bits; a token whose slot is negative is skipped.
#[test]
fn slots_and_positions() -> Result<()> {
    fn append<T: Element>(slots: &[T; 4], positions: &[T; 4]) -> Result<()> {
        let op = Op::builder(DType::F32, D).build()?;
        let k = numbers(4 * ROW, 0.6);
        let (cos, sin) = tables();
        let (mut cache, places) = (vec![OLD; 3 * 4 * ROW], [1, 4, 1, 1]);
        let mut args =
            AppendArgs::keys(TensorRef::new(&k, [1, 4, HEADS, D])?, TensorMut::new(&mut cache, [3, 4, HEADS, D])?)
                .slot_mapping(TensorRef::new(slots, places)?)
                .positions(TensorRef::new(positions, places)?)
                .rotary_cos(TensorRef::new(&cos, TABLE)?)
                .rotary_sin(TensorRef::new(&sin, TABLE)?);
        op.append(&mut args)?;
        let row = |i: usize, position| rotated(&k[i * ROW..(i + 1) * ROW], position, Pairs::default());
        assert_rows(&cache, &[(6, row(0, 2)), (11, row(2, 0)), (0, row(3, 15))], 1e-6);
        Ok(())
    }
    append(&[6i64, -1, 11, 0], &[2i64, 3, 0, 15])?;
    append(&[6i32, -1, 11, 0], &[2i32, 3, 0, 15])
}

/// The largest number of a row has the code 127, by a scale that the call writes.
#[test]
fn scales_are_computed() -> Result<()> {
    let op = Op::builder(DType::F32, D).dtype_kv(DType::I8).device(Device::Cpu).build()?;
    let k = numbers(2 * ROW, 0.7);
    let (mut cache, mut scale) = (vec![0u8; 2 * 4 * ROW], vec![OLD; 2 * 4 * HEADS]);
    let new = || TensorRef::new(&k, [2, 1, HEADS, D]);
    let mut args = AppendArgs::keys(new()?, TensorMut::codes(&mut cache, DType::I8, [2, 4, HEADS, D])?)
        .cache_seqlens(&[1, 0])
        .compute_scales(ComputedScales {
            k_scale: Some(TensorMut::new(&mut scale, [2, 4, HEADS, 1])?),
            ..ComputedScales::default()
        });
    op.append(&mut args)?;
    for (sequence, row) in [(0, 1), (1, 4)] {
        for head in 0..HEADS {
            let x = &k[sequence * ROW + head * D..][..D];
            let step = scale[row * HEADS + head];
            assert_eq!(step, x.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0);
            let codes = &cache[row * ROW + head * D..][..D];
            assert!(codes.iter().zip(x).all(|(code, x)| (f32::from(*code as i8) * step - x).abs() <= 0.51 * step));
        }
    }
    assert_eq!(scale.iter().filter(|scale| **scale != OLD).count(), 2 * HEADS);

    // Scales that are given afterwards are read, and none is written.
    let mut args = AppendArgs::keys(new()?, TensorMut::codes(&mut cache, DType::I8, [2, 4, HEADS, D])?)
        .compute_scales(ComputedScales::default())
        .k_scale(TensorRef::new(&[0.5f32], [1, 1, 1, 1])?);
    op.append(&mut args)?;
    assert!((f32::from(cache[0] as i8) * 0.5 - k[0]).abs() <= 0.25);
    Ok(())
}

#[test]
fn refusals() {
    let op = Op::builder(DType::F32, D).build().unwrap();
    let (k, (cos, sin)) = (numbers(2 * ROW, 0.7), tables());
    let (ends, pages, slots) = ([0i32, 1, 2], [0i32, 1], [0i64, 9]);
    macro_rules! refused {
        ($($setter:ident($given:expr)),+; $($word:literal),+) => {
            let mut cache = vec![OLD; 2 * 4 * ROW];
            let new = TensorRef::new(&k, [2, 1, HEADS, D]).unwrap();
            let args = AppendArgs::keys(new, TensorMut::new(&mut cache, [2, 4, HEADS, D]).unwrap());
            let mut args = args$(.$setter($given))+;
            let Err(Error::InvalidArgument(text)) = op.append(&mut args) else { panic!("accepted: {args:?}") };
            $(assert!(text.contains($word), "{text}");)+
            assert!(cache.iter().all(|x| *x == OLD), "{text}");
        };
    }
    let table = |of| TensorRef::new(of, TABLE).unwrap();
    let slots = TensorRef::new(&slots, [2, 1, 1, 1]).unwrap();
    refused!(rotary_cos(table(&cos)); "args.rotary_sin");
    refused!(rotary_interleaved(true); "args.flags", "rotary_cos");
    refused!(rotary_cos(table(&cos)), rotary_sin(table(&sin)), cache_seqlens(&[4, 0]); "args.cache_seqlens[0] is 4");
    refused!(slot_mapping(slots); "args.slot_mapping", "9");
    refused!(slot_mapping(slots), kv_batch_idx(&pages); "args.kv_batch_idx", "slot_mapping");
    // The library cannot see how long arrays are.
    refused!(cache_seqlens(&[1]); "args.cache_seqlens has 1 entries", "expected 2");
    refused!(cu_seqlens_new(&[]); "args.cu_seqlens_new has no entries");
    refused!(cu_seqlens_new(&ends), leftpad_k(&[0, 0, 0]); "args.leftpad_k has 3 entries", "expected 2");
}
