//! A decoder of Llama's shape: RMSNorm, rotary embedding, grouped query attention, SwiGLU. Its weights are those of a package, or
//! random, yet the same everywhere: each is a hash of its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    pub vocabulary: usize,
    pub width: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub dim: usize,
    pub ffn: usize,
    pub max_position: usize,
    pub rotary_base: f64,
    pub epsilon: f64,
}

impl Sizes {
    /// Heads of q, k and v.
    pub fn all_heads(&self) -> usize {
        self.heads + 2 * self.kv_heads
    }
}

const RANDOM: Sizes = Sizes {
    vocabulary: 512,
    width: 256,
    layers: 4,
    heads: 8,
    kv_heads: 2,
    dim: 32,
    ffn: 512,
    max_position: 1024,
    rotary_base: 10_000.0,
    epsilon: 1e-5,
};

/// (inputs, outputs), row by row.
#[derive(Debug, PartialEq)]
pub struct Matrix {
    columns: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    pub fn new(columns: usize, numbers: Vec<f32>) -> Self {
        Matrix { columns, numbers }
    }

    /// Uniform, of variance 1 / rows where scale is 1: splitmix64 of the tensor's number and the element's.
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

    /// (rows, columns)
    pub fn shape(&self) -> [usize; 2] {
        [self.numbers.len() / self.columns, self.columns]
    }

    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    pub fn transposed(&self) -> Self {
        let [rows, columns] = self.shape();
        let numbers = (0..columns).flat_map(|j| (0..rows).map(move |i| self.numbers[i * columns + j]));
        Matrix::new(rows, numbers.collect())
    }

    fn row(&self, i: usize) -> &[f32] {
        &self.numbers[i * self.columns..][..self.columns]
    }

    /// Rows of x times the matrix.
    fn of(&self, x: &[f32]) -> Vec<f32> {
        let [rows, columns] = self.shape();
        let mut y = vec![0f32; x.len() / rows * columns];
        for (x, y) in x.chunks_exact(rows).zip(y.chunks_exact_mut(columns)) {
            for (i, factor) in x.iter().enumerate() {
                y.iter_mut().zip(self.row(i)).for_each(|(sum, weight)| *sum += factor * weight);
            }
        }
        y
    }
}

/// RMSNorm: a weight for each column, and the number that keeps rows of zeros finite.
#[derive(Debug, PartialEq)]
pub struct Norm {
    pub weight: Vec<f32>,
    pub epsilon: f32,
}

impl Norm {
    fn ones(sizes: &Sizes) -> Self {
        Norm { weight: vec![1.0; sizes.width], epsilon: sizes.epsilon as f32 }
    }

    fn of(&self, x: &[f32]) -> Vec<f32> {
        let width = self.weight.len();
        let of_row = |row: &[f32]| {
            let mean = row.iter().map(|x| x * x).sum::<f32>() / width as f32;
            let root = (mean + self.epsilon).sqrt();
            row.iter().zip(&self.weight).map(|(x, weight)| x / root * weight).collect::<Vec<_>>()
        };
        x.chunks_exact(width).flat_map(of_row).collect()
    }
}

#[derive(Debug, PartialEq)]
pub struct Layer {
    pub before_attention: Norm,
    pub qkv: Matrix,
    pub out: Matrix,
    pub before_rest: Norm,
    pub gate: Matrix,
    pub up: Matrix,
    pub down: Matrix,
}

impl Layer {
    fn random(s: &Sizes, index: usize) -> Self {
        let first = 1 + 5 * index;
        Layer {
            before_attention: Norm::ones(s),
            qkv: Matrix::random(first, s.width, s.all_heads() * s.dim, 1.0),
            out: Matrix::random(first + 1, s.heads * s.dim, s.width, 2.0),
            before_rest: Norm::ones(s),
            gate: Matrix::random(first + 2, s.width, s.ffn, 1.0),
            up: Matrix::random(first + 3, s.width, s.ffn, 1.0),
            down: Matrix::random(first + 4, s.ffn, s.width, 1.0),
        }
    }

    /// Rows of a token's heads of q, of k and of v: (tokens, all_heads, dim).
    pub fn heads(&self, x: &[f32]) -> Vec<f32> {
        self.qkv.of(&self.before_attention.of(x))
    }

    /// What follows attention (tokens, heads, dim).
    pub fn rest(&self, x: &mut [f32], attended: &[f32]) {
        x.iter_mut().zip(self.out.of(attended)).for_each(|(x, y)| *x += y);
        let normed = self.before_rest.of(x);
        let (mut gate, up) = (self.gate.of(&normed), self.up.of(&normed));
        gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up / (1.0 + (-*gate).exp()));
        x.iter_mut().zip(self.down.of(&gate)).for_each(|(x, y)| *x += y);
    }
}

#[derive(Debug, PartialEq)]
pub struct Model {
    pub sizes: Sizes,
    pub embedding: Matrix,
    pub layers: Vec<Layer>,
    pub last_norm: Norm,
    pub head: Matrix,
    /// (max_position, dim / 2)
    pub cos: Vec<f32>,
    pub sin: Vec<f32>,
}

impl Model {
    pub fn new(sizes: Sizes, embedding: Matrix, layers: Vec<Layer>, last_norm: Norm, head: Matrix) -> Self {
        let (pairs, base) = (sizes.dim / 2, sizes.rotary_base);
        let angle = |i: usize| (i / pairs) as f64 * base.powf(-((i % pairs) as f64) / pairs as f64);
        let angles = 0..sizes.max_position * pairs;
        let cos = angles.clone().map(|i| angle(i).cos() as f32).collect();
        let sin = angles.map(|i| angle(i).sin() as f32).collect();
        Model { sizes, embedding, layers, last_norm, head, cos, sin }
    }

    pub fn random() -> Self {
        let s = RANDOM;
        let embedding = Matrix::random(0, s.vocabulary, s.width, (s.vocabulary as f32).sqrt());
        let layers = (0..s.layers).map(|index| Layer::random(&s, index)).collect();
        let head = Matrix::random(1 + 5 * s.layers, s.width, s.vocabulary, 1.0);
        Model::new(s.clone(), embedding, layers, Norm::ones(&s), head)
    }

    pub fn embedded(&self, tokens: &[usize]) -> Vec<f32> {
        tokens.iter().flat_map(|token| self.embedding.row(*token).to_vec()).collect()
    }

    /// The most likely token after each row of x.
    pub fn best(&self, x: &[f32]) -> Vec<usize> {
        let best_of = |row: &[f32]| (0..row.len()).reduce(|a, b| if row[b] > row[a] { b } else { a }).unwrap_or(0);
        self.head.of(&self.last_norm.of(x)).chunks_exact(self.sizes.vocabulary).map(best_of).collect()
    }
}
