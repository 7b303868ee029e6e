//! Rules, layers and their meet.
