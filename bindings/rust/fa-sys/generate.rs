// Generates the bindings from fa.h: bindgen's output with changes that make it easier to use.
//
//   - the functions are in one functions! { ... }, which src/lib.rs links or loads
//   - a constant has the type of the typedef that precedes its enum in the header (fa_dtype), else u32
//   - offsets are asserted where pointers have 64 bits only
//   - comments have no tags of promises

/// The text of src/bindings.rs for a header.
pub fn bindings(header: &str) -> String {
    let raw = bindgen::Builder::default()
        .header(header)
        .use_core()
        .allowlist_item("fa_.*|FA_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .clang_arg("-fparse-all-comments") // the header's comments are documentation
        .rust_target(bindgen::RustTarget::stable(82, 0).unwrap_or_default())
        .rust_edition(bindgen::RustEdition::Edition2021)
        .disable_header_comment()
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .expect("bindgen could not read fa.h: is libclang installed (Debian: libclang-dev)?")
        .to_string();
    arranged(&untagged(&raw))
}

/// Without the tags of promises (` [F12]`), which are for fa.h's own tests and would be links in Rust's documentation.
fn untagged(raw: &str) -> String {
    let mut parts = raw.split(" [F");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        match part[digits..].strip_prefix(']') {
            Some(rest) if digits > 0 => text += rest,
            _ => text += &format!(" [F{part}"),
        }
    }
    text
}

fn arranged(raw: &str) -> String {
    const LAYOUT: &str = "#[allow(clippy::unnecessary_operation, clippy::identity_op)]";
    let mut types =
        String::from("// Generated from include/fa.h by scripts/generate-bindings.sh: change that instead.\n\n");
    let mut functions = String::new();
    let mut in_functions = false;
    let mut enums: Vec<(String, String)> = Vec::new(); // bindgen's name of an enum, its type
    let mut typedef = String::new(); // the last item, when it was a typedef of i32
    for line in raw.lines() {
        if line.starts_with("unsafe extern \"C\" {") {
            in_functions = true;
        } else if in_functions && line == "}" {
            in_functions = false;
        } else if in_functions {
            functions += &format!("{}\n", line);
        } else if let Some((name, rest)) = constant_of_enum(line) {
            if enums.last().map(|last| &last.0) != Some(&name) {
                let kind = if typedef.is_empty() { "u32" } else { &typedef };
                enums.push((name.clone(), kind.to_string()));
            }
            let kind = &enums.last().unwrap().1;
            types += &format!("{}\n", line.replace(&format!("{name} = {rest}"), &format!("{kind} = {rest}")));
        } else if line.starts_with("pub type _bindgen_ty_") {
            while types.trim_end().lines().last().is_some_and(|last| last.starts_with("///")) {
                let end = types.trim_end().rfind('\n').map_or(0, |at| at + 1);
                types.truncate(end); // its comment: a constant cannot carry it
            }
            typedef.clear();
        } else {
            if line.starts_with("pub type ") && line.ends_with(" = i32;") {
                typedef = line["pub type ".len()..line.len() - " = i32;".len()].to_string();
            } else if !line.starts_with("///") {
                typedef.clear();
            }
            if line == LAYOUT {
                types += "#[cfg(target_pointer_width = \"64\")]\n";
            }
            types += &format!("{line}\n");
        }
    }
    format!("{types}\nfunctions! {{\n{functions}}}\n")
}

/// `pub const NAME: _bindgen_ty_N = VALUE;` as (`_bindgen_ty_N`, `VALUE;`).
fn constant_of_enum(line: &str) -> Option<(String, String)> {
    let (_, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
    let (name, value) = rest.split_once(" = ")?;
    name.starts_with("_bindgen_ty_").then(|| (name.to_string(), value.to_string()))
}
