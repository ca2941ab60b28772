//! The loader: every fault of every file, reported at once, at its place.

mod acceptance;
mod agents;
mod broken_json;
mod catalogs;
mod configurations;
mod conformance;
mod edits;
mod faults_between_files;
mod faults_of_files;
mod faults_of_functions;
mod forms;
mod joined;
mod models;
mod names;
mod prices;
mod programs;
mod projects;
mod reading;
mod schemas;
mod services;
mod settings;
mod shared;
mod signatures;
mod sources;
mod support;
mod tools;
