//! What answers for an agent: the Model trait and the scripted model.
