//! A model made of a closure.

use async_trait::async_trait;
use baton_types::model::{ModelRequest, ModelTurn};

use crate::error::ModelError;
use crate::model::{ContentSource, Model};

/// A model that answers by calling a function: the smallest one, for tests and for programs that embed the engine.
///
/// ```
/// use baton_types::model::ModelTurn;
/// use baton_models::FunctionModel;
///
/// let model = FunctionModel::new(|request| Ok(ModelTurn::text(format!("{} was asked", request.agent))));
/// # let _: std::sync::Arc<dyn baton_models::Model> = std::sync::Arc::new(model);
/// ```
pub struct FunctionModel<F>(F);

impl<F> FunctionModel<F>
where
    F: Fn(&ModelRequest) -> Result<ModelTurn, ModelError> + Send + Sync,
{
    /// Returns a model that answers what `function` returns.
    pub fn new(function: F) -> Self {
        Self(function)
    }
}

#[async_trait]
impl<F> Model for FunctionModel<F>
where
    F: Fn(&ModelRequest) -> Result<ModelTurn, ModelError> + Send + Sync,
{
    async fn answer(&self, request: &ModelRequest, _contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        (self.0)(request)
    }
}
