//! Continuous batching: each step computes the next tokens of all running requests in one packed call a layer, prompts in chunks,
//! and verifies drafts of the others as trees.
use std::collections::VecDeque;

use libfa::{AppendArgs, ComputedScales, DType, ForwardArgs, Mask, Op, Result, TensorMut, TensorRef};

use crate::drafts::Tree;
use crate::model::{Model, Sizes};
use crate::pages::{Pages, PAGE_SIZE};

/// Tokens of a prompt that one step computes.
const CHUNK: usize = 32;

pub struct Request {
    pub name: String,
    /// The prompt, and the tokens that were generated.
    pub text: Vec<usize>,
    pub prompt: usize,
    pub count: usize,
    pages: Vec<usize>,
    /// Tokens whose keys and values are in the cache.
    cached: usize,
}

impl Request {
    pub fn new(name: String, prompt: Vec<usize>, count: usize) -> Self {
        Request { name, prompt: prompt.len(), text: prompt, count, pages: Vec::new(), cached: 0 }
    }

    pub fn tokens(&self) -> &[usize] {
        &self.text[self.prompt..]
    }

    fn missing(&self) -> usize {
        self.prompt + self.count - self.text.len()
    }
}

/// 8-bit codes of the keys and values of one layer, and a scale for each token and head.
struct Cache {
    heads: usize,
    dim: usize,
    k: Vec<u8>,
    v: Vec<u8>,
    k_scale: Vec<f32>,
    v_scale: Vec<f32>,
}

impl Cache {
    fn new(pages: usize, sizes: &Sizes) -> Self {
        let (heads, dim) = (sizes.kv_heads, sizes.dim);
        let rows = pages * PAGE_SIZE * heads;
        let (codes, scales) = (vec![0; rows * dim], vec![0.0; rows]);
        Cache { heads, dim, k: codes.clone(), v: codes, k_scale: scales.clone(), v_scale: scales }
    }

    /// A token to an earlier place.
    fn move_token(&mut self, from: usize, to: usize) {
        let (codes, scales) = (self.heads * self.dim, self.heads);
        for part in [&mut self.k, &mut self.v] {
            part.copy_within(from * codes..(from + 1) * codes, to * codes);
        }
        for part in [&mut self.k_scale, &mut self.v_scale] {
            part.copy_within(from * scales..(from + 1) * scales, to * scales);
        }
    }
}

#[derive(Debug, Default)]
pub struct Statistics {
    pub steps: usize,
    pub computed: usize,
    pub shared: usize,
    pub drafted: usize,
    pub accepted: usize,
    pub preempted: usize,
}

pub struct Engine<'a> {
    model: &'a Model,
    attention: Op,
    num_pages: usize,
    pages: Pages,
    caches: Vec<Cache>,
    branches: usize,
    depth: usize,
    pub waiting: VecDeque<Request>,
    running: Vec<Request>,
    pub statistics: Statistics,
}

impl<'a> Engine<'a> {
    pub fn new(model: &'a Model, num_pages: usize, branches: usize) -> Result<Self> {
        Ok(Engine {
            model,
            attention: Op::builder(DType::F32, model.sizes.dim).dtype_kv(DType::I8).mask(Mask::Causal).build()?,
            num_pages,
            pages: Pages::new(num_pages),
            caches: model.layers.iter().map(|_| Cache::new(num_pages, &model.sizes)).collect(),
            branches,
            depth: 4,
            waiting: VecDeque::new(),
            running: Vec::new(),
            statistics: Statistics::default(),
        })
    }

    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Computes one batch; the requests that it completed. None: not one request fits into the cache.
    pub fn step(&mut self) -> Result<Option<Vec<Request>>> {
        self.admit();
        let trees = self.schedule();
        if trees.is_empty() {
            return Ok(None);
        }
        let best = self.compute(&trees)?;
        self.statistics.steps += 1;
        let mut best = best.as_slice();
        for (i, tree) in trees.iter().enumerate() {
            let (own, others) = best.split_at(tree.len());
            self.accept(i, tree, own);
            best = others;
        }
        let (completed, running) =
            std::mem::take(&mut self.running).into_iter().partition(|request| request.missing() == 0);
        self.running = running;
        let mut completed: Vec<Request> = completed;
        for request in &mut completed {
            self.pages.give_back(std::mem::take(&mut request.pages));
        }
        Ok(Some(completed))
    }

    /// Requests join at any step; a prefix that is in the cache is not computed again.
    fn admit(&mut self) {
        while let Some(mut request) = self.waiting.pop_front() {
            request.pages = self.pages.prefix(&request.text);
            request.cached = request.pages.len() * PAGE_SIZE;
            self.statistics.shared += request.cached;
            self.running.push(request);
        }
    }

    /// The new tokens of each running request. Where pages run out, the latest requests wait again.
    fn schedule(&mut self) -> Vec<Tree> {
        let mut trees = Vec::new();
        while let Some(request) = self.running.get(trees.len()) {
            let new = &request.text[request.cached..];
            let tree = if new.len() > 1 {
                Tree::chain(&new[..new.len().min(CHUNK)])
            } else {
                Tree::draft(&request.text, self.branches, self.depth.min(request.missing() - 1))
            };
            if self.reserve(trees.len(), tree.len()) {
                trees.push(tree);
            } else if let Some(mut latest) = self.running.pop() {
                self.statistics.preempted += 1;
                self.pages.give_back(std::mem::take(&mut latest.pages));
                latest.cached = 0;
                self.waiting.push_front(latest);
            }
        }
        trees
    }

    fn reserve(&mut self, request: usize, tokens: usize) -> bool {
        let request = &mut self.running[request];
        while request.pages.len() * PAGE_SIZE < request.cached + tokens {
            let Some(page) = self.pages.take() else { return false };
            request.pages.push(page);
        }
        true
    }

    /// The most likely token after each new one. New tokens of all requests are packed one after another.
    fn compute(&mut self, trees: &[Tree]) -> Result<Vec<usize>> {
        let tokens: Vec<usize> = trees.iter().flat_map(|tree| tree.tokens.clone()).collect();
        let (total, batch) = (tokens.len(), trees.len());
        let mut starts = vec![0i32];
        starts.extend(trees.iter().scan(0, |end, tree| {
            *end += tree.len() as i32;
            Some(*end)
        }));
        let cached: Vec<i32> = self.running.iter().map(|request| request.cached as i32).collect();
        let used: Vec<i32> = cached.iter().zip(trees).map(|(cached, tree)| cached + tree.len() as i32).collect();
        let width = self.running.iter().map(|request| request.pages.len()).max().unwrap_or(0);
        let table: Vec<i32> = self
            .running
            .iter()
            .flat_map(|request| (0..width).map(|i| request.pages.get(i).map_or(0, |page| *page as i32)))
            .collect();
        let longest = trees.iter().map(Tree::len).max().unwrap_or(0);
        let words = longest.div_ceil(32);
        let mask: Vec<i32> = trees.iter().flat_map(|tree| tree.mask(words)).collect();
        let places = cached
            .iter()
            .zip(trees)
            .flat_map(|(cached, tree)| tree.depth().into_iter().map(move |d| cached + d as i32));
        let positions: Vec<i32> = places.collect();

        let mut x = self.model.embedded(&tokens);
        self.statistics.computed += total;
        let Sizes { heads: q_heads, kv_heads, dim, max_position, .. } = self.model.sizes;
        let (pages, pairs) = (self.num_pages, dim / 2);
        let (codes, scales) = ([pages, PAGE_SIZE, kv_heads, dim], [pages, PAGE_SIZE, kv_heads, 1]);
        let (mut q, mut out) = (vec![0f32; total * q_heads * dim], vec![0f32; total * q_heads * dim]);
        for (layer, cache) in self.model.layers.iter().zip(&mut self.caches) {
            let heads = layer.heads(&x);
            let row = (self.model.sizes.all_heads() * dim) as isize;
            let view = |first: usize, count: usize| {
                let stride = [row * total as isize, row, dim as isize, 1];
                TensorRef::strided(&heads, first * dim, [1, total, count, dim], stride)
            };
            let table = TensorRef::new(&table, [batch, width, 1, 1])?;
            let mut append = AppendArgs::new(
                view(q_heads, kv_heads)?,
                view(q_heads + kv_heads, kv_heads)?,
                TensorMut::codes(&mut cache.k, DType::I8, codes)?,
                TensorMut::codes(&mut cache.v, DType::I8, codes)?,
            )
            .compute_scales(ComputedScales {
                k_scale: Some(TensorMut::new(&mut cache.k_scale, scales)?),
                v_scale: Some(TensorMut::new(&mut cache.v_scale, scales)?),
                ..Default::default()
            })
            .q(view(0, q_heads)?)
            .q_out(TensorMut::new(&mut q, [1, total, q_heads, dim])?)
            .rotary_cos(TensorRef::new(&self.model.cos, [1, max_position, 1, pairs])?)
            .rotary_sin(TensorRef::new(&self.model.sin, [1, max_position, 1, pairs])?)
            .positions(TensorRef::new(&positions, [1, total, 1, 1])?)
            .block_table(table)
            .cu_seqlens_new(&starts)
            .cache_seqlens(&cached);
            self.attention.append(&mut append)?;

            let mut forward = ForwardArgs::new(
                TensorRef::new(&q, [1, total, q_heads, dim])?,
                TensorRef::codes(&cache.k, DType::I8, codes)?,
                TensorRef::codes(&cache.v, DType::I8, codes)?,
                TensorMut::new(&mut out, [1, total, q_heads, dim])?,
            )
            .k_scale(TensorRef::new(&cache.k_scale, scales)?)
            .v_scale(TensorRef::new(&cache.v_scale, scales)?)
            .tree_mask(TensorRef::new(&mask, [1, 1, total, words])?)
            .block_table(table)
            .cu_seqlens_q(&starts)
            .max_seqlen_q(longest)
            .seqused_k(&used);
            self.attention.forward(&mut forward)?;
            layer.rest(&mut x, &out);
        }
        Ok(self.model.best(&x))
    }

    /// Follows the tree from its root as long as it has the model's own token, and moves what was verified together.
    fn accept(&mut self, request: usize, tree: &Tree, best: &[usize]) {
        let request = &mut self.running[request];
        let first = request.cached;
        if request.text.len() - first > 1 {
            request.cached += tree.len(); // of a prompt all tokens are known
            if request.cached == request.text.len() {
                request.text.extend(best.last());
            }
        } else {
            let path = tree.verified(best);
            for (i, node) in path.iter().enumerate() {
                let place = |row: usize| request.pages[row / PAGE_SIZE] * PAGE_SIZE + row % PAGE_SIZE;
                self.caches.iter_mut().for_each(|cache| cache.move_token(place(first + node), place(first + i)));
            }
            request.cached += path.len();
            request.text.extend(path.iter().map(|node| best[*node]));
            self.statistics.drafted += tree.len() - 1;
            self.statistics.accepted += path.len() - 1;
        }
        for block in first / PAGE_SIZE..request.cached / PAGE_SIZE {
            self.pages.filled(request.pages[block], &request.text[..(block + 1) * PAGE_SIZE]);
        }
    }
}
