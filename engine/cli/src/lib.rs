//! Hierarchical multi-agent jobs from JSON: library and program.
