//! Trees of tokens that may follow, and their masks.

/// Tokens, each behind its parent; the root, the last token that is certain, is its own parent.
pub struct Tree {
    pub tokens: Vec<usize>,
    parents: Vec<usize>,
}

impl Tree {
    pub fn chain(tokens: &[usize]) -> Self {
        Tree { tokens: tokens.to_vec(), parents: (0..tokens.len()).map(|i| i.saturating_sub(1)).collect() }
    }

    /// Prompt lookup: each branch is what followed an earlier occurrence of the last token, the latest first.
    pub fn draft(text: &[usize], branches: usize, depth: usize) -> Self {
        let (last, before) = text.split_last().expect("a prompt of at least one token");
        let mut tree = Tree::chain(&[*last]);
        let places = (0..before.len()).rev().filter(|place| before[*place] == *last);
        for place in places.take(branches) {
            let mut parent = 0;
            for token in text[place + 1..].iter().take(depth) {
                let known =
                    (1..tree.tokens.len()).find(|node| tree.parents[*node] == parent && tree.tokens[*node] == *token);
                parent = known.unwrap_or_else(|| {
                    tree.tokens.push(*token);
                    tree.parents.push(parent);
                    tree.tokens.len() - 1
                });
            }
        }
        tree
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Steps from the root to each token.
    pub fn depth(&self) -> Vec<usize> {
        let mut depth = vec![0; self.len()];
        for node in 1..self.len() {
            depth[node] = depth[self.parents[node]] + 1;
        }
        depth
    }

    /// (tokens, words): bit j of a token's row, counted from the lowest bit of its first word: it attends token j.
    pub fn mask(&self, words: usize) -> Vec<i32> {
        let mut bits = vec![0u32; self.len() * words];
        for (node, parent) in self.parents.iter().enumerate() {
            bits.copy_within(parent * words..(parent + 1) * words, node * words);
            bits[node * words + node / 32] |= 1 << (node % 32);
        }
        bits.into_iter().map(|word| word as i32).collect()
    }

    /// The nodes from the root on whose tokens are the best ones after their parents.
    pub fn verified(&self, best: &[usize]) -> Vec<usize> {
        let (mut path, mut last) = (vec![0], 0);
        for node in 1..self.len() {
            if self.parents[node] == last && self.tokens[node] == best[last] {
                path.push(node);
                last = node;
            }
        }
        path
    }
}
