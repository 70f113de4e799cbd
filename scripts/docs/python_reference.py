"""The Python package's modules as a page of the site, from their docstrings and signatures. Nothing is imported."""

import ast
import html
import pathlib
import re

PACKAGE = pathlib.Path(__file__).parents[2] / "bindings" / "python" / "libfa"
PAGE = "reference/python.md"
MODULES = {  # in the order of the page; those of a package are where its __init__ imports them from
    "libfa": ("attention", "append", "backward", "merge", "op", "errors"),
    "libfa.torch": ("torch",),
    "libfa.distributed": ("distributed/calls", "distributed/decode", "distributed/shards", "distributed/traffic", "dealt_bytes", "distributed/wire", "dealt_rows"),
    "libfa.jax": ("jax",),
    "libfa.jax_distributed": ("jax_distributed", "jax_decode"),
    "libfa.flash_attn": ("flash_attn",),
    "libfa.flash_attn_cute": ("flash_attn_cute",),
    "libfa.bert_padding": ("bert_padding",),
    "libfa.torch_varlen": ("torch_varlen",),
    "libfa.torch_sdpa": ("torch_sdpa",),
    "libfa.transformers": ("transformers",),
    "libfa.diffusers": ("diffusers",),
    "libfa.xformers": ("xformers",),
    "libfa.flashinfer": ("flashinfer",),
    "libfa.vllm": ("vllm",),
}


def tree_of(module):
    return ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


def package_of(module):
    """The file of a package's __init__; None of a mere module."""
    path = "/".join([*module.split(".")[1:], "__init__"])
    return path if (PACKAGE / f"{path}.py").exists() else None


def exported(package):
    """The names of a package."""
    for node in tree_of(package).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
    raise ValueError(f"{package} has no __all__")


def overloaded(node):
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


class Constants(ast.NodeTransformer):
    """Puts the values of a module's constants in the place of their names, which defaults have."""

    def __init__(self, tree):
        self.values = {}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                target, value = node.targets[0], node.value
                pairs = zip(target.elts, value.elts) if isinstance(target, ast.Tuple) else [(target, value)]
                self.values.update({ast.unparse(name): value for name, value in pairs})

    def visit_Name(self, node):
        return self.values.get(node.id, node)


def public(module, parts):
    """Its classes and functions."""
    package = package_of(module)
    names = exported(package) if package else None
    for part in parts:
        tree = tree_of(part)
        constants = Constants(tree)
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_") or overloaded(node):
                continue
            if (node.name in names) if names else ast.get_docstring(node):
                if isinstance(node, ast.FunctionDef):
                    node.args.defaults = [constants.visit(default) for default in node.args.defaults]
                    node.args.kw_defaults = [default and constants.visit(default) for default in node.args.kw_defaults]
                yield node


def signature(name, function, method=False):
    """The call, without types, in lines of 92 columns."""
    arguments = function.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument:
            argument.annotation = None
    if method:
        (arguments.posonlyargs or arguments.args).pop(0)
    parts = split(ast.unparse(arguments))
    lines, line = [], f"{name}("
    for i, part in enumerate(parts):
        piece = part + (", " if i + 1 < len(parts) else "")
        if len(line + piece) > 92:
            lines.append(line.rstrip())
            line = "    "
        line += piece
    return "\n".join([*lines, line + ")"])


def split(text):
    """The arguments of a call: parted at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def paragraphs(text):
    """A docstring as HTML: lists in columns and indented lines keep their shape."""
    shown = []
    for block in re.split(r"\n\s*\n", text or ""):
        if re.search(r"\S {3,}\S|^ {4}", block, re.M):
            shown.append(f'<pre class="fa-text">{html.escape(block)}</pre>')
        elif block.strip():
            shown.append(f"<p>{html.escape(' '.join(block.split()))}</p>")
    return shown


def methods(node):
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and (member.name == "__init__" or ast.get_docstring(member)):
            if not member.name.startswith("_") or member.name == "__init__":
                yield member


def page():
    parts = ["# Python"]
    for module, files in MODULES.items():
        parts.append(f"## {module}")
        parts += paragraphs(ast.get_docstring(tree_of(package_of(module) or files[0])))
        for node in public(module, files):
            name = f"{module}.{node.name}"
            parts.append(f"### {node.name} {{#{name}}}")
            if isinstance(node, ast.FunctionDef):
                parts.append(f"```python\n{signature(name, node)}\n```")
                parts += paragraphs(ast.get_docstring(node))
                continue
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            constructor = next((member for member in methods(node) if member.name == "__init__"), None)
            shown = signature(name, constructor, method=True) if constructor else f"class {name}({bases})"
            parts.append(f"```python\n{shown}\n```")
            parts += paragraphs(ast.get_docstring(node))
            for member in methods(node):
                if member.name != "__init__":
                    parts.append(f"```python\n{signature(f'{node.name}.{member.name}', member, method=True)}\n```")
                    parts += paragraphs(ast.get_docstring(member))
    return "\n\n".join(parts) + "\n"
