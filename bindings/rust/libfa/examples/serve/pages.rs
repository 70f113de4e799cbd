//! Pages of the cache: who has which, and which prefixes of texts they hold.
use std::collections::{HashMap, VecDeque};

pub const PAGE_SIZE: usize = 16;

/// A page that holds a whole block of a text is found again by the text up to its end, and shared. When nobody uses it, it keeps its
/// contents until its memory is needed, the longest unused first.
pub struct Pages {
    users: Vec<usize>,
    unused: VecDeque<usize>,
    page_of: HashMap<Vec<usize>, usize>,
    text_of: HashMap<usize, Vec<usize>>,
}

impl Pages {
    pub fn new(count: usize) -> Self {
        Pages { users: vec![0; count], unused: (0..count).collect(), page_of: HashMap::new(), text_of: HashMap::new() }
    }

    /// An empty page, if there is one.
    pub fn take(&mut self) -> Option<usize> {
        let page = self.unused.pop_front()?;
        if let Some(text) = self.text_of.remove(&page) {
            self.page_of.remove(&text);
        }
        self.users[page] = 1;
        Some(page)
    }

    /// The pages that hold the longest prefix of the text, now used by the caller too; at least one token is left out.
    pub fn prefix(&mut self, text: &[usize]) -> Vec<usize> {
        let mut pages = Vec::new();
        while let Some(page) =
            text[..text.len() - 1].get(..(pages.len() + 1) * PAGE_SIZE).and_then(|text| self.page_of.get(text))
        {
            self.users[*page] += 1;
            self.unused.retain(|unused| unused != page);
            pages.push(*page);
        }
        pages
    }

    /// The page has the last block of the text: let others find it, unless they have one with the same.
    pub fn filled(&mut self, page: usize, text: &[usize]) {
        if !self.page_of.contains_key(text) && !self.text_of.contains_key(&page) {
            self.page_of.insert(text.to_vec(), page);
            self.text_of.insert(page, text.to_vec());
        }
    }

    pub fn give_back(&mut self, pages: Vec<usize>) {
        for page in pages {
            self.users[page] -= 1;
            if self.users[page] == 0 {
                self.unused.push_back(page);
            }
        }
    }
}
