//! The code that the attribute writes beside a function.

use std::path::PathBuf;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ItemFn, Path};

use crate::config::{self, Config, Declared, suggestion};
use crate::crate_path;
use crate::options::Options;
use crate::signature::fault;
use crate::signature::{self, Faults, Parameter, Signature};

/// Returns the function unchanged, followed by its registration or by the compile errors.
pub(crate) fn tool(options: &Options, function: ItemFn) -> TokenStream {
    let addition = registration(options, &function).unwrap_or_else(syn::Error::into_compile_error);
    quote! {
        #[allow(
            clippy::needless_pass_by_value,
            clippy::too_many_arguments,
            clippy::unnecessary_wraps,
            reason = "the engine prescribes the shape of the signature"
        )]
        #function
        #addition
    }
}

fn registration(options: &Options, function: &ItemFn) -> syn::Result<TokenStream> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let core = options.core.clone().unwrap_or_else(|| crate_path::default_path(folder.as_deref()));
    let id = options.tool_id(&function.sig.ident)?;
    let signature = signature::read(function)?;
    let config = match folder.as_deref().and_then(|folder| config::find(folder, &id)) {
        None => None,
        Some(Ok(config)) => Some(config),
        Some(Err(reason)) => return Err(fault(&function.sig.ident, reason)),
    };
    let agreement = match &config {
        Some(config) => agreement(&core, config, &signature, function)?,
        None => TokenStream::new(),
    };
    let cfg = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let arguments = arguments(&core, &signature.parameters);
    let invoke = invoke(&core, &signature, function);
    let entry = entry(&core, &id, function);
    let preview = options.preview.as_ref().map(|text| {
        quote! {
            #core::__private::inventory::submit! { #core::ToolPreview { id: #id, text: #text } }
        }
    });
    Ok(quote! {
        #(#cfg)*
        const _: () = {
            #arguments
            #invoke
            #entry
            #preview
            #agreement
        };
    })
}

/// Returns the type that the input is deserialized into.
fn arguments(core: &Path, parameters: &[Parameter]) -> TokenStream {
    let serde = path_text(core, "serde");
    let schemars = path_text(core, "schemars");
    let fields = parameters.iter().map(|Parameter { name, rust_type }| quote!(#name: #rust_type));
    quote! {
        #[derive(#core::__private::serde::Deserialize, #core::__private::schemars::JsonSchema)]
        #[serde(crate = #serde, deny_unknown_fields)]
        #[schemars(crate = #schemars)]
        #[allow(non_snake_case, reason = "a config may name its parameters in camel case")]
        struct __ToolArguments { #(#fields),* }
    }
}

/// `core::__private::name` as the text that derive attributes want.
fn path_text(core: &Path, name: &str) -> String {
    let core = core.to_token_stream().to_string().replace(' ', "");
    format!("{core}::__private::{name}")
}

/// Returns the function behind the pointer. It deserializes the input, makes the call and serializes the output.
fn invoke(core: &Path, signature: &Signature, function: &ItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let context = signature.takes_context.then(|| quote!(__context,));
    let unused = (!signature.takes_context).then(|| quote!(let _ = __context;));
    let names: Vec<_> = signature.parameters.iter().map(|parameter| &parameter.name).collect();
    let awaited = function.sig.asyncness.as_ref().map(|_| quote!(.await));
    let returns = &signature.returns;
    // All tokens of the statement get the span of the return type, so the compiler reports a wrong type there and
    // nowhere else.
    let result = standing_at(
        returns.span(),
        quote!(let __result: ::core::result::Result<_, #core::ToolError> = #name(#context #(#names),*) #awaited;),
    );
    let success = signature::success_type(returns).map_or_else(|| returns.span(), Spanned::span);
    let output = standing_at(success, quote!(#core::to_output(&__output)));
    quote! {
        fn __tool_invoke<'a>(
            __context: &'a #core::ToolContext,
            __input: &'a #core::__private::Json,
        ) -> #core::BoxFuture<'a, ::core::result::Result<#core::__private::Json, #core::ToolError>> {
            ::std::boxed::Box::pin(async move {
                #unused
                let __ToolArguments { #(#names),* } = #core::from_input(__input)?;
                #result
                let __output = __result?;
                #output
            })
        }
    }
}

/// Returns the same tokens, all with the span `place`.
fn standing_at(place: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        if let TokenTree::Group(group) = &token {
            token = TokenTree::Group(Group::new(group.delimiter(), standing_at(place, group.stream())));
        }
        token.set_span(place.resolved_at(token.span()));
        token
    });
    moved.collect()
}

/// Returns the registration that `inventory` collects.
fn entry(core: &Path, id: &str, function: &ItemFn) -> TokenStream {
    let name = signature::plain_name(&function.sig.ident);
    let blocking = function.sig.asyncness.is_none();
    // Spanned as the name, so that the place is the function's and not the attribute's.
    let line = quote_spanned!(function.sig.ident.span()=> ::core::line!());
    let file = quote_spanned!(function.sig.ident.span()=> ::core::file!());
    quote! {
        #core::__private::inventory::submit! {
            #core::ToolFunction {
                id: #id,
                name: #name,
                file: #file,
                line: #line,
                parameters: #core::schema_of::<__ToolArguments>,
                blocking: #blocking,
                invoke: __tool_invoke,
            }
        }
    }
}

/// Checks the signature against the config at compile time: the macro compares names, the compiler compares types and
/// required parameters.
fn agreement(core: &Path, config: &Config, signature: &Signature, function: &ItemFn) -> syn::Result<TokenStream> {
    let from_crate = &config.from_crate;
    // Cargo rebuilds when an included file changes.
    let rebuild =
        quote! { const _: &str = ::core::include_str!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), #from_crate)); };
    let Some(declared) = &config.parameters else { return Ok(rebuild) };
    let mut faults = Faults::default();
    let keys: Vec<String> = signature.parameters.iter().map(Parameter::key).collect();
    let mut assertions = TokenStream::new();
    for (parameter, key) in signature.parameters.iter().zip(&keys) {
        if let Some(declared) = declared.iter().find(|declared| declared.name == *key) {
            assertions.extend(assertion(core, config, parameter, declared));
        } else {
            let absent =
                declared.iter().map(|declared| declared.name.as_str()).filter(|name| !keys.iter().any(|key| key == name));
            let message = format!("{} has no parameter {key:?}{}", config.shown, suggestion(key, absent));
            faults.add(fault(&parameter.name, message));
        }
    }
    for missing in declared.iter().filter(|declared| !keys.contains(&declared.name)) {
        let near =
            signature.parameters.iter().filter(|parameter| !declared.iter().any(|declared| declared.name == parameter.key()));
        // A renamed parameter was reported above, at its own place.
        let near: Vec<String> = near.map(Parameter::key).collect();
        if config::nearest(&missing.name, near.iter().map(String::as_str)).is_none() {
            let message = format!(
                "{} declares the parameter {:?}, which fn {} does not accept",
                config.shown, missing.name, function.sig.ident
            );
            faults.add(fault(&function.sig.ident, message));
        }
    }
    faults.finish()?;
    Ok(quote! { #rebuild #assertions })
}

/// Asserts that a parameter's Rust type takes what the config declares. The compiler knows aliases and newtypes, which
/// a comparison of tokens would not; a type that it cannot judge is compared by schema at start-up.
fn assertion(core: &Path, config: &Config, parameter: &Parameter, declared: &Declared) -> TokenStream {
    let rust_type = &parameter.rust_type;
    let written =
        rust_type.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace(" :: ", "::").replace(" ,", ",");
    let key = &declared.name;
    let shown = &config.shown;
    let span = rust_type.span();
    let mut assertions = TokenStream::new();
    if let Some(required) = declared.required {
        let message = if required {
            format!("{shown} declares parameter {key:?} as required, but its type `{written}` makes it optional")
        } else {
            format!("{shown} declares parameter {key:?} as optional, but its type `{written}` is not an `Option`")
        };
        assertions.extend(quote_spanned! {span=>
            const _: () = {
                #[allow(unused_imports, reason = "a type with its own constant needs none of the traits")]
                use #core::signature::{OptionalByDefault as _, Probe};
                ::core::assert!(Probe::<#rust_type>::OPTIONAL != #required, #message);
            };
        });
    }
    if !declared.types.is_empty() {
        let types = &declared.types;
        let message =
            format!("{shown} declares parameter {key:?} as {}, which its type `{written}` does not accept", types.join(" or "));
        assertions.extend(quote_spanned! {span=>
            const _: () = {
                #[allow(unused_imports, reason = "a type with its own constant needs none of the traits")]
                use #core::signature::{OptionalByDefault as _, Probe, UnknownByDefault as _};
                #(::core::assert!(Probe::<#rust_type>::TYPE.takes(#types), #message);)*
            };
        });
    }
    assertions
}
