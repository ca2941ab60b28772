//! The arguments of the attribute: `id`, `preview` and `crate`.

use proc_macro2::{Span, TokenStream};
use syn::parse::Parser;
use syn::{LitStr, Path};

/// Arguments of `#[tool(…)]`.
#[derive(Default)]
pub(crate) struct Options {
    /// The tool id, where it is not the function's name.
    pub(crate) id: Option<LitStr>,
    /// The function that previews the texts which a call makes.
    pub(crate) preview: Option<Path>,
    /// Path of `baton_tool`.
    pub(crate) core: Option<Path>,
}

impl Options {
    /// Reads the arguments; an unknown one is an error that names the known ones.
    pub(crate) fn parse(arguments: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| {
            if meta.path.is_ident("id") {
                options.id = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("preview") {
                options.preview = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("crate") {
                options.core = Some(meta.value()?.parse::<LitStr>()?.parse()?);
            } else {
                return Err(meta.error("unknown argument; #[tool] knows `id = \"…\"`, `preview = …` and `crate = \"…\"`"));
            }
            Ok(())
        })
        .parse2(arguments)?;
        Ok(options)
    }

    /// Returns the tool id for a function named `name`. An error has the span of the id or of the function's name.
    pub(crate) fn tool_id(&self, name: &syn::Ident) -> syn::Result<String> {
        let (id, span): (String, Span) = match &self.id {
            Some(id) => (id.value(), id.span()),
            None => (crate::signature::plain_name(name), name.span()),
        };
        match id_fault(&id) {
            None => Ok(id),
            Some(fault) => Err(syn::Error::new(span, format!("{id:?} cannot be a tool id: {fault}"))),
        }
    }
}

/// Returns the fault of `id`, if any. Repeats the rule of `baton_types::id::is_valid_id`, since that crate cannot be a
/// dependency of the macro.
fn id_fault(id: &str) -> Option<&'static str> {
    let well_formed = id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.split(['_', '-']).all(|part| {
            !part.is_empty() && part.chars().all(|character| character.is_ascii_lowercase() || character.is_ascii_digit())
        });
    if !well_formed {
        return Some("ids are lower-case words and digits joined by single `_` or `-`");
    }
    if id.len() > 64 {
        return Some("it has more than 64 characters");
    }
    id.starts_with("route_to_").then_some("the prefix `route_to_` is reserved for delegations")
}
