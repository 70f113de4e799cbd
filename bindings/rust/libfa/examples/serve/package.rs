//! Packages of a model as Hugging Face's transformers writes and reads them: config.json of the type "llama", and weights in one
//! .safetensors file or several.
use std::fs;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{json, Value};

use crate::model::{Layer, Matrix, Model, Norm, Sizes};

type Result<T> = std::result::Result<T, String>;

const PLAIN: [(&str, &str); 4] =
    [("model_type", "\"llama\""), ("hidden_act", "\"silu\""), ("attention_bias", "false"), ("mlp_bias", "false")];

/// The sizes of config.json, and whether the embedding is the head too.
fn sizes_of(path: &Path) -> Result<(Sizes, bool)> {
    let at = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("{at}: {error}; expected a folder with config.json and *.safetensors"))?;
    let config: Value = serde_json::from_str(&text).map_err(|error| format!("{at}: is no JSON: {error}"))?;
    for (name, expected) in PLAIN {
        if let Some(given) = config.get(name).map(Value::to_string).filter(|given| *given != expected) {
            return Err(format!("{at}: {name} is {given}; expected {expected}"));
        }
    }
    let rope =
        ["rope_parameters", "rope_scaling"].iter().filter_map(|name| config.get(name)).find(|rope| rope.is_object());
    let kind = rope.and_then(|rope| rope.get("rope_type").or(rope.get("type")));
    if let Some(kind) = kind.filter(|kind| *kind != "default") {
        return Err(format!("{at}: rotary embedding of the type {kind}; expected \"default\""));
    }
    let positive = |name: &str| match config.get(name).and_then(Value::as_f64) {
        Some(number) if number > 0.0 => Ok(number),
        _ => Err(format!("{at}: {name} is {}; expected a positive number", config.get(name).unwrap_or(&Value::Null))),
    };
    let given = |name: &str| config.get(name).is_some_and(|value| !value.is_null());
    let size = |name: &str| positive(name).map(|number| number as usize);
    let (width, heads) = (size("hidden_size")?, size("num_attention_heads")?);
    let sizes = Sizes {
        vocabulary: size("vocab_size")?,
        width,
        layers: size("num_hidden_layers")?,
        heads,
        kv_heads: if given("num_key_value_heads") { size("num_key_value_heads")? } else { heads },
        dim: if given("head_dim") { size("head_dim")? } else { width / heads },
        ffn: size("intermediate_size")?,
        max_position: size("max_position_embeddings")?,
        rotary_base: rope
            .and_then(|rope| rope.get("rope_theta"))
            .or(config.get("rope_theta"))
            .and_then(Value::as_f64)
            .unwrap_or(10_000.0),
        epsilon: positive("rms_norm_eps")?,
    };
    Ok((sizes, config.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false)))
}

/// The files of a folder, by their names.
fn files_of(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: has no *.safetensors", folder.display()));
    }
    let read = |path: PathBuf| match fs::read(&path) {
        Ok(bytes) => Ok((path, bytes)),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    paths.into_iter().map(read).collect()
}

struct Weights<'a> {
    folder: &'a Path,
    files: Vec<(&'a Path, SafeTensors<'a>)>,
}

impl Weights<'_> {
    /// A tensor in f32.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let found = self.files.iter().find_map(|(path, file)| Some((path.display(), file.tensor(name).ok()?)));
        let (path, tensor) = found.ok_or_else(|| {
            format!("{}: {name} is in none of its files; expected it, of shape {shape:?}", self.folder.display())
        })?;
        if tensor.shape() != shape {
            let got = tensor.shape();
            return Err(format!("{path}: {name} has shape {got:?}; expected {shape:?}, as config.json has it"));
        }
        let pairs = || tensor.data().chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
        Ok(match tensor.dtype() {
            Dtype::F32 => tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            Dtype::F16 => pairs().map(|bits| f16::from_bits(bits).to_f32()).collect(),
            Dtype::BF16 => pairs().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
            other => return Err(format!("{path}: {name} holds {other:?}; expected F32, F16 or BF16")),
        })
    }

    /// (outputs, inputs) in files, transposed.
    fn matrix(&self, name: &str, outputs: usize, inputs: usize) -> Result<Matrix> {
        Ok(Matrix::new(inputs, self.tensor(name, &[outputs, inputs])?).transposed())
    }

    fn layer(&self, s: &Sizes, index: usize) -> Result<Layer> {
        let name = |part: &str| format!("model.layers.{index}.{part}.weight");
        let (rows, kv_rows, epsilon) = (s.heads * s.dim, s.kv_heads * s.dim, s.epsilon as f32);
        let mut qkv = Vec::new();
        for (part, rows) in [("q", rows), ("k", kv_rows), ("v", kv_rows)] {
            qkv.extend(self.tensor(&name(&format!("self_attn.{part}_proj")), &[rows, s.width])?);
        }
        Ok(Layer {
            before_attention: Norm { weight: self.tensor(&name("input_layernorm"), &[s.width])?, epsilon },
            qkv: Matrix::new(s.width, qkv).transposed(),
            out: self.matrix(&name("self_attn.o_proj"), s.width, rows)?,
            before_rest: Norm { weight: self.tensor(&name("post_attention_layernorm"), &[s.width])?, epsilon },
            gate: self.matrix(&name("mlp.gate_proj"), s.ffn, s.width)?,
            up: self.matrix(&name("mlp.up_proj"), s.ffn, s.width)?,
            down: self.matrix(&name("mlp.down_proj"), s.width, s.ffn)?,
        })
    }
}

/// The model of a folder; else a text that names the file, what it has and what is expected.
pub fn read(folder: &Path) -> Result<Model> {
    let (s, tied) = sizes_of(&folder.join("config.json"))?;
    let bytes = files_of(folder)?;
    let mut files = Vec::new();
    for (path, bytes) in &bytes {
        let file = SafeTensors::deserialize(bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        files.push((path.as_path(), file));
    }
    let weights = Weights { folder, files };
    let embedding = Matrix::new(s.width, weights.tensor("model.embed_tokens.weight", &[s.vocabulary, s.width])?);
    let head = if tied { embedding.transposed() } else { weights.matrix("lm_head.weight", s.vocabulary, s.width)? };
    let layers = (0..s.layers).map(|index| weights.layer(&s, index)).collect::<Result<_>>()?;
    let last = Norm { weight: weights.tensor("model.norm.weight", &[s.width])?, epsilon: s.epsilon as f32 };
    Ok(Model::new(s, embedding, layers, last, head))
}

/// Writes a package in f32.
pub fn write(model: &Model, folder: &Path) -> Result<()> {
    let s = &model.sizes;
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    let mut add = |name: String, shape: &[usize], numbers: &[f32]| {
        tensors.push((name, shape.to_vec(), numbers.iter().flat_map(|x| x.to_le_bytes()).collect()));
    };
    let name = |part: &str| format!("{part}.weight");
    add(name("model.embed_tokens"), &model.embedding.shape(), model.embedding.numbers());
    add(name("model.norm"), &[s.width], &model.last_norm.weight);
    add(name("lm_head"), &[s.vocabulary, s.width], model.head.transposed().numbers());
    for (index, layer) in model.layers.iter().enumerate() {
        let name = |part: &str| format!("model.layers.{index}.{part}.weight");
        let qkv = layer.qkv.transposed();
        let (q, kv) = qkv.numbers().split_at(s.heads * s.dim * s.width);
        let (k, v) = kv.split_at(kv.len() / 2);
        for (part, numbers) in [("q", q), ("k", k), ("v", v)] {
            add(name(&format!("self_attn.{part}_proj")), &[numbers.len() / s.width, s.width], numbers);
        }
        for (part, norm) in
            [("input_layernorm", &layer.before_attention), ("post_attention_layernorm", &layer.before_rest)]
        {
            add(name(part), &[s.width], &norm.weight);
        }
        for (part, matrix) in [
            ("self_attn.o_proj", &layer.out),
            ("mlp.gate_proj", &layer.gate),
            ("mlp.up_proj", &layer.up),
            ("mlp.down_proj", &layer.down),
        ] {
            let [inputs, outputs] = matrix.shape();
            add(name(part), &[outputs, inputs], matrix.transposed().numbers());
        }
    }
    let config = json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": false,
        "mlp_bias": false,
        "tie_word_embeddings": false,
        "torch_dtype": "float32",
        "vocab_size": s.vocabulary,
        "hidden_size": s.width,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.dim,
        "intermediate_size": s.ffn,
        "max_position_embeddings": s.max_position,
        "rms_norm_eps": s.epsilon,
        "rope_theta": s.rotary_base,
    });
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    fs::write(folder.join("config.json"), format!("{config:#}\n")).map_err(|error| failed(&error))?;
    let mut views = Vec::new();
    for (name, shape, bytes) in &tensors {
        views.push((name, TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(|error| failed(&error))?));
    }
    let about = [("format".to_string(), "pt".to_string())].into();
    safetensors::serialize_to_file(views, Some(about), &folder.join("model.safetensors"))
        .map_err(|error| failed(&error))
}
