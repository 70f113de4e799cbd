//! A decoder of Llama's shape: RMSNorm, rotary embedding, grouped query attention, SwiGLU. Its weights are random, yet the same
//! everywhere: each is a hash of its place.
pub const VOCABULARY: usize = 512;
pub const WIDTH: usize = 256;
pub const LAYERS: usize = 4;
pub const HEADS: usize = 8;
pub const KV_HEADS: usize = 2;
pub const DIM: usize = 32;
pub const FFN: usize = 512;
pub const MAX_POSITION: usize = 1024;
const QKV: usize = (HEADS + 2 * KV_HEADS) * DIM;

/// (rows, columns), uniform, of variance 1 / rows: splitmix64 of the tensor's number and the element's.
struct Matrix {
    columns: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    fn random(tensor: usize, rows: usize, columns: usize, scale: f32) -> Self {
        let number = |i: usize| {
            let mut x = (((tensor as u64) << 32) + i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let unit = ((x ^ (x >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0;
            unit * (3.0 / rows as f64).sqrt() as f32 * scale
        };
        Matrix { columns, numbers: (0..rows * columns).map(number).collect() }
    }

    fn row(&self, i: usize) -> &[f32] {
        &self.numbers[i * self.columns..][..self.columns]
    }

    /// Rows of x times the matrix.
    fn of(&self, x: &[f32]) -> Vec<f32> {
        let rows = self.numbers.len() / self.columns;
        let mut y = vec![0f32; x.len() / rows * self.columns];
        for (x, y) in x.chunks_exact(rows).zip(y.chunks_exact_mut(self.columns)) {
            for (i, factor) in x.iter().enumerate() {
                y.iter_mut().zip(self.row(i)).for_each(|(sum, weight)| *sum += factor * weight);
            }
        }
        y
    }
}

fn norm(x: &[f32]) -> Vec<f32> {
    let of_row = |row: &[f32]| {
        let mean = row.iter().map(|x| x * x).sum::<f32>() / WIDTH as f32;
        row.iter().map(|x| x / (mean + 1e-5).sqrt()).collect::<Vec<_>>()
    };
    x.chunks_exact(WIDTH).flat_map(of_row).collect()
}

pub struct Layer {
    qkv: Matrix,
    out: Matrix,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Layer {
    fn new(index: usize) -> Self {
        let first = 1 + 5 * index;
        Layer {
            qkv: Matrix::random(first, WIDTH, QKV, 1.0),
            out: Matrix::random(first + 1, HEADS * DIM, WIDTH, 1.0),
            gate: Matrix::random(first + 2, WIDTH, FFN, 1.0),
            up: Matrix::random(first + 3, WIDTH, FFN, 1.0),
            down: Matrix::random(first + 4, FFN, WIDTH, 1.0),
        }
    }

    /// Rows of a token's heads of q, of k and of v: (tokens, HEADS + 2 KV_HEADS, DIM).
    pub fn heads(&self, x: &[f32]) -> Vec<f32> {
        self.qkv.of(&norm(x))
    }

    /// What follows attention (tokens, HEADS, DIM).
    pub fn rest(&self, x: &mut [f32], attended: &[f32]) {
        x.iter_mut().zip(self.out.of(attended)).for_each(|(x, y)| *x += 2.0 * y);
        let (mut gate, up) = (self.gate.of(&norm(x)), self.up.of(&norm(x)));
        gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up / (1.0 + (-*gate).exp()));
        x.iter_mut().zip(self.down.of(&gate)).for_each(|(x, y)| *x += y);
    }
}

pub struct Model {
    embedding: Matrix,
    pub layers: Vec<Layer>,
    head: Matrix,
    /// (MAX_POSITION, DIM / 2)
    pub cos: Vec<f32>,
    pub sin: Vec<f32>,
}

impl Model {
    pub fn new() -> Self {
        let pairs = DIM / 2;
        let angle = |i: usize| (i / pairs) as f64 * 10_000f64.powf(-((i % pairs) as f64) / pairs as f64);
        Model {
            embedding: Matrix::random(0, VOCABULARY, WIDTH, (VOCABULARY as f32).sqrt()),
            layers: (0..LAYERS).map(Layer::new).collect(),
            head: Matrix::random(1 + 5 * LAYERS, WIDTH, VOCABULARY, 1.0),
            cos: (0..MAX_POSITION * pairs).map(|i| angle(i).cos() as f32).collect(),
            sin: (0..MAX_POSITION * pairs).map(|i| angle(i).sin() as f32).collect(),
        }
    }

    pub fn embedded(&self, tokens: &[usize]) -> Vec<f32> {
        tokens.iter().flat_map(|token| self.embedding.row(*token).to_vec()).collect()
    }

    /// The most likely token after each row of x.
    pub fn best(&self, x: &[f32]) -> Vec<usize> {
        let best_of = |row: &[f32]| (0..row.len()).reduce(|a, b| if row[b] > row[a] { b } else { a }).unwrap_or(0);
        self.head.of(&norm(x)).chunks_exact(VOCABULARY).map(best_of).collect()
    }
}
