//! What no dialect has alone: bounds, growing answers, templates.

mod bounds;
mod growing;
mod template;
