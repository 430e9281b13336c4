//! Primitives: time, memory leases, limits of the machine, files that may hang, tasks and their end, safe text, why an
//! attempt did not win, and the log. Not for anything that knows of models or requests.

pub mod clock;
pub mod coding;
pub mod failure;
pub mod files;
pub mod machine;
pub mod memory;
pub mod names;
pub mod pace;
pub mod parts;
pub mod printable;
pub mod recent;
pub mod shutdown;
pub mod telemetry;
