//! End-to-end stories: one binary, one file for each.

mod cli_asking;
mod cli_bad_input;
mod cli_bash;
mod cli_cancel;
mod cli_deliver;
mod cli_demo;
mod cli_detach;
mod cli_doctor;
mod cli_gc;
mod cli_help;
mod cli_logs;
mod cli_look;
mod cli_permissions;
mod cli_plan;
mod cli_plan_run;
mod cli_resume;
mod cli_run;
mod cli_salvage;
mod cli_send;
mod cli_settings;
mod cli_signals;
mod cli_store;
mod cli_terminal;
mod cli_web;
mod escape;
mod support;
