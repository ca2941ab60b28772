//! The signature of a tool function: what the engine gives it, what the input holds, what it returns.

use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, Ident, ItemFn, Pat, PathArguments, ReturnType, Type};

/// A signature that the macro understands.
pub(crate) struct Signature {
    /// Whether the first parameter is the context.
    pub(crate) takes_context: bool,
    /// The properties of the input, in order.
    pub(crate) parameters: Vec<Parameter>,
    /// The whole return type.
    pub(crate) returns: Type,
}

/// One property of the input.
pub(crate) struct Parameter {
    /// The parameter's name in Rust.
    pub(crate) name: Ident,
    /// Its type.
    pub(crate) rust_type: Type,
}

impl Parameter {
    /// Returns the property's name in JSON.
    pub(crate) fn key(&self) -> String {
        plain_name(&self.name)
    }
}

/// Returns a name without the `r#` of a raw identifier.
pub(crate) fn plain_name(name: &Ident) -> String {
    name.unraw().to_string()
}

/// Reads the signature of `function`; gathers every fault.
pub(crate) fn read(function: &ItemFn) -> syn::Result<Signature> {
    let mut faults = Faults::default();
    let signature = &function.sig;
    if !signature.generics.params.is_empty() {
        faults.add(fault(&signature.generics, "a tool function cannot be generic: its input has one JSON Schema"));
    }
    if let Some(token) = &signature.constness {
        faults.add(fault(token, "a tool function cannot be `const`"));
    }
    if let Some(token) = &signature.abi {
        faults.add(fault(token, "a tool function has Rust's own calling convention"));
    }
    if let Some(variadic) = &signature.variadic {
        faults.add(fault(variadic, "a tool function has a fixed list of parameters"));
    }
    let mut takes_context = false;
    let mut parameters = Vec::new();
    for (position, argument) in signature.inputs.iter().enumerate() {
        match argument {
            FnArg::Receiver(receiver) => {
                faults.add(fault(receiver, "a tool is a free function: `self` is not supported; state belongs in documents"));
            }
            FnArg::Typed(typed) if names_context(&typed.ty) => {
                if !is_shared_context(&typed.ty) {
                    faults.add(fault(&typed.ty, "the context is given as `&ToolContext`"));
                } else if position > 0 {
                    faults.add(fault(&typed.ty, "the context must be the first parameter"));
                }
                takes_context = true;
            }
            FnArg::Typed(typed) => match parameter(typed) {
                Ok(parameter) => parameters.push(parameter),
                Err(error) => faults.add(error),
            },
        }
    }
    let returns = match &signature.output {
        ReturnType::Type(_, returns) if is_result(returns) => Some(Type::clone(returns)),
        ReturnType::Type(_, returns) => {
            faults.add(fault(&**returns, "a tool function returns `Result<T, ToolError>`, where `T` is what the agent reads"));
            None
        }
        ReturnType::Default => {
            faults.add(fault(&signature.ident, "a tool function returns `Result<T, ToolError>`; this one returns nothing"));
            None
        }
    };
    faults.finish()?;
    let returns = returns.ok_or_else(|| fault(&signature.ident, "a tool function returns `Result<T, ToolError>`"))?;
    Ok(Signature { takes_context, parameters, returns })
}

/// Reads one parameter of the input.
fn parameter(typed: &syn::PatType) -> syn::Result<Parameter> {
    let Pat::Ident(pattern) = &*typed.pat else {
        return Err(fault(&typed.pat, "a tool's parameter is a plain name: it is the name of the input's property"));
    };
    if let Some(attribute) = typed.attrs.first() {
        return Err(fault(attribute, "a tool's parameters are described in its JSON, not by attributes"));
    }
    match &*typed.ty {
        Type::Reference(reference) => {
            Err(fault(reference, "a tool's parameter is owned, such as `String`; only the context is borrowed"))
        }
        Type::ImplTrait(anonymous) => {
            Err(fault(anonymous, "a tool's parameter has a named type: its JSON Schema is made from it"))
        }
        rust_type => Ok(Parameter { name: pattern.ident.clone(), rust_type: rust_type.clone() }),
    }
}

/// Whether `rust_type` is the context, borrowed or not.
fn names_context(rust_type: &Type) -> bool {
    match rust_type {
        Type::Reference(reference) => names_context(&reference.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == "ToolContext"),
        _ => false,
    }
}

/// Whether `rust_type` is `&ToolContext`.
fn is_shared_context(rust_type: &Type) -> bool {
    matches!(rust_type, Type::Reference(reference)
        if reference.mutability.is_none() && matches!(*reference.elem, Type::Path(_)))
}

/// Whether `rust_type` is written as a `Result`; whether its error is a `ToolError` is for the compiler to say.
fn is_result(rust_type: &Type) -> bool {
    matches!(rust_type, Type::Path(path) if path.path.segments.last().is_some_and(|segment| {
        segment.ident.to_string().ends_with("Result") && !matches!(segment.arguments, PathArguments::Parenthesized(_))
    }))
}

/// Returns the success type, if it is written out: the span for the error when the type cannot be serialized.
pub(crate) fn success_type(returns: &Type) -> Option<&Type> {
    let Type::Path(path) = returns else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(success) => Some(success),
        _ => None,
    })
}

/// Errors gathered, so that all are shown at once.
#[derive(Default)]
pub(crate) struct Faults(Option<syn::Error>);

impl Faults {
    /// Adds one.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(earlier) => earlier.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns all errors as one, or `Ok` without any.
    pub(crate) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Points at an attribute or expression, for errors.
pub(crate) fn fault(tokens: &impl Spanned, message: impl std::fmt::Display) -> syn::Error {
    syn::Error::new(tokens.span(), message)
}
