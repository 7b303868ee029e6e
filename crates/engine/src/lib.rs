//! Runs a tree of agents: ports, scheduler, driver, dispatch, recovery.
