//! Models of the example serve: a package that it writes is the model again, and what is wrong with one is said.
#[path = "../examples/serve/model.rs"]
#[allow(dead_code)] // what the server needs besides
mod model;
#[path = "../examples/serve/package.rs"]
mod package;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use half::{bf16, f16};
use model::Model;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

fn random() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(Model::random)
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    /// With the random model in it.
    fn new(name: &str) -> Self {
        let folder = Folder(std::env::temp_dir().join(format!("fa_serve_{name}_{}", std::process::id())));
        package::write(random(), &folder.0).unwrap();
        folder
    }

    fn edit_config(&self, from: &str, to: &str) {
        let path = self.0.join("config.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    fn refusal(&self) -> String {
        package::read(&self.0).expect_err("is no package")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_written_package_is_the_model_again() {
    let folder = Folder::new("written");
    assert!(package::read(&folder.0).unwrap() == *random());
}

/// Under the names that transformers has for them, (outputs, inputs).
#[test]
fn tensors_have_their_names() {
    let folder = Folder::new("names");
    let bytes = fs::read(folder.0.join("model.safetensors")).unwrap();
    let (file, layer) = (SafeTensors::deserialize(&bytes).unwrap(), &random().layers[3]);
    let qkv = layer.qkv.transposed();
    let (q, kv) = qkv.numbers().split_at(256 * 256);
    let (k, v) = kv.split_at(64 * 256);
    for (name, numbers) in [
        ("self_attn.q_proj", q),
        ("self_attn.k_proj", k),
        ("self_attn.v_proj", v),
        ("self_attn.o_proj", layer.out.transposed().numbers()),
        ("mlp.gate_proj", layer.gate.transposed().numbers()),
        ("mlp.up_proj", layer.up.transposed().numbers()),
        ("mlp.down_proj", layer.down.transposed().numbers()),
        ("input_layernorm", &layer.before_attention.weight),
        ("post_attention_layernorm", &layer.before_rest.weight),
    ] {
        let tensor = file.tensor(&format!("model.layers.3.{name}.weight")).unwrap();
        let expected: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert!(tensor.data() == expected, "{name}");
    }
    assert_eq!(file.names().len(), 3 + 4 * 9);
}

/// Half of the tensors in a file of f16, the others in one of bf16; the head is the embedding.
#[test]
fn sixteen_bits_in_two_files_and_a_tied_head() {
    let folder = Folder::new("halves");
    folder.edit_config("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    let path = folder.0.join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let whole = SafeTensors::deserialize(&bytes).unwrap();
    let names: Vec<_> = whole.names().into_iter().filter(|name| *name != "lm_head.weight").collect();
    for (half, dtype) in [Dtype::F16, Dtype::BF16].into_iter().enumerate() {
        let rounded: Vec<_> = names
            .iter()
            .filter(|name| name.contains("mlp") == (half == 0))
            .map(|name| {
                let tensor = whole.tensor(name).unwrap();
                let numbers = tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                let bits = |x| if half == 0 { f16::from_f32(x).to_bits() } else { bf16::from_f32(x).to_bits() };
                (name, tensor.shape().to_vec(), numbers.flat_map(|x| bits(x).to_le_bytes()).collect::<Vec<u8>>())
            })
            .collect();
        let views: Vec<_> = rounded
            .iter()
            .map(|(name, shape, bytes)| (name, TensorView::new(dtype, shape.clone(), bytes).unwrap()))
            .collect();
        safetensors::serialize_to_file(views, None, &folder.0.join(format!("{half}.safetensors"))).unwrap();
    }
    fs::remove_file(path).unwrap();

    let (read, random) = (package::read(&folder.0).unwrap(), random());
    assert!(read.head == read.embedding.transposed());
    let near =
        |read: &[f32], exact: &[f32], round: fn(f32) -> f32| read.iter().zip(exact).all(|(x, y)| *x == round(*y));
    assert!(near(read.layers[1].down.numbers(), random.layers[1].down.numbers(), |x| f16::from_f32(x).to_f32()));
    assert!(near(read.layers[2].qkv.numbers(), random.layers[2].qkv.numbers(), |x| bf16::from_f32(x).to_f32()));
    assert!(near(read.embedding.numbers(), random.embedding.numbers(), |x| bf16::from_f32(x).to_f32()));
}

#[test]
fn refusals() {
    let folder = Folder::new("refusals");
    let config = fs::read_to_string(folder.0.join("config.json")).unwrap();
    for (from, to, text) in [
        ("\"llama\"", "\"gpt2\"", "config.json: model_type is \"gpt2\"; expected \"llama\""),
        ("\"hidden_size\": 256", "\"hidden_size\": 0", "hidden_size is 0; expected a positive number"),
        ("\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true; expected false"),
        (
            "\"hidden_act\"",
            "\"rope_scaling\": {\"type\": \"linear\"}, \"hidden_act\"",
            "type \"linear\"; expected \"default\"",
        ),
        (
            "_layers\": 4",
            "_layers\": 5",
            "layers.4.self_attn.q_proj.weight is in none of its files; expected it, of shape [256, 256]",
        ),
        ("_size\": 512", "_size\": 500", "has shape [512, 256]; expected [500, 256], as config.json has it"),
        ("{", "", "config.json: is no JSON"),
    ] {
        folder.edit_config(from, to);
        let refusal = folder.refusal();
        assert!(refusal.contains(text), "{refusal}\n{text}");
        fs::write(folder.0.join("config.json"), &config).unwrap();
    }
}

#[test]
fn files_that_are_not_there_or_no_weights() {
    let folder = Folder::new("files");
    fs::write(folder.0.join("model.safetensors"), [0; 20]).unwrap();
    assert!(folder.refusal().contains("model.safetensors: "));
    fs::remove_file(folder.0.join("model.safetensors")).unwrap();
    assert!(folder.refusal().contains("has no *.safetensors"));
    fs::remove_file(folder.0.join("config.json")).unwrap();
    assert!(folder.refusal().contains("expected a folder with config.json and *.safetensors"));
}
