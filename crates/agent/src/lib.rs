//! The turn machine of one agent, without IO.
