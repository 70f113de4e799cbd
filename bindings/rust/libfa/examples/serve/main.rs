//! Serves several requests at once, as an inference server does, on libfa alone: continuous batching, a paged cache of 8-bit codes,
//! pages of a common prefix computed once, drafts verified as trees. Every token is compared with that of a naive program.
//!
//!   cargo run --release --example serve -- [--model FOLDER] [--save FOLDER] [--requests N] [--pages N] [--branches N]
mod drafts;
mod engine;
mod model;
mod naive;
mod package;
mod pages;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use engine::{Engine, Request};
use model::Model;

struct Options {
    /// A folder of config.json and *.safetensors; None: random weights.
    model: Option<PathBuf>,
    /// Where the model is written first.
    save: Option<PathBuf>,
    requests: usize,
    pages: usize,
    branches: usize,
}

fn options() -> Result<Options, String> {
    let mut options = Options { model: None, save: None, requests: 6, pages: 40, branches: 2 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if let "--model" | "--save" = name.as_str() {
            let folder = Some(PathBuf::from(arguments.next().ok_or(format!("{name}: expected a folder"))?));
            *(if name == "--model" { &mut options.model } else { &mut options.save }) = folder;
            continue;
        }
        let option = match name.as_str() {
            "--requests" => &mut options.requests,
            "--pages" => &mut options.pages,
            "--branches" => &mut options.branches,
            _ => {
                return Err(format!(
                "{name}: expected --model or --save and a folder, or --requests, --pages or --branches and a number"
            ))
            }
        };
        let value = arguments.next().unwrap_or_default();
        *option = value.parse().map_err(|_| format!("{name}: got {value:?}, expected a number"))?;
    }
    Ok(options)
}

/// Prompts: a common instruction of 40 tokens, then some of each one's own.
fn requests(count: usize, vocabulary: usize) -> VecDeque<Request> {
    let of = |r: usize| {
        let instruction = (0..40).map(|i| 7 * i % vocabulary);
        let own = (0..3 + 7 * r).map(|i| (101 * r + 13 * i * i) % vocabulary);
        Request::new(format!("request {r}"), instruction.chain(own).collect(), 24 + 2 * r)
    };
    (0..count).map(of).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let model = options.model.as_deref().map_or(Ok(Model::random()), package::read)?;
    if let Some(folder) = &options.save {
        package::write(&model, folder)?;
    }
    let mut engine = Engine::new(&model, options.pages, options.branches)?;
    let mut late = requests(options.requests, model.sizes.vocabulary);
    let longest = late.iter().map(|request| request.prompt + request.count).max().unwrap_or(0);
    let positions = model.sizes.max_position;
    if longest > positions {
        return Err(format!("a text would have {longest} tokens; the model has {positions} positions").into());
    }
    engine.waiting = late.drain(..late.len() / 2).collect();

    let (start, mut completed) = (Instant::now(), Vec::new());
    while !engine.idle() || !late.is_empty() {
        if engine.idle() || engine.statistics.steps % 3 == 2 {
            engine.waiting.extend(late.pop_front());
        }
        completed.extend(engine.step()?.ok_or("--pages: too few for one request")?);
    }
    let seconds = start.elapsed().as_secs_f64();
    completed.sort_by(|a, b| a.name.cmp(&b.name));
    let mut wrong = 0;
    for request in &completed {
        println!(
            "{}: {} + {} tokens: {:?} ...",
            request.name,
            request.prompt,
            request.tokens().len(),
            &request.tokens()[..12]
        );
        let best = naive::best(&model, &request.text[..request.text.len() - 1]);
        let expected = &best[request.prompt - 1..];
        if request.tokens() != expected {
            println!("  expected: {expected:?}");
            wrong += 1;
        }
    }
    let generated: usize = completed.iter().map(|request| request.count).sum();
    println!("{:?}", engine.statistics);
    println!("{generated} tokens, {:.0} a second", generated as f64 / seconds);
    if wrong > 0 {
        return Err(format!("{wrong} requests differ from the naive program").into());
    }
    println!("as the naive program has them");
    Ok(())
}
