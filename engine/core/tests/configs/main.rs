//! The loader: every fault of every file, told at once, at its place.

mod broken_json;
mod faults_between_files;
mod faults_of_files;
mod faults_of_functions;
mod joined;
mod prices;
mod support;
